package e2e

import (
	"fmt"
	"strings"
	"testing"

	"taskbridge/translate"
)

// More marked tools than are remembered: each can be called, at the cost of a
// list where its server misses the header.
func TestMirroredHeaders_TenThousandTools(t *testing.T) {
	const n = 10_000
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, `,{"name":"t%d","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`, i)
	}
	server := newScripted(t, translate.Modern, func(c *scriptCall) bool {
		switch {
		case c.Method == "tools/list":
			c.Result(c.complete(`"tools":[` + list.String()[1:] + `]`))
		case c.Method == "tools/call" && c.R.Header.Get("Mcp-Param-Region") != "eu":
			c.JSON(400, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"error":{"code":-32020,"message":"Header mismatch: Mcp-Param-Region is missing"}}`)
		case c.Method == "tools/call":
			c.Result(c.text("fine"))
		default:
			return false
		}
		return true
	})
	c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Legacy, "")
	if r := c.call("tools/list", ""); strings.Count(string(r.answer().Result), `"name"`) != n {
		t.Fatalf("the list has %d tools", strings.Count(string(r.answer().Result), `"name"`))
	}
	for _, tool := range []string{"t0", "t9999", "t9998", "t9999", "t5000"} {
		if r := c.call("tools/call", `"name":`+quote(tool)+`,"arguments":{"region":"eu"}`); r.Text() != "fine" {
			t.Errorf("%s: %s", tool, clip(r.String()))
		}
	}
	if lists := len(server.Requests("tools/list")); lists > 4 {
		t.Errorf("the server was asked for its list %d times", lists)
	}
}
