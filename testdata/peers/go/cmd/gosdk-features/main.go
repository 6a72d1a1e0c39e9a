// Command gosdk-features is a go-sdk server with every feature of an era, or a
// go-sdk client that goes through every feature on such a server:
//
//	gosdk-features -era legacy|modern serve
//	gosdk-features -era legacy|modern URL features
//
// The server prints "listening on http://HOST:PORT/mcp" when ready and ends
// when its standard input closes. The client prints one JSON object a feature,
// {"step":NAME,…}, and {"ok":true}, within 60 seconds.
package main

import (
	"context"
	"fmt"
	"peers/play"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type fields = play.Fields

func main() { play.Features("gosdk-features", handler, run) }

func run(ctx context.Context, url string, modern bool) error {
	p := newPeer(modern)
	session, err := p.client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: play.Version(modern)})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer session.Close()
	p.ClientSession = session
	for _, f := range p.features() {
		play.Do(ctx, f.name, f.run)
	}
	return nil
}
