package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// B15: what modern clients throw a whole list away for is there.
func TestCaseB15_FieldsOfModernLists(t *testing.T) {
	server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
		switch c.Method {
		case "tools/list":
			c.Result(`{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`)
		case "prompts/list":
			c.Result(`{"prompts":[],"ttlMs":-7,"cacheScope":"public"}`)
		case "resources/read":
			c.Result(`{"contents":[]}`)
		case "completion/complete":
			c.Result(`{"completion":{"values":[]}}`)
		default:
			return false
		}
		return true
	})
	c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Modern, "")
	for method, want := range map[string][3]string{
		"server/discover":     {"complete", "0", `"private"`},
		"tools/list":          {"complete", "0", `"private"`},
		"prompts/list":        {"complete", "0", `"public"`},
		"resources/read":      {"complete", "0", `"private"`},
		"completion/complete": {"complete", "", ""},
	} {
		members := ""
		if method == "resources/read" {
			members = `"uri":"a:b"`
		}
		r := c.call(method, members)
		if r.field("resultType") != want[0] || r.raw("ttlMs") != want[1] || r.raw("cacheScope") != want[2] {
			t.Errorf("%s: %s", method, r)
		}
	}
}

// raw is a member of the result as it came.
func (r rawReply) raw(name string) string {
	return string(translate.ParseResult(r.answer().Result).Get(name).Raw())
}

// B17: how a server answers an early server/discover decides how it is spoken
// to, by whole calls of both kinds of clients.
func TestCaseB17_EraDetection(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		status       int
		modern       bool
	}{
		{"-32602", `"error":{"code":-32602,"message":"Invalid request parameters"}`, 200, false},
		{"-32601", `"error":{"code":-32601,"message":"Method not found"}`, 404, false},
		{"a legacy result", `"result":{"protocolVersion":"2025-11-25"}`, 200, false},
		{"-32022 with a modern list", `"error":{"code":-32022,"message":"v","data":{"supported":["2026-07-28"],"requested":"1"}}`, 400, true},
		{"-32022 with a legacy list", `"error":{"code":-32022,"message":"v","data":{"supported":["2025-11-25"],"requested":"1"}}`, 400, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			era := translate.Legacy
			if tc.modern {
				era = translate.Modern
			}
			var probes atomic.Int32
			server := newScripted(t, era, func(c *scriptCall) bool {
				if c.Method != "server/discover" || tc.modern && probes.Load() > 0 {
					return false
				}
				probes.Add(1)
				c.JSON(tc.status, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,`+tc.answer+`}`)
				return true
			})
			g := newRig(t, server.URL, bridgeOptions{})
			for _, client := range []translate.Era{translate.Modern, translate.Legacy} {
				if r := newCaller(t, g, client, "").tool("plain", ""); r.Text() != "fine" {
					t.Errorf("%s client: %s", client, r)
				}
			}
			if n := len(server.Requests("initialize")); tc.modern != (n == 0) {
				t.Errorf("%d times initialize", n)
			}
			if n := probes.Load(); n != 1 {
				t.Errorf("probed %d times", n)
			}
		})
	}
}

// B18: the address a user has to visit reaches every client in the form of its
// era, and -32042 no modern one.
func TestCaseB18_URLsToVisit(t *testing.T) {
	const elicitation = `{"mode":"url","elicitationId":"e1","url":"https://a.example/x?e=1","message":"Sign in"}`
	const rpcError = `"error":{"code":-32042,"message":"Authorize first","data":{"elicitations":[` + elicitation + `]}}`
	var refused atomic.Bool
	server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
		if c.Tool != "locked" || refused.Swap(true) {
			return false
		}
		c.JSON(200, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,`+rpcError+`}`)
		return true
	})
	g := newRig(t, server.URL, bridgeOptions{Policy: session.Policy{URLWait: time.Millisecond}})
	legacy := newCaller(t, g, translate.Legacy, "")
	if r := legacy.tool("locked", ""); !strings.Contains(string(r.Body), rpcError) {
		t.Errorf("legacy client: %s", r)
	}
	modern := newCaller(t, g, translate.Modern, "")
	refused.Store(false)
	if r := modern.tool("locked", ""); r.Status != 400 || r.Code() != -32021 || !strings.Contains(string(r.Body), `"requiredCapabilities":{"elicitation":{"url":{}}}`) {
		t.Errorf("client without url mode: %s", r)
	}
	modern.caps = `{"elicitation":{"url":{}}}`
	refused.Store(false)
	r := modern.tool("locked", "")
	asked := `"inputRequests":{"q1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/x?e=1","message":"Sign in"}}}`
	if r.field("resultType") != "input_required" || !strings.Contains(string(r.Body), asked) || strings.Contains(string(r.Body), "-32042") {
		t.Fatalf("client with url mode: %s", r)
	}
	ran := server.Ran("locked")
	r = modern.tool("locked", `"requestState":`+quote(r.field("requestState"))+`,"inputResponses":{"q1":{"action":"accept"}}`)
	if r.Text() != "fine" || server.Ran("locked") != ran+1 {
		t.Errorf("after the visit: %s, sent %d times", r, server.Ran("locked")-ran)
	}
}

