// Command mcpgo-features is an mcp-go server with every feature of an era but
// tasks, or an mcp-go client that goes through every feature on such a server:
//
//	mcpgo-features -era legacy|modern serve
//	mcpgo-features -era legacy|modern URL features
//
// The server prints "listening on http://HOST:PORT/mcp" when ready and ends
// when its standard input closes. The client prints one JSON object a feature,
// {"step":NAME,…}, and {"ok":true}, within 60 seconds.
package main

import "peers/play"

type fields = play.Fields

func main() { play.Features("mcpgo-features", handler, run) }
