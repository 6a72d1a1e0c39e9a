package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/translate"
)

// allMethods are those of the method table and some that nobody defined.
var allMethods = []string{
	"initialize", "notifications/initialized", "ping", "server/discover", "subscriptions/listen",
	"tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
	"resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete", "logging/setLevel",
	"tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update",
	"notifications/cancelled", "notifications/progress", "notifications/roots/list_changed", "notifications/tasks/status",
	"x/unknown", "Tools/Call", "tools/call/", " tools/call", "elicitation/create", "sampling/createMessage", "rpc.discover", "é\n",
}

// wrongValues stand for every type a member must not have, and some it may.
var wrongValues = []string{
	`null`, `true`, `5`, `1e400`, `-0.5`, `""`, `"x"`, `"\ud83d"`, `[]`, `[1,[]]`, `{}`, `{"a":{}}`, `"` + strings.Repeat("a", 9<<10) + `"`,
}

// ruleMembers are the members of params that a rule reads, by method; the rest
// of a request is good.
var ruleMembers = map[string][]string{
	"initialize":            {"protocolVersion", "capabilities", "clientInfo"},
	"subscriptions/listen":  {"notifications"},
	"tools/list":            {"cursor"},
	"tools/call":            {"name", "arguments", "task", "inputResponses", "requestState"},
	"prompts/list":          {"cursor"},
	"prompts/get":           {"name", "arguments", "inputResponses", "requestState"},
	"resources/list":        {"cursor"},
	"resources/read":        {"uri", "inputResponses", "requestState"},
	"resources/subscribe":   {"uri"},
	"resources/unsubscribe": {"uri"},
	"completion/complete":   {"ref", "argument"},
	"logging/setLevel":      {"level"},
	"tasks/get":             {"taskId"},
	"tasks/result":          {"taskId"},
	"tasks/list":            {"cursor"},
	"tasks/cancel":          {"taskId"},
	"tasks/update":          {"taskId", "inputResponses"},
	"x/unknown":             {"taskId", "cursor"},
}

// goodMembers are members of a good request, beside the one that is wrong.
var goodMembers = map[string]map[string]string{
	"initialize":          {"protocolVersion": `"2025-11-25"`, "capabilities": `{}`, "clientInfo": `{"name":"c","version":"1"}`},
	"tools/call":          {"name": `"greet"`, "arguments": `{"name":"Ada"}`},
	"prompts/get":         {"name": `"hello"`},
	"resources/read":      {"uri": `"demo://readme"`},
	"completion/complete": {"ref": `{"type":"ref/prompt","name":"hello"}`, "argument": `{"name":"name","value":"A"}`},
	"tasks/update":        {"inputResponses": `{}`},
}

var metaMembers = []string{
	translate.MetaVersion, translate.MetaClientInfo, translate.MetaClientCaps, translate.MetaLogLevel,
	translate.MetaRelatedTask, translate.MetaSubscription, translate.MetaProgress, "traceparent",
}

// duplicates are repeated members at each place a rule reads, some spelled
// with escapes. PARAMS stands for what a good request has there.
var duplicates = []string{
	`{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":PARAMS}`,
	`{"jsonrpc":"2.0","id":1,"\u0069d":1,"method":"tools/call","params":PARAMS}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/list","meth\u006fd":"tools/call","params":PARAMS}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":PARAMS,"params":PARAMS}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","n\u0061me":"greet",MEMBERS}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"task":{},"\u0074ask":{},"name":"greet",MEMBERS}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"task":{"ttl":1,"ttl":2},"name":"greet",MEMBERS}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"requestState":"a","requestState":"b","name":"greet",MEMBERS}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a","task\u0049d":"b",MEMBERS}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"a","inputResponses":{"k":{},"\u006b":{}},MEMBERS}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","_meta":{"progressToken":1,"progress\u0054oken":2},MEMBERS}}`,
}

// inputCase is one hostile message.
type inputCase struct {
	name   string
	method string // for the headers
	mirror string // Mcp-Name
	body   string
	// want is the exact outcome "status code"; empty: one of the outcomes any
	// request may have.
	want string
	none bool // a notification: accepted, never answered
	big  bool // over 10 KiB: its cost is not held against the bounds
}