// B20: resource not found has a number an era, and only this error changes.
func TestCaseB20_ResourceNotFound(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			numbers := map[translate.Era]int{translate.Legacy: -32002, translate.Modern: -32602}
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				if c.Method != "resources/read" {
					return false
				}
				data := `,"data":{"uri":"file:///no"}`
				code := numbers[pair.server]
				if strings.Contains(string(c.Params), "file:///bad") {
					data, code = "", -32602
				}
				c.JSON(200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"Resource not found"%s}}`, c.ID, code, data))
				return true
			})
			c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), pair.client, "")
			r := c.call("resources/read", `"uri":"file:///no"`)
			if r.Code() != numbers[pair.client] || !strings.Contains(string(r.Body), `"message":"Resource not found","data":{"uri":"file:///no"}`) {
				t.Errorf("not there: %s", r)
			}
			if r := c.call("resources/read", `"uri":"file:///bad"`); r.Code() != -32602 {
				t.Errorf("another error: %s", r)
			}
		})
	}
}

// B34: over real connections: what a tool wants mirrored is, in the right
// letters; what a client mirrors is checked.
func TestCaseB34_MirroredHeaders(t *testing.T) {
	const run = `{"name":"=?base64?x?=","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"on":{"type":"boolean","x-mcp-header":"On"}}}}`
	const bad = `{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A b"}}}}`
	list := func(c *scriptCall) bool {
		if c.Method == "tools/list" {
			c.Result(c.complete(`"tools":[` + run + `,` + bad + `]`))
			return true
		}
		return false
	}
	const arguments = `"name":"=?base64?x?=","arguments":{"region":"us-west1","n":42,"on":true,"x":null}`
	t.Run("legacy client", func(t *testing.T) {
		server := newScripted(t, translate.Modern, func(c *scriptCall) bool {
			if c.Method == "tools/call" && c.R.Header.Get("Mcp-Param-Region") != "us-west1" {
				c.JSON(400, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"error":{"code":-32020,"message":"Mcp-Param-Region is missing"}}`)
				return true
			}
			return list(c)
		})
		g := newRig(t, server.URL, bridgeOptions{})
		c := newCaller(t, g, translate.Legacy, "")
		// Never listed: the server's refusal makes us look.
		if r := c.call("tools/call", arguments); r.Text() != "fine" || len(server.Requests("tools/list")) != 1 {
			t.Fatalf("call: %s, %d lists", r, len(server.Requests("tools/list")))
		}
		calls := server.Requests("tools/call")
		h := calls[len(calls)-1].Header
		if len(calls) != 2 || h.Get("Mcp-Name") != "=?base64?PT9iYXNlNjQ/eD89?=" || h.Get("Mcp-Method") != "tools/call" ||
			h.Get("Mcp-Param-Region") != "us-west1" || h.Get("Mcp-Param-N") != "42" || h.Get("Mcp-Param-On") != "true" {
			t.Errorf("%d calls, last with %v", len(calls), h)
		}
		// Known by now, whichever session asks.
		if r := newCaller(t, g, translate.Legacy, "").call("tools/call", arguments); r.Text() != "fine" || len(server.Requests("tools/call")) != 3 {
			t.Errorf("second call: %s", r)
		}
		if r := c.call("tools/list", ""); strings.Contains(string(r.Body), `"bad"`) || !strings.Contains(string(r.Body), `"=?base64?x?="`) {
			t.Errorf("list: %s", r)
		}
		if log := g.Log.String(); !strings.Contains(log, "bad") || !strings.Contains(log, "x-mcp-header") {
			t.Errorf("no warning names the tool: %s", log)
		}
	})
	t.Run("modern client", func(t *testing.T) {
		server := newScripted(t, translate.Legacy, list)
		c := newCaller(t, newRig(t, server.URL, bridgeOptions{}), translate.Modern, "")
		c.call("tools/list", "")
		send := func(more http.Header) rawReply {
			h := c.headers("tools/call", "=?base64?x?=")
			maps.Copy(h, more)
			return c.post(h, request("7", "tools/call", c.params(arguments)))
		}
		good := http.Header{"Mcp-Param-Region": {"us-west1"}, "Mcp-Param-N": {"42.0"}, "Mcp-Param-On": {"true"}}
		if r := send(good); r.Text() != "fine" {
			t.Errorf("good headers: %s", r)
		}
		ran := server.Ran("=?base64?x?=")
		for what, h := range map[string]http.Header{
			"missing":    {"Mcp-Param-Region": {"us-west1"}, "Mcp-Param-N": {"42"}},
			"different":  {"Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"42"}, "Mcp-Param-On": {"true"}},
			"bad base64": {"Mcp-Param-Region": {"=?base64?!?="}, "Mcp-Param-N": {"42"}, "Mcp-Param-On": {"true"}},
			"name":       {"Mcp-Name": {"other"}},
		} {
			if r := send(h); r.Status != 400 || r.Code() != -32020 {
				t.Errorf("%s: %s", what, r)
			}
		}
		if n := server.Ran("=?base64?x?="); n != ran {
			t.Errorf("the server was called %d times for refused requests", n-ran)
		}
	})
}

// B49, B54: a legacy server asks what the client of this request did not
// declare: it is refused, the client sees nothing of it, and another request's
// capabilities are no help.
func TestCaseB49_UndeclaredModes(t *testing.T) {
	answers := func(s *scripted) (list []string) {
		for _, r := range s.Requests("") {
			if r.Method == "" && r.Verb == http.MethodPost {
				list = append(list, string(r.Body))
			}
		}
		return list
	}
	server := newScripted(t, translate.Legacy, func(c *scriptCall) bool {
		if c.Tool != "ask" {
			return false
		}
		c.Begin()
		c.Events(`{"jsonrpc":"2.0","id":"s2","method":"elicitation/create","params":{"mode":"url","elicitationId":"e2","url":"https://a.example/y","message":"Go"}}`)
		c.Events(`{"jsonrpc":"2.0","id":"s3","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}`)
		eventually(t, "both answers", func() bool { return len(answers(c.s)) >= 2 })
		c.Events(c.Reply(c.text("told")))
		return true
	})
	g := newRig(t, server.URL, bridgeOptions{})
	able := newCaller(t, g, translate.Modern, "")
	able.caps = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`
	able.call("tools/list", "")
	c := newCaller(t, g, translate.Modern, "")
	c.caps = `{"elicitation":{},"sampling":{}}`
	if r := c.tool("ask", ""); r.Text() != "told" || len(r.Others) > 0 {
		t.Errorf("call: %s", r)
	}
	for _, answer := range answers(server) {
		if !strings.Contains(answer, `"code":-32602`) {
			t.Errorf("the server was told %s", answer)
		}
	}
}

// A server that speaks 2026-06-30 only serves every client; each hears the
// errors under the numbers of its own revision.
func TestServerOf20260630(t *testing.T) {
	server := newScripted(t, translate.Modern, func(c *scriptCall) bool {
		switch {
		case c.ID == nil:
			return false
		case c.R.Header.Get("Mcp-Protocol-Version") != translate.V20260630 || !strings.Contains(string(c.Params), translate.V20260630):
			c.JSON(400, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"error":{"code":-32004,"message":"v","data":{"supported":["2026-06-30"]}}}`)
		case c.Method == "server/discover":
			c.Result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-06-30"],"capabilities":{"tools":{}}}`)
		case c.Tool == "needs":
			c.JSON(400, `{"jsonrpc":"2.0","id":`+string(c.ID)+`,"error":{"code":-32003,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}}`)
		default:
			return false
		}
		return true
	})
	g := newRig(t, server.URL, bridgeOptions{})
	for _, version := range []string{translate.V20251125, translate.V20260630, translate.V20260728} {
		t.Run(version, func(t *testing.T) {
			f, _ := translate.Lookup(version)
			c := newCaller(t, g, f.Era, "")
			send := func(method, name, members string) rawReply {
				h := c.headers(method, name)
				if f.Era == translate.Modern {
					h["Mcp-Protocol-Version"] = []string{version}
				}
				params := strings.ReplaceAll(c.params(members), translate.V20260728, version)
				return c.post(h, request("1", method, params))
			}
			if r := send("tools/call", "plain", `"name":"plain"`); r.Text() != "fine" {
				t.Errorf("call: %s", r)
			}
			want := -32021
			if version == translate.V20260630 {
				want = -32003
			}
			if r := send("tools/call", "needs", `"name":"needs"`); r.Code() != want || f.Era == translate.Modern && r.Status != 400 {
				t.Errorf("missing capability: %s, want %d", r, want)
			}
			if f.Era == translate.Modern {
				if r := send("server/discover", "", ""); !strings.Contains(string(r.Body), `"`+version+`"`) {
					t.Errorf("discover: %s", r)
				}
				// Ours has the same numbers.
				want := translate.CodeFor(-32020, version)
				if r := send("tools/call", "other", `"name":"plain"`); r.Status != 400 || r.Code() != want {
					t.Errorf("header mismatch: %s, want %d", r, want)
				}
			}
		})
	}
}
