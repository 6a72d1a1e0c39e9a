package e2e

import (
	"maps"
	"net/http"
	"testing"

	"taskbridge/translate"
)

// S41: what a modern client mirrors is checked where the tool's marks are known,
// and by that tool's alone, for a legacy server, which never gets it; a modern
// one gets it as it is and checks for itself.
func TestSafetyS41_WrongMirrors(t *testing.T) {
	const tools = `"tools":[{"name":"marked","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}},` +
		`{"name":"plain","inputSchema":{"type":"object","properties":{"region":{"type":"string"}}}}]`
	for _, era := range []translate.Era{translate.Legacy, translate.Modern} {
		t.Run(era.String()+" server", func(t *testing.T) {
			server := newScripted(t, era, func(c *scriptCall) bool {
				if c.Method == "tools/list" {
					c.Result(c.complete(tools))
					return true
				}
				return false
			})
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Modern, "")
			c.call("tools/list", "")
			send := func(tool string, more http.Header) rawReply {
				server.Forget()
				h := c.headers("tools/call", tool)
				maps.Copy(h, more)
				return c.post(h, request("7", "tools/call", c.params(`"name":`+quote(tool)+`,"arguments":{"region":"us"}`)))
			}
			for _, row := range []struct {
				name, tool string
				header     http.Header
				refused    bool
			}{
				{"right", "marked", http.Header{"Mcp-Param-Region": {"us"}}, false},
				{"another value", "marked", http.Header{"Mcp-Param-Region": {"eu"}}, true},
				{"missing", "marked", nil, true},
				{"an unknown mark beside it", "marked", http.Header{"Mcp-Param-Region": {"us"}, "Mcp-Param-Zone": {"z"}}, false},
				{"another tool's mark", "plain", http.Header{"Mcp-Param-Region": {"eu"}}, false},
				{"a tool nobody listed", "hidden", http.Header{"Mcp-Param-Region": {"eu"}}, false},
			} {
				r := send(row.tool, row.header)
				calls := server.Requests("tools/call")
				if row.refused && era == translate.Legacy {
					if r.Status != 400 || r.Code() != -32020 || len(calls) != 0 {
						t.Errorf("%s: %s, %d calls", row.name, r, len(calls))
					}
					continue
				}
				if r.Status != 200 || r.Code() != 0 || len(calls) != 1 {
					t.Errorf("%s: %s, %d calls", row.name, r, len(calls))
					continue
				}
				for name := range row.header {
					got := calls[0].Header[name]
					if era == translate.Legacy && len(got) != 0 {
						t.Errorf("%s: a legacy server got %s: %v", row.name, name, got)
					}
					if era == translate.Modern && (len(got) != 1 || got[0] != row.header.Get(name)) {
						t.Errorf("%s: %s went up as %v", row.name, name, got)
					}
				}
			}
		})
	}
}