// inputCases is the table for one kind of client.
func inputCases(c *caller) []inputCase {
	var out []inputCase
	modern := c.era == translate.Modern
	add := func(ic inputCase) {
		if ic.name = strings.ToValidUTF8(ic.name, "?"); len(ic.name) > 60 {
			ic.name = ic.name[:60]
		}
		out = append(out, ic)
	}
	good := func(method, but string) string {
		var members []string
		for k, v := range goodMembers[method] {
			if k != but {
				members = append(members, quote(k)+":"+v)
			}
		}
		slices.Sort(members)
		return strings.Join(members, ",")
	}
	with := func(method, member, value string) string {
		return c.params(join(good(method, member), quote(member)+":"+value))
	}
	for _, method := range allMethods {
		for _, p := range []string{`[]`, `"x"`, `5`, `null`, `true`} {
			add(inputCase{name: method + " params " + p, method: method, body: request("1", method, p), want: "400 -32600"})
		}
		for _, id := range []string{`null`, `{}`, `[]`, `true`} {
			add(inputCase{name: method + " id " + id, method: method, body: request(id, method, c.params(good(method, ""))), want: "400 -32600"})
		}
		for _, id := range []string{`1e400`, `1.5`, `-0`, `"\ud83d"`, `""`, `9223372036854775808`, `"` + strings.Repeat("i", 8<<10) + `"`} {
			ic := inputCase{name: method + " id " + id, method: method, mirror: nameOf(method, c.params(good(method, ""))), body: request(id, method, c.params(good(method, "")))}
			add(ic)
		}
		add(inputCase{name: method + " without params", method: method, body: `{"jsonrpc":"2.0","id":1,"method":` + quote(method) + `}`})
		for _, v := range []string{`"1.0"`, `2.0`, `null`, `"2.0 "`} {
			add(inputCase{name: method + " version " + v, method: method, body: `{"jsonrpc":` + v + `,"id":1,"method":` + quote(method) + `}`, want: "400 -32600"})
		}
		add(inputCase{name: method + " and result", method: method, body: `{"jsonrpc":"2.0","id":1,"method":` + quote(method) + `,"result":{}}`, want: "400 -32600"})
		add(inputCase{name: method + " unlocked", method: method, body: `{"jsonrpc":"2.0","id":1,"method":` + quote(method) + `,"params":` + c.params("") + `}x`, want: "400 -32700"})
		// As a notification nothing is answered, whatever is in it.
		add(inputCase{name: method + " notified", method: method, mirror: nameOf(method, c.params(good(method, ""))), body: `{"jsonrpc":"2.0","method":` + quote(method) + `,"params":` + c.params(good(method, "")) + `}`, none: true})
		for _, member := range ruleMembers[method] {
			for _, v := range wrongValues {
				p := with(method, member, v)
				add(inputCase{name: method + " " + member + " " + v[:min(len(v), 20)], method: method, mirror: nameOf(method, p), body: request("1", method, p)})
			}
		}
	}
	for _, method := range []string{"tools/call", "tools/list", "tasks/get", "x/unknown"} {
		for _, v := range []string{`null`, `"x"`, `[]`, `5`} {
			ic := inputCase{name: method + " _meta " + v, method: method, mirror: nameOf(method, "{"+good(method, "")+"}"), body: request("1", method, "{"+join(good(method, ""), `"_meta":`+v)+"}")}
			if modern {
				ic.want = "400 -32602"
			}
			add(ic)
		}
		for _, member := range metaMembers {
			if !modern && member == translate.MetaVersion {
				continue // it would make a modern request of it
			}
			for _, v := range wrongValues {
				meta := map[string]json.RawMessage{}
				_ = json.Unmarshal([]byte(c.meta("")), &meta)
				delete(meta, member)
				var members []string
				for k, v := range meta {
					members = append(members, quote(k)+":"+string(v))
				}
				slices.Sort(members)
				p := "{" + join(good(method, ""), `"_meta":{`+join(strings.Join(members, ","), quote(member)+":"+v)+`}`) + "}"
				add(inputCase{name: method + " _meta " + member + " " + v[:min(len(v), 20)], method: method, mirror: nameOf(method, p), body: request("1", method, p)})
			}
		}
	}
	members := `"_meta2":{}`
	if modern {
		members = `"arguments":{},"_meta":` + c.meta("")
	}
	for _, d := range duplicates {
		if modern && strings.Contains(d, `"_meta":{"progress`) {
			continue // twice _meta, which is another row
		}
		body := strings.ReplaceAll(strings.ReplaceAll(d, "PARAMS", c.params(good("tools/call", ""))), "MEMBERS", members)
		add(inputCase{name: "duplicate " + d[24:60], method: "tools/call", mirror: "greet", body: body, want: "400 -32600"})
	}
	deep := func(n int) string {
		return c.params(`"name":"echo","arguments":{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
	}
	call := func(name, params, want string) {
		add(inputCase{name: name, method: "tools/call", mirror: nameOf("tools/call", params), body: request("1", "tools/call", params), want: want, big: len(params) > 10<<10})
	}
	call("depth at the limit", deep(509), "200 0")
	call("depth beyond", deep(510), "400 -32600")
	call("depth far beyond", deep(4000), "400 -32600")
	call("1 MiB of brackets", c.params(`"name":"echo","arguments":{"a":`+strings.Repeat("[", 1<<20)+`}`), "400 -32600")
	call("huge numbers", c.params(`"name":"echo","arguments":{"a":1e1000000,"b":`+strings.Repeat("9", 5000)+`,"c":-1e-999999}`), "")
	call("lone surrogates", c.params(`"name":"echo","arguments":{"a":"\ud800","b":"\udc00\ud800","\ud83d":1}`), "")
	call("NUL and line ends", c.params(`"name":"greet","arguments":{"name":"a\u0000\r\n\u2028"}`), "200 0")
	call("raw bad UTF-8", c.params("\"name\":\"echo\",\"arguments\":{\"a\":\"\xff\"}"), "400 -32700")
	call("raw surrogate bytes", c.params("\"name\":\"echo\",\"arguments\":{\"a\":\"\xed\xa0\xbd\"}"), "400 -32700")
	call("overlong UTF-8", c.params("\"name\":\"echo\",\"arguments\":{\"a\":\"\xc0\xaf\"}"), "400 -32700")
	call("raw control character", c.params("\"name\":\"echo\",\"arguments\":{\"a\":\"\x01\"}"), "400 -32700")
	call("many members", c.params(`"name":"echo",`+manyMembers(3000)), "")
	for name, body := range map[string]string{
		"empty": ``, "blanks": "  \n", "text": `hello`, "half": `{"jsonrpc":"2.0","id":1,`, "BOM": "\ufeff{}", "NaN": `{"jsonrpc":"2.0","id":NaN,"method":"ping"}`,
		"single quotes": `{'jsonrpc':'2.0'}`, "comment": `{"jsonrpc":"2.0"/**/,"id":1}`, "two": `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, "UTF-16": "\xff\xfe{\x00}\x00",
		"leading zero": `{"jsonrpc":"2.0","id":01,"method":"ping"}`,
	} {
		add(inputCase{name: "body " + name, method: "ping", body: body, want: "400 -32700"})
	}
	for name, body := range map[string]string{
		"object": `{}`, "number": `5`, "string": `"x"`, "null": `null`, "method number": `{"jsonrpc":"2.0","id":1,"method":5}`, "method empty": `{"jsonrpc":"2.0","id":1,"method":""}`,
		"method null": `{"jsonrpc":"2.0","id":1,"method":null}`, "empty array": `[]`, "array of numbers": `[1,2]`, "array of arrays": `[[]]`, "half array": `[{"jsonrpc":"2.0","id":1,"method":"ping"}`, "array": `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`,
		"result without id": `{"jsonrpc":"2.0","result":{}}`, "result and error": `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, "result array": `{"jsonrpc":"2.0","id":1,"result":[]}`,
		"error text": `{"jsonrpc":"2.0","id":1,"error":"x"}`, "error without code": `{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`, "error code text": `{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"x"}}`,
	} {
		add(inputCase{name: "body " + name, method: "ping", body: body, want: "400 -32600"})
	}
	// An answer to no question: dropped toward legacy clients, not allowed to
	// modern ones.
	for _, body := range []string{`{"jsonrpc":"2.0","id":999999,"result":{}}`, `{"jsonrpc":"2.0","id":"` + strings.Repeat("z", 9000) + `","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`} {
		ic := inputCase{name: "stray answer " + body[:40], method: "", body: body, none: true}
		if modern {
			ic.none, ic.want = false, "400 -32600"
		}
		add(ic)
	}
	for _, taskID := range []string{"tb1_", "tb1_" + strings.Repeat("A", 40), "tb1_" + strings.Repeat("A", 4000), "../../x", "x\r\ny", "\u0000", strings.Repeat("t", 8000)} {
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/update"} {
			p := c.params(`"inputResponses":{},"taskId":` + quote(taskID))
			add(inputCase{name: method + " " + taskID[:min(len(taskID), 12)], method: method, mirror: taskID, body: request("1", method, p)})
		}
	}
	big := quote(strings.Repeat("T", 1<<20))
	add(inputCase{name: "taskId of 1 MiB", method: "tasks/get", body: request("1", "tasks/get", c.params(`"taskId":`+big)), big: true})
	add(inputCase{name: "cursor of 1 MiB", method: "tools/list", body: request("1", "tools/list", c.params(`"cursor":`+big)), big: true})
	return out
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

func manyMembers(n int) string {
	var b strings.Builder
	b.WriteString(`"arguments":{`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"%d":%d`, i, i)
	}
	b.WriteByte('}')
	return b.String()
}

// pairing is a client's era before a server's.
type pairing struct {
	name           string
	client, server translate.Era
}

var pairings = []pairing{
	{"legacy client, modern server", translate.Legacy, translate.Modern},
	{"modern client, legacy server", translate.Modern, translate.Legacy},
	{"legacy client, legacy server", translate.Legacy, translate.Legacy},
	{"modern client, modern server", translate.Modern, translate.Modern},
}

// countedPeer is a real server behind a counter.
func countedPeer(t testing.TB, era translate.Era, o peers.ServerOptions) (url string, list *scripted) {
	t.Helper()
	if o.PollInterval == 0 {
		o.PollInterval = 50 * time.Millisecond
	}
	var h interface {
		http.Handler
		Close() error
	} = peers.NewLegacyServer(o)
	if era == translate.Modern {
		h = peers.NewModernServer(o)
	}
	list = &scripted{}
	hs := httptest.NewServer(counted{h, list})
	t.Cleanup(func() { h.Close(); hs.Close() })
	return hs.URL + "/mcp", list
}

// outcomes any request may have of a server that behaves: what conditions say
// (translate/status.go) of a request that is the client's own fault, or a
// result.
var outcomes = map[translate.Era][]string{
	translate.Legacy: {"200 0", "200 -32600", "200 -32601", "200 -32602", "200 -32002"},
	translate.Modern: {"200 0", "200 -32602", "400 -32600", "400 -32602", "400 -32020", "400 -32021", "400 -32022", "404 -32601"},
}

// Each input of the table, over every pair: one answer with the right status
// and code, under the request's own id, at bounded cost, and a client that
// behaves goes on as before.
func TestSafetyS51_HostileInputs(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			url, server := countedPeer(t, pair.server, peers.ServerOptions{})
			g := newRig(t, url, bridgeOptions{})
			evil, good := newCaller(t, g, pair.client, "evil"), newCaller(t, g, pair.client, "good")
			direct := &caller{t: t, g: &bridge{URL: url}, http: evil.http}
			cases := inputCases(evil)
			runtime.GC()
			for i, ic := range cases {
				cost := hostileInput(t, evil, server, ic)
				// A run that met a collection, a timer or the start of a session
				// with the server is measured again: bounds are for the input.
				for try := 0; try < 4 && !ic.big && cost.over() != ""; try++ {
					again := hostileInput(t, evil, server, ic)
					cost = least(cost, again.less(straight(direct, server.Requests(""))))
				}
				if why := cost.over(); why != "" && !ic.big && len(ic.body) <= 10<<10 {
					t.Errorf("%s: %s: %s", ic.name, why, clip(ic.body))
				}
				if i%16 == 0 || i == len(cases)-1 {
					if r := good.tool("greet", ""); r.Status != 200 {
						t.Fatalf("after %s the other client gets %s", ic.name, r)
					}
				}
			}
			t.Logf("%d inputs", len(cases))
		})
	}
}

func clip(s string) string { return s[:min(len(s), 300)] }

// spent is what one input cost all of us: client, proxy and server.
type spent struct {
	bytes    uint64
	cpu      time.Duration
	requests int
}

// less takes off what the test's own client and server spend.
func (s spent) less(test spent) spent {
	s.bytes -= min(s.bytes, test.bytes)
	s.cpu -= min(s.cpu, test.cpu)
	return s
}

// The bounds of S51.
const (
	maxInputBytes    = 256 << 10
	maxInputCPU      = 20 * time.Millisecond
	maxInputRequests = 3
)

func (s spent) over() string {
	switch {
	case s.bytes > maxInputBytes && !raceEnabled:
		return fmt.Sprintf("%d bytes allocated", s.bytes)
	case s.cpu > maxInputCPU && !raceEnabled:
		return fmt.Sprintf("%v of processor time", s.cpu)
	case s.requests > maxInputRequests:
		return fmt.Sprintf("%d requests to the server", s.requests)
	}
	return ""
}

func least(a, b spent) spent {
	return spent{min(a.bytes, b.bytes), min(a.cpu, b.cpu), min(a.requests, b.requests)}
}

// straight is what the test itself spends on what the proxy sent up.
func straight(c *caller, sent []seenRequest) spent {
	return measure(func() {
		for _, r := range sent {
			if r.Verb == http.MethodPost {
				c.post(r.Header.Clone(), string(r.Body))
			}
		}
	})
}

func measure(f func()) spent {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := processorTime()
	f()
	cpu = processorTime() - cpu
	runtime.ReadMemStats(&after)
	return spent{bytes: after.TotalAlloc - before.TotalAlloc, cpu: cpu}
}

func hostileInput(t *testing.T, c *caller, server *scripted, ic inputCase) spent {
	t.Helper()
	server.Forget()
	var r rawReply
	cost := measure(func() { r = c.post(c.headers(ic.method, ic.mirror), ic.body) })
	cost.requests = len(server.Requests(""))
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s\nin:  %s\nout: %s", ic.name, fmt.Sprintf(format, args...), clip(ic.body), r)
	}
	if r.Broken != nil {
		fail("the reply broke: %v", r.Broken)
		return cost
	}
	if ic.none {
		ok := r.Status == 202 && len(r.Body) == 0 && r.Header.Get("Content-Type") == ""
		// A modern notification that the revision refuses is an error without id.
		refused := c.era == translate.Modern && (r.Status == 400 || r.Status == 404)
		// Pass-through shows how the server takes it.
		if !ok && !refused {
			fail("a message that wants no answer")
		}
		return cost
	}
	var m struct{ ID, Method, Params json.RawMessage }
	readable := json.Unmarshal([]byte(ic.body), &m) == nil
	if len(r.Answers) == 0 && strings.Contains(string(r.Body), "subscriptions/acknowledged") {
		return cost
	}
	if len(r.Answers) != 1 {
		fail("%d answers, want 1", len(r.Answers))
		return cost
	}
	got := fmt.Sprintf("%d %d", r.Status, r.Code())
	switch {
	case ic.want != "" && got != ic.want:
		fail("got %s, want %s", got, ic.want)
	case ic.want == "" && !slices.Contains(outcomes[c.era], got):
		fail("got %s", got)
	}
	if ic.want == "400 -32600" || ic.want == "400 -32700" {
		if cost.requests > 0 { // a poll of an earlier input's task, or this one: once more tells
			server.Forget()
			c.post(c.headers(ic.method, ic.mirror), ic.body)
			if seen := server.Requests(""); len(seen) > 0 {
				fail("%d requests reached the server, twice; the last is %s %s", len(seen), seen[len(seen)-1].Verb, clip(string(seen[len(seen)-1].Body)))
			}
		}
		return cost
	}
	if id := r.answer().ID; readable && m.ID != nil && string(id) != string(m.ID) {
		fail("the answer has id %.60s", id)
	}
	return cost
}
