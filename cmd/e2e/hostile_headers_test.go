package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
	"taskbridge/translate"
)

// headerCase changes the header lines of a good request: lines named in drop
// go, those of add are written as they stand.
type headerCase struct {
	name string
	verb string // POST
	drop string // lower-case names, blanks between
	add  []string
	body string // instead of the good one
	want string // "status code"; code "-": no JSON-RPC answer is asked for
	// reaches: the request is good all the same.
	reaches bool
}

func headerCases(era translate.Era) []headerCase {
	long := strings.Repeat("v", 10<<10)
	both := []headerCase{
		{name: "good", want: "200 0", reaches: true},
		{name: "content type text", drop: "content-type", add: []string{"Content-Type: text/plain"}, want: "415 -32600"},
		{name: "content type missing", drop: "content-type", want: "415 -32600"},
		{name: "content type doubled", add: []string{"Content-Type: application/json"}, want: "415 -32600"},
		{name: "content type in UTF-16", drop: "content-type", add: []string{"Content-Type: application/json; charset=utf-16"}, want: "415 -32600"},
		{name: "content encoding", add: []string{"Content-Encoding: gzip"}, want: "415 -32600"},
		{name: "accept nothing of ours", drop: "accept", add: []string{"Accept: text/html"}, want: "406 -32600"},
		{name: "accept refused by quality", drop: "accept", add: []string{"Accept: application/json;q=0, text/event-stream;q=0.0"}, want: "406 -32600"},
		{name: "accept of 10 KiB", drop: "accept", add: []string{"Accept: " + strings.Repeat("a/b,", 2500) + "*/*"}, want: "200 0", reaches: true},
		{name: "two callers", add: []string{"Authorization: Bearer a", "Authorization: Bearer b"}, want: "400 -32600"},
		{name: "empty caller", add: []string{"Authorization:"}, want: "400 -32600"},
		{name: "blank caller", add: []string{"Authorization:   "}, want: "400 -32600"},
		{name: "two sessions", add: []string{"Mcp-Session-Id: a", "Mcp-Session-Id: b"}, want: "400 -32600"},
		{name: "two last events", add: []string{"Last-Event-ID: a", "Last-Event-ID: b"}, want: "400 -32600"},
		{name: "foreign host", drop: "host", add: []string{"Host: evil.example"}, want: "403 -32600"},
		{name: "host with user", drop: "host", add: []string{"Host: localhost@evil.example"}, want: "400 -"},
		{name: "null origin", add: []string{"Origin: null"}, want: "403 -32600"},
		{name: "foreign origin", add: []string{"Origin: http://localhost.evil"}, want: "403 -32600"},
		{name: "control character", add: []string{"X-A: a\x01b"}, want: "400 -"},
		{name: "bare CR", add: []string{"X-A: a\rX-B: c"}, want: "400 -"},
		{name: "folded line", add: []string{"X-A: a\r\n b"}, want: "400 -", reaches: true},
		{name: "name with blank", add: []string{"X A: b"}, want: "400 -"},
		{name: "name with blank at its end", add: []string{"Mcp-Name : greet"}, want: "400 -"},
		{name: "high bytes", add: []string{"X-A: \xff\xfe"}, want: "200 0", reaches: true},
		{name: "underscore twins", add: []string{"Mcp_Method: tools/list", "MCP_SESSION_ID: x", "Mcp_Name: other", "X_User: root"}, want: "200 0", reaches: true},
		{name: "many headers", add: strings.Split(strings.Repeat("X-A: b\n", 999)+"X-A: b", "\n"), want: "200 0", reaches: true},
		{name: "header block too large", add: []string{"X-A: " + strings.Repeat("b", 200<<10)}, want: "431 -"},
		{name: "upgrade", add: []string{"Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"}, want: "200 0", reaches: true},
		// RFC 9110 section 7.6.1: such a header is for us alone, and a modern
		// server misses it.
		{name: "hop-by-hop protocol headers", drop: "connection", add: []string{"Connection: close, Mcp-Method, Mcp-Name, Authorization"}, want: "200 0", reaches: true},
		{name: "verb PUT", verb: "PUT", want: "405 -32600"},
		{name: "verb with blanks", verb: "PO ST", want: "400 -"},
	}
	if era == translate.Modern {
		return append(both, []headerCase{
			{name: "method missing", drop: "mcp-method", want: "400 -32020"},
			{name: "method empty", drop: "mcp-method", add: []string{"Mcp-Method:"}, want: "400 -32020"},
			{name: "method doubled", add: []string{"Mcp-Method: tools/call"}, want: "400 -32020"},
			{name: "method of another case", drop: "mcp-method", add: []string{"Mcp-Method: Tools/Call"}, want: "400 -32020"},
			{name: "method of 10 KiB", drop: "mcp-method", add: []string{"Mcp-Method: " + long}, want: "400 -32020"},
			{name: "name missing", drop: "mcp-name", want: "400 -32020"},
			{name: "name empty", drop: "mcp-name", add: []string{"Mcp-Name:"}, want: "400 -32020"},
			{name: "name doubled", add: []string{"Mcp-Name: greet"}, want: "400 -32020"},
			{name: "name of another tool", drop: "mcp-name", add: []string{"Mcp-Name: echo"}, want: "400 -32020"},
			{name: "name of 10 KiB", drop: "mcp-name", add: []string{"Mcp-Name: " + long}, want: "400 -32020"},
			{name: "name in base64", drop: "mcp-name", add: []string{"Mcp-Name: =?base64?Z3JlZXQ=?="}, want: "200 0", reaches: true},
			{name: "name in broken base64", drop: "mcp-name", add: []string{"Mcp-Name: =?base64?Z3JlZXQ?="}, want: "400 -32020"},
			{name: "name in base64 with line ends", drop: "mcp-name", add: []string{"Mcp-Name: =?base64?Z3Jl ZXQ=?="}, want: "400 -32020"},
			{name: "name in base64 of bad UTF-8", drop: "mcp-name", add: []string{"Mcp-Name: =?base64?/w==?="}, want: "400 -32020"},
			{name: "name in base64 of another", drop: "mcp-name", add: []string{"Mcp-Name: =?base64?ZWNobw==?="}, want: "400 -32020"},
			{name: "sentinel in capitals", drop: "mcp-name", add: []string{"Mcp-Name: =?BASE64?Z3JlZXQ=?="}, want: "400 -32020"},
			{name: "name with high bytes", drop: "mcp-name", add: []string{"Mcp-Name: gr\xffet"}, want: "400 -32020"},
			{name: "version missing", drop: "mcp-protocol-version", want: "400 -32020"},
			{name: "version doubled", add: []string{"MCP-Protocol-Version: 2026-07-28"}, want: "400 -32020"},
			{name: "version of another era", drop: "mcp-protocol-version", add: []string{"MCP-Protocol-Version: 2025-11-25"}, want: "400 -32020"},
			{name: "version of both eras", add: []string{"MCP-Protocol-Version: 2025-11-25"}, want: "400 -32020"},
			{name: "version garbage", drop: "mcp-protocol-version", add: []string{"MCP-Protocol-Version: x"}, want: "400 -32020"},
			{name: "version unknown", drop: "mcp-protocol-version", add: []string{"MCP-Protocol-Version: 2099-01-01"}, body: "2099-01-01", want: "400 -32022"},
			{name: "session of somebody", add: []string{"Mcp-Session-Id: " + strings.Repeat("s", 10<<10)}, want: "200 0", reaches: true},
			{name: "param of 7 KiB", add: []string{"Mcp-Param-X: " + strings.Repeat("p", 7<<10)}, want: "200 0", reaches: true},
			{name: "param doubled", add: []string{"Mcp-Param-X: a", "Mcp-Param-X: b"}, want: "400 -32020"},
			{name: "verb GET", verb: "GET", want: "405 -32600"},
			{name: "verb DELETE", verb: "DELETE", want: "405 -32600"},
		}...)
	}
	return append(both, []headerCase{
		{name: "no session", drop: "mcp-session-id", want: "400 -32600"},
		{name: "empty session", drop: "mcp-session-id", add: []string{"Mcp-Session-Id:"}, want: "400 -32600"},
		{name: "unknown session", drop: "mcp-session-id", add: []string{"Mcp-Session-Id: 0123456789abcdefghijklmn"}, want: "404 -32600"},
		{name: "session of 10 KiB", drop: "mcp-session-id", add: []string{"Mcp-Session-Id: " + long}, want: "404 -32600"},
		{name: "session with slashes", drop: "mcp-session-id", add: []string{"Mcp-Session-Id: ../op/session:x"}, want: "404 -32600"},
		{name: "session with high bytes", drop: "mcp-session-id", add: []string{"Mcp-Session-Id: \xff\xfe"}, want: "404 -32600"},
		{name: "version garbage", drop: "mcp-protocol-version", add: []string{"MCP-Protocol-Version: 1.0"}, want: "400 -32600"},
		{name: "version of 10 KiB", drop: "mcp-protocol-version", add: []string{"MCP-Protocol-Version: " + long}, want: "400 -32600"},
		{name: "version doubled", add: []string{"MCP-Protocol-Version: 2025-11-25"}, want: "400 -32600"},
		{name: "version missing", drop: "mcp-protocol-version", want: "200 0", reaches: true},
		{name: "modern version", drop: "mcp-protocol-version", add: []string{"MCP-Protocol-Version: 2026-07-28"}, want: "400 -32602"},
		{name: "modern version unknown", drop: "mcp-protocol-version", add: []string{"MCP-Protocol-Version: 2099-01-01"}, want: "400 -32602"},
		{name: "mirrors of another call", add: []string{"Mcp-Method: tools/list", "Mcp-Name: =?base64?@?=", "Mcp-Param-X: y"}, want: "200 0", reaches: true},
		{name: "mirror doubled", add: []string{"Mcp-Param-X: a", "Mcp-Param-X: b"}, want: "400 -32600"},
		{name: "GET of nobody", verb: "GET", drop: "mcp-session-id content-length", want: "400 -32600"},
		{name: "GET of an unknown session", verb: "GET", drop: "mcp-session-id content-length", add: []string{"Mcp-Session-Id: x"}, want: "404 -32600"},
		{name: "GET with a body", verb: "GET", want: "400 -32600"},
		{name: "DELETE of an unknown session", verb: "DELETE", drop: "mcp-session-id content-length", add: []string{"Mcp-Session-Id: x"}, want: "404 -32600"},
	}...)
}

