package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSafetyS36_LineEndsInside: a server writes its JSON with CR, LF and CRLF
// between tokens, in a body or in an event. Over each transport that frames by
// lines the message comes as one, equal but for these.
func TestSafetyS36_LineEndsInside(t *testing.T) {
	const content = `{"content":[{"type":"text","text":"a\r\nb\u2028"}],"structuredContent":{"n":1.0}}`
	broken := strings.NewReplacer(`{"`, "{\r\n\"", `,"`, ",\r\"", `":`, "\"\n:\r").Replace
	for _, events := range []bool{false, true} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			var m struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.Unmarshal(raw, &m)
			var result string
			switch {
			case m.Method == "initialize":
				w.Header().Set("Mcp-Session-Id", "s")
				result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
			case m.Method == "tools/call":
				result = content
			case m.Method == "server/discover":
				w.WriteHeader(http.StatusBadRequest)
				return
			case r.Method == http.MethodGet:
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			default:
				w.WriteHeader(http.StatusAccepted)
				return
			}
			text := broken(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
			if !events {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, text)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for line := range strings.SplitSeq(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n") {
				fmt.Fprintf(w, "data: %s\n", line)
			}
			io.WriteString(w, "\n")
		}))
		defer srv.Close()
		s := serve(t, "--upstream", srv.URL+"/mcp")
		for name, c := range map[string]*lineClient{
			"stdio":    startStdio(t, false, srv.URL+"/mcp"),
			"http+sse": startStdio(t, false, "--upstream-transport", "sse", strings.TrimSuffix(s.url, "/mcp")+"/sse"),
		} {
			c.initialize()
			m := c.must("tools/call", map[string]any{"name": "x"}, nil)
			if string(m.Result) != content {
				t.Errorf("%s, events %v: %s", name, events, m.Result)
			}
			c.in.Close()
		}
		// As the event of an HTTP reply: a legacy client's call that streams.
		status, header, body := ask(t, "POST", s.url, http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}},
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		if status != http.StatusOK {
			t.Fatalf("initialize: %d %s", status, body)
		}
		h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": header["Mcp-Session-Id"], "Mcp-Protocol-Version": {"2025-11-25"}}
		_, header, body = ask(t, "POST", s.url, h, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}`)
		if events != (header.Get("Content-Type") == "text/event-stream") {
			t.Errorf("events %v: %s", events, header.Get("Content-Type"))
		}
		if events && (strings.Count(body, "data: {") != 1 || !strings.Contains(body, `"result":`+content)) {
			t.Errorf("%q", body)
		}
	}
}
