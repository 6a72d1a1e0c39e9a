package downstream

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

func TestHostileRequests(t *testing.T) {
	const legacy, modern = translate.Legacy, translate.Modern
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	for _, tt := range []struct {
		name  string
		verb  string
		body  string
		lines []string
		cond  translate.Cond
		era   translate.Era
		want  string // part of the body
	}{
		{"PUT", "PUT", ping, nil, translate.CondVerb, legacy, ""},
		{"PATCH", "PATCH", ping, nil, translate.CondVerb, legacy, ""},
		{"HEAD", "HEAD", "", nil, translate.CondVerb, legacy, ""},
		{"TRACE", "TRACE", "", nil, translate.CondVerb, legacy, ""},
		{"made-up verb", "get", "", nil, translate.CondVerb, legacy, ""},
		{"modern GET", "GET", "", []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Session-Id: x"}, translate.CondVerb, modern, ""},
		{"modern DELETE", "DELETE", "", []string{"MCP-Protocol-Version: 2026-07-28"}, translate.CondVerb, modern, ""},
		{"GET of a page", "GET", "", []string{"Accept: text/html"}, translate.CondNotAcceptable, legacy, ""},
		{"GET with a body", "GET", ping, nil, translate.CondInvalidRequest, legacy, ""},
		{"POST for a page", "POST", ping, []string{"Accept: text/html"}, translate.CondNotAcceptable, legacy, ""},
		{"no q", "POST", ping, []string{"Accept: application/json;q=0, text/event-stream; q=0.0"}, translate.CondNotAcceptable, legacy, ""},
		{"no type", "POST", ping, []string{"Content-Type:"}, translate.CondMediaType, legacy, ""},
		{"text", "POST", ping, []string{"Content-Type: text/plain"}, translate.CondMediaType, legacy, ""},
		{"form", "POST", ping, []string{"Content-Type: application/x-www-form-urlencoded"}, translate.CondMediaType, legacy, ""},
		{"json in a name", "POST", ping, []string{"Content-Type: application/jsonp"}, translate.CondMediaType, legacy, ""},
		{"latin", "POST", ping, []string{"Content-Type: application/json; charset=latin1"}, translate.CondMediaType, legacy, ""},
		{"two types", "POST", ping, []string{"Content-Type: application/json", "Content-Type: application/json"}, translate.CondMediaType, legacy, ""},
		{"gzip", "POST", ping, []string{"Content-Encoding: gzip"}, translate.CondMediaType, legacy, ""},
		{"two credentials", "POST", ping, []string{"Authorization: Bearer a", "Authorization: Bearer b"}, translate.CondBadHeader, legacy, ""},
		{"empty credential", "POST", ping, []string{"Authorization: "}, translate.CondBadHeader, legacy, ""},
		{"two sessions", "POST", ping, []string{"Mcp-Session-Id: a", "Mcp-Session-Id: b"}, translate.CondBadHeader, legacy, ""},
		{"two versions", "POST", ping, []string{"Mcp-Protocol-Version: 2025-11-25", "Mcp-Protocol-Version: 2025-06-18"}, translate.CondBadHeader, legacy, `"id":1`},
		{"bad version", "POST", ping, []string{"MCP-Protocol-Version: 1.0"}, translate.CondUnsupportedVersion, legacy, `"id":1`},
		{"bad version on GET", "GET", "", []string{"MCP-Protocol-Version: 1.0"}, translate.CondUnsupportedVersion, legacy, ""},
		{"no body", "POST", "", nil, translate.CondParse, legacy, `"jsonrpc":"2.0","error"`},
		{"no JSON", "POST", `{"jsonrpc":"2.0","id":7,`, nil, translate.CondParse, legacy, ""},
		{"raw byte", "POST", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", nil, translate.CondParse, legacy, ""},
		{"too deep", "POST", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":` + deep + `}}`, nil, translate.CondInvalidRequest, legacy, ""},
		{"two methods", "POST", `{"jsonrpc":"2.0","id":9,"method":"ping","method":"tools/call"}`, nil, translate.CondInvalidRequest, legacy, `"id":9`},
		{"no version", "POST", `{"id":9,"method":"ping"}`, nil, translate.CondInvalidRequest, legacy, `"id":9`},
		{"null id", "POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, translate.CondInvalidRequest, legacy, `"jsonrpc":"2.0","error"`},
		{"scalar", "POST", `7`, nil, translate.CondInvalidRequest, legacy, ""},
		{"modern, no JSON", "POST", `{`, modernLines, translate.CondParse, modern, ""},
		{"modern, no _meta", "POST", `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, modernLines, translate.CondMissingMeta, modern, `"id":3`},
		{"modern, other method", "POST", modernList, []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: a"}, translate.CondHeaderMismatch, modern, `"code":-32020`},
		{"modern, other version", "POST", modernList, []string{"MCP-Protocol-Version: 2025-11-25", "Mcp-Method: tools/list"}, translate.CondHeaderMismatch, modern, `"id":1`},
		{"modern, unknown version", "POST", strings.Replace(modernList, "2026-07-28", "2099-01-01", 1), []string{"MCP-Protocol-Version: 2099-01-01"}, translate.CondUnsupportedVersion, modern, `"supported":["2026-07-28",`},
		{"modern ping", "POST", strings.Replace(modernList, "tools/list", "ping", 1), []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: ping"}, translate.CondUnknownMethod, modern, `"code":-32601`},
		{"modern response", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, []string{"MCP-Protocol-Version: 2026-07-28"}, translate.CondInvalidRequest, modern, `"jsonrpc":"2.0","error"`},
		{"listen as JSON", "POST", listen, append([]string{"Accept: application/json"}, listenLines...), translate.CondNotAcceptable, modern, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			got := r.do(req(tt.verb, tt.body, tt.lines...))
			if want := statusOf(tt.cond, tt.era); got.status != want {
				t.Errorf("status %d, want %d", got.status, want)
			}
			if len(r.hub.calls()) != 0 {
				t.Error("it reached the hub")
			}
			if got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", got.header)
			}
			if got.status == 405 && got.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if tt.verb == "HEAD" {
				return
			}
			msg, err := jsonrpc.Decode([]byte(got.body), jsonrpc.Limits{})
			if err != nil || msg.Kind != jsonrpc.ErrorResponse || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("body %s: %v", got.body, err)
			}
			if !strings.Contains(got.body, tt.want) {
				t.Errorf("body %s lacks %s", got.body, tt.want)
			}
		})
	}
}

// The refusal of an unknown revision lists what the server behind serves, as
// server/discover does; one without a list says all we know.
func TestSupportedVersions(t *testing.T) {
	var asked []session.Caller
	list := []string{"2026-07-28"}
	r := newRig(t, nil, func(o *Options) {
		o.Supported = func(_ context.Context, c session.Caller) []string {
			asked = append(asked, c)
			return list
		}
	})
	body := strings.Replace(modernList, "2026-07-28", "2099-01-01", 1)
	q := []string{"MCP-Protocol-Version: 2099-01-01", "Authorization: Bearer a"}
	if got := r.do(req("POST", body, q...)); got.status != 400 || !strings.Contains(got.body, `"data":{"supported":["2026-07-28"],"requested":"2099-01-01"}`) {
		t.Errorf("%+v", got)
	}
	if len(asked) != 1 || asked[0].Credential.Get("Authorization") != "Bearer a" || asked[0].Era != translate.Modern {
		t.Errorf("asked for %+v", asked)
	}
	list = nil
	if got := r.do(req("POST", body, q...)); !strings.Contains(got.body, `"supported":["2026-07-28","2026-06-30","2025-11-25"`) {
		t.Errorf("%+v", got)
	}
	// A legacy header's refusal is about this endpoint.
	if got := r.do(req("POST", ping, "MCP-Protocol-Version: 1.0")); got.status != 400 || len(asked) != 2 {
		t.Errorf("%+v, asked %d times", got, len(asked))
	}
}

func TestTolerance(t *testing.T) {
	r := newRig(t, nil, nil)
	for _, lines := range [][]string{
		{"Accept:"}, {"Accept: */*"}, {"Accept: application/json"}, {"Accept: text/event-stream, application/json;q=0.9"},
		{"Accept: application/*"}, {"Content-Type: Application/JSON ; charset=\"UTF-8\""}, {"Content-Type: application/json;charset=utf-8"},
		{"MCP-Protocol-Version: 2024-11-05"}, {"Host: LOCALHOST:1"}, {"Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: x"},
	} {
		if got := r.post(ping, lines...); got.status != 200 || got.body != string(result("1")) || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%v: %+v", lines, got)
		}
	}
	q := req("POST", ping)
	q.URL.Path = "/mcp/"
	if got := r.do(q); got.status != 200 {
		t.Errorf("path with a slash: %d", got.status)
	}
	q = req("POST", ping)
	q.URL.Path = "/mcpx"
	if got := r.do(q); got.status != 404 {
		t.Errorf("other path: %d", got.status)
	}
}

func TestOldModernCodes(t *testing.T) {
	r := newRig(t, nil, nil)
	body := strings.Replace(modernList, "2026-07-28", "2026-06-30", 1)
	if got := r.post(body, "MCP-Protocol-Version: 2026-06-30", "Mcp-Method: x"); got.status != 400 || !strings.Contains(got.body, `"code":-32001`) {
		t.Errorf("%+v", got)
	}
}

func TestHubSeesTheMessage(t *testing.T) {
	r := newRig(t, nil, nil)
	// The bytes are the client's own (cases B25, B29).
	body := ` {"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"t","arguments":{"n":9223372036854775807,"x":1.0,"s":"\ud83d <b>"}}} `
	got := r.post(body, "Mcp-Session-Id: sid", "MCP-Protocol-Version: 2025-11-25", "Authorization: Bearer a")
	if got.status != 200 || got.body != string(result("12345678901234567890")) {
		t.Errorf("%+v", got)
	}
	in := r.hub.calls()[0]
	if string(in.Frame.Msg.Raw) != body || in.Caller.Session != "sid" || in.Caller.Version != "2025-11-25" ||
		in.Caller.Era != translate.Legacy || in.Caller.Credential.Get("Authorization") != "Bearer a" ||
		in.Caller.Principal != session.HashPrincipal("token", "Bearer a") || in.Caller.Open {
		t.Errorf("caller %+v", in.Caller)
	}
	if f := in.Frame; f.Leg != translate.ClientLeg || f.Dir != translate.ToServer || f.Stream == "" || f.Time.IsZero() ||
		f.HTTP.Verb != "POST" || f.HTTP.Header.Get("Mcp-Session-Id") != "sid" || f.HTTP.Header.Get("Authorization") != "" {
		t.Errorf("frame %+v %+v", f, f.HTTP)
	}
	r.post(modernList, append([]string{"Mcp-Session-Id: sid"}, modernLines...)...)
	in = r.hub.calls()[1]
	if in.Caller.Session != "" || in.Caller.Era != translate.Modern || in.Caller.Version != "2026-07-28" ||
		in.Caller.Header.Get("Mcp-Method") != "tools/list" || in.Caller.Credential != nil || in.Caller.Principal != session.LocalPrincipal {
		t.Errorf("modern caller %+v", in.Caller)
	}
	r.do(req("GET", "", "Mcp-Session-Id: sid", "Last-Event-Id: e1"))
	in = r.hub.calls()[2]
	if in.Frame.Msg != nil || in.Frame.HTTP.Verb != "GET" || in.Caller.Session != "sid" || in.Frame.HTTP.Header.Get("Last-Event-Id") != "e1" {
		t.Errorf("GET %+v", in)
	}
	if got := r.do(req("DELETE", "", "Mcp-Session-Id: sid")); got.status != 202 || r.hub.calls()[3].Frame.HTTP.Verb != "DELETE" {
		t.Errorf("DELETE %+v", got)
	}
}

func TestSafetyS11_HeadersThatLeakOrSteer(t *testing.T) {
	r := newRig(t, nil, nil)
	r.post(ping, "Cookie: a=b", "Proxy-Authorization: Basic x", "Forwarded: for=1", "X-Forwarded-For: 1", "X_User: admin",
		"X-User: admin", "Connection: Authorization", "Authorization: Bearer a", "Mcp-Param-X: 1", "Mcp-Method: other",
		"Mcp-Name: other", "Traceparent: 00-a-b-01")
	in := r.hub.calls()[0]
	if len(in.Caller.Header) != 1 || in.Caller.Header.Get("Traceparent") == "" {
		t.Errorf("goes up: %v", in.Caller.Header)
	}
	if len(in.Caller.Credential) != 1 || in.Caller.Credential.Get("Authorization") != "Bearer a" {
		t.Errorf("credential: %v", in.Caller.Credential)
	}
}

func TestSafetyS11_ReplyHeaders(t *testing.T) {
	hub := &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
		h := map[string][]string{
			"Mcp-Session-Id": {"ours"}, "Www-Authenticate": {"Bearer a", "Basic b"}, "Retry-After": {"3"},
			"Set-Cookie": {"a=b"}, "Access-Control-Allow-Origin": {"*"}, "Connection": {"close"}, "Content-Type": {"text/html"},
		}
		s.Send(session.Out{Raw: result("1"), Final: true, Status: 401, Header: h})
	}}
	r := newRig(t, hub, nil)
	got := r.post(ping)
	if got.status != 401 || len(got.header["Www-Authenticate"]) != 2 || got.header.Get("Mcp-Session-Id") != "ours" || got.header.Get("Retry-After") != "3" ||
		got.header.Get("Set-Cookie") != "" || got.header.Get("Access-Control-Allow-Origin") != "" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got.header)
	}
	if got := r.post(modernList, modernLines...); got.header.Get("Mcp-Session-Id") != "" {
		t.Error("a modern client is given a session id")
	}
}

func TestSafetyS13_PrincipalHeader(t *testing.T) {
	policy, err := session.ParsePrincipalPolicy("header:X-User")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		trusted string
		lines   []string
		status  int
		open    bool
		who     session.Principal
	}{
		{"127.0.0.0/8", []string{"X-User: ann"}, 200, false, session.HashPrincipal("header", "X-User", "ann")},
		{"10.0.0.0/8", []string{"X-User: ann"}, 200, true, ""},
		{"127.0.0.0/8", []string{"X_User: ann"}, 200, true, ""},
		{"127.0.0.0/8", nil, 200, true, ""},
		{"127.0.0.0/8", []string{"X-User: "}, 400, false, ""},
		{"127.0.0.0/8", []string{"X-User: ann", "X-User: bob"}, 400, false, ""},
	} {
		r := newRig(t, nil, func(o *Options) {
			o.Principal, o.TrustedProxies = policy, []netip.Prefix{netip.MustParsePrefix(tt.trusted)}
		})
		if got := r.post(ping, tt.lines...); got.status != tt.status {
			t.Errorf("%v: %d, want %d", tt.lines, got.status, tt.status)
		}
		if tt.status == 200 {
			if c := r.hub.calls()[0].Caller; c.Open != tt.open || c.Principal != tt.who || len(c.Header) != 0 {
				t.Errorf("%v: %+v", tt.lines, c)
			}
		}
	}
}

func TestLoopbackIsOnePrincipalOnlyWithoutProxies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		lines  []string
		open   bool
	}{
		{"plain", func(*Options) {}, nil, false},
		{"loopback host listed", func(o *Options) { o.AllowedHosts = []string{"127.0.0.2"} }, nil, false},
		{"foreign host listed", func(o *Options) { o.AllowedHosts = []string{"a.example"} }, nil, true},
		{"public URL", func(o *Options) { o.PublicURL = "https://a.example/mcp" }, nil, true},
		{"forwarded", func(*Options) {}, []string{"X-Forwarded-For: 1.2.3.4"}, true},
		{"public listener", func(o *Options) { o.Loopback = false }, nil, true},
	} {
		r := newRig(t, nil, tt.change)
		r.post(ping, tt.lines...)
		if c := r.hub.calls()[0].Caller; c.Open != tt.open {
			t.Errorf("%s: open %v, want %v", tt.name, c.Open, tt.open)
		}
	}
}

func TestCaseB32_AcceptedHasNoBodyAndNoType(t *testing.T) {
	r := newRig(t, nil, nil)
	for _, body := range []string{notify, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`} {
		got := r.post(body)
		if got.status != 202 || got.body != "" || len(got.header["Content-Type"]) != 0 {
			t.Errorf("%s: %+v", body, got)
		}
	}
	got := r.post(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, "MCP-Protocol-Version: 2026-07-28")
	if got.status != 202 || got.body != "" {
		t.Errorf("modern: %+v", got)
	}
}

// TestCaseB52_NoHandshakeIsAskedForHere: whether a session is due is the
// hub's to say; both kinds of opening reach it.
func TestCaseB52_NoHandshakeIsAskedForHere(t *testing.T) {
	r := newRig(t, nil, nil)
	r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	r.post(ping)
	r.post(modernList, modernLines...)
	if got := len(r.hub.calls()); got != 3 {
		t.Errorf("%d requests reached the hub, want 3", got)
	}
}

func TestCaseB34_NameOverHTTP(t *testing.T) {
	r := newRig(t, nil, nil)
	body := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///é.txt",` + modernMeta + `}}`
	lines := []string{"MCP-Protocol-Version: 2026-07-28", "mcp-method: resources/read"}
	for name, want := range map[string]int{
		"=?base64?ZmlsZTovLy/DqS50eHQ=?=":   200,
		"=?base64?ZmlsZTovLy/DqS50eHQ?=":    400,
		"=?BASE64?ZmlsZTovLy/DqS50eHQ=?=":   400,
		"=?base64?ZmlsZTovLy9lLnR4dA==?=":   400,
		"file:///é.txt":                     400,
		" =?base64?ZmlsZTovLy/DqS50eHQ=?= ": 200,
	} {
		got := r.post(body, append([]string{"Mcp-Name: " + name}, lines...)...)
		if got.status != want || want == 400 && !strings.Contains(got.body, `"code":-32020`) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := r.post(body, append([]string{"Mcp-Name: a", "Mcp-Name: a"}, lines...)...); got.status != 400 || !strings.Contains(got.body, `"id":1`) {
		t.Errorf("doubled: %+v", got)
	}
	if n := len(r.hub.calls()); n != 2 {
		t.Errorf("%d reached the hub, want 2", n)
	}
}

type countTap struct{ frames []translate.Frame }

func (c *countTap) Frame(f translate.Frame) { c.frames = append(c.frames, f) }

func TestTapSeesBothDirections(t *testing.T) {
	tap := &countTap{}
	r := newRig(t, nil, func(o *Options) { o.Tap = tap })
	r.post(ping)
	r.post(modernList, "MCP-Protocol-Version: 2026-07-28")
	var got strings.Builder
	for _, f := range tap.frames {
		status := 0
		if f.HTTP != nil {
			status = f.HTTP.Status
		}
		got.WriteString(fmt.Sprintf("%s %s %d; ", f.Dir, f.Msg.Kind, status))
	}
	if want := "to-server request 0; to-client response 200; to-server request 0; to-client error response 400; "; got.String() != want {
		t.Errorf("%s\nwant %s", got.String(), want)
	}
	if tap.frames[0].Stream == "" || tap.frames[0].Stream != tap.frames[1].Stream {
		t.Error("a request and its reply are on two streams")
	}
}