// Headers that lie, contradict, repeat or break: refused before the server is
// asked, or without effect.
func TestHostileHeaders(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			target, server := countedPeer(t, pair.server, peers.ServerOptions{})
			g := newRig(t, target, bridgeOptions{})
			good := newCaller(t, g, pair.client, "")
			u, _ := url.Parse(g.URL)
			body := request("7", "tools/call", good.params(`"name":"greet","arguments":{"name":"Ada"}`))
			if r := good.tool("greet", ""); r.Status != 200 {
				t.Fatal(r)
			}
			for _, hc := range headerCases(pair.client) {
				send := body
				if hc.body != "" {
					send = strings.ReplaceAll(body, "2026-07-28", hc.body)
				}
				lines := []string{"Host: " + u.Host, "Connection: close", "Content-Length: " + fmt.Sprint(len(send))}
				for name, v := range good.headers("tools/call", "greet") {
					lines = append(lines, name+": "+v[0])
				}
				drop := strings.Fields(hc.drop)
				raw := "POST"
				if hc.verb != "" {
					raw = hc.verb
				}
				raw += " /mcp HTTP/1.1\r\n"
				bodyDropped := false
				for _, line := range lines {
					name := strings.ToLower(line[:strings.Index(line, ":")])
					if contains(drop, name) {
						bodyDropped = bodyDropped || name == "content-length"
						continue
					}
					raw += line + "\r\n"
				}
				for _, line := range hc.add {
					raw += line + "\r\n"
				}
				if raw += "\r\n"; !bodyDropped {
					raw += send
				}
				server.Forget()
				r := rawHTTP(t, g.URL, raw)
				got := fmt.Sprintf("%d %d", r.Status, r.Code())
				if strings.HasSuffix(hc.want, " -") {
					got = fmt.Sprintf("%d -", r.Status)
				}
				if hc.name == "hop-by-hop protocol headers" && got == "400 -32020" && pair.server == pair.client {
					continue
				}
				switch {
				case r.Broken != nil && hc.want != "431 -":
					t.Errorf("%s: %v", hc.name, r.Broken)
				case got != hc.want && r.Broken == nil && !(hc.reaches && got == "200 0" || hc.reaches && strings.HasSuffix(hc.want, "-") && r.Status == 200):
					t.Errorf("%s: got %s, want %s: %s", hc.name, got, hc.want, r)
				case len(r.Answers) > 1:
					t.Errorf("%s: %d answers", hc.name, len(r.Answers))
				}
				for _, up := range server.Requests("") {
					if !hc.reaches {
						t.Errorf("%s: the server was asked %s %s", hc.name, up.Verb, up.Method)
					}
					for name := range up.Header {
						if strings.Contains(name, "_") || strings.HasPrefix(name, "Mcp-Param") && pair.client == translate.Legacy || name == "Upgrade" || name == "X-A" {
							t.Errorf("%s: header %s reached the server", hc.name, name)
						}
					}
					if s := up.Header.Get("Mcp-Session-Id"); strings.HasPrefix(s, "sss") {
						t.Errorf("%s: a foreign session reached the server", hc.name)
					}
				}
			}
			if r := good.tool("greet", ""); r.Status != 200 {
				t.Errorf("afterwards: %s", r)
			}
		})
	}
}

func contains(list []string, s string) bool {
	return slices.Contains(list, s)
}
