package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/translate"
)

// Tenancy: many callers share a proxy and the server's credential, so the server
// gives anybody anything that is named to it. Whatever belongs to a caller holds
// its mark; no caller may ever get a byte with another's.

const tenants = 50

func mark(i int) string { return fmt.Sprintf("zq%02dqz", i) }

var anyMark = regexp.MustCompile(`zq\d\dqz`)

// tenant is one caller and what it has.
type tenant struct {
	*scaleClient
	t      *testing.T
	i      int
	header http.Header // more of them
	// What others could steal.
	task, state, event, cursor, link string
	open                             []func() string // ends a stream and gives what came on it
}

// got looks for others' marks in all that came.
func (c *tenant) got(what string, w *httptest.ResponseRecorder) string {
	c.t.Helper()
	all := fmt.Sprint(w.Code, " ", w.Header(), "\n", w.Body)
	for _, m := range anyMark.FindAllString(all, -1) {
		if m != mark(c.i) {
			c.t.Errorf("%s: caller %d got what belongs to %s: %.300s", what, c.i, m, all)
			break
		}
	}
	return all
}

func (c *tenant) request(ctx context.Context, method string, params map[string]any) *http.Request {
	q := c.scaleClient.request(ctx, method, params)
	maps.Copy(q.Header, c.header)
	return q
}

func (c *tenant) do(q *http.Request) (all string, status int, body string) {
	w := httptest.NewRecorder()
	ctx, cancel := context.WithTimeout(q.Context(), 5*time.Second)
	defer cancel()
	c.b.srv.ServeHTTP(w, q.WithContext(ctx))
	return c.got(q.Method+" "+q.Header.Get("Mcp-Method"), w), w.Code, w.Body.String()
}

func (c *tenant) say(method string, params map[string]any) (status int, body string) {
	_, status, body = c.do(c.request(context.Background(), method, params))
	return status, body
}

// growing takes an answer that is looked at while it comes.
type growing struct {
	mu sync.Mutex
	*httptest.ResponseRecorder
}

func (g *growing) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ResponseRecorder.Write(b)
}

func (g *growing) WriteHeader(code int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ResponseRecorder.WriteHeader(code)
}

func (g *growing) Flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ResponseRecorder.Flush()
}

func (g *growing) text() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Body.String()
}

// stream sends a request whose answer does not end, and gives what came so far.
func (c *tenant) stream(q *http.Request) string {
	w := &growing{ResponseRecorder: httptest.NewRecorder()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.b.srv.ServeHTTP(w, q.WithContext(ctx))
	}()
	c.open = append(c.open, func() string {
		cancel()
		<-done
		return c.got("stream", w.ResponseRecorder)
	})
	time.Sleep(4 * time.Second) // virtual: what comes has come
	return w.text()
}

func find(body, key string) string {
	m := regexp.MustCompile(`"` + key + `":"([^"]+)"`).FindStringSubmatch(body)
	if m == nil {
		return ""
	}
	return m[1]
}

// begin gets a caller what others could steal.
func (c *tenant) begin(era translate.Era) {
	c.t.Helper()
	if era == translate.Legacy {
		c.version = translate.LatestLegacy
		q := c.request(context.Background(), "initialize", map[string]any{"protocolVersion": c.version, "capabilities": map[string]any{"elicitation": map[string]any{}}, "clientInfo": map[string]any{"name": mark(c.i), "version": "1"}})
		w := httptest.NewRecorder()
		c.b.srv.ServeHTTP(w, q)
		c.sid = w.Header().Get("Mcp-Session-Id")
		c.got("initialize", w)
		c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		get := c.request(context.Background(), "", map[string]any{})
		get.Method, get.Body, get.ContentLength = http.MethodGet, http.NoBody, 0
		c.event = firstEvent(c.stream(get))
	}
	job := map[string]any{"name": "job", "arguments": map[string]any{}}
	if era == translate.Legacy {
		job["task"] = map[string]any{}
	}
	_, body := c.say("tools/call", job)
	c.task = find(body, "taskId")
	_, body = c.say("prompts/list", map[string]any{})
	c.cursor = find(body, "nextCursor")
	ask := map[string]any{"name": "ask", "arguments": map[string]any{}}
	if era == translate.Modern {
		_, body = c.say("tools/call", ask)
		c.state = find(body, "requestState")
	} else {
		body = c.stream(c.request(context.Background(), "tools/call", ask))
		if e := firstEvent(body); e != "" {
			c.event = e
		}
		sse := httptest.NewRequest("GET", "http://127.0.0.1/sse", nil)
		sse.Header.Set("Authorization", "Bearer "+c.who)
		c.link = regexp.MustCompile(`data: (\S+)`).FindStringSubmatch(c.stream(sse))[1]
	}
	if c.task == "" || c.cursor == "" || era == translate.Modern && c.state == "" || era == translate.Legacy && (c.sid == "" || c.event == "") {
		c.t.Fatalf("caller %d has too little: %+v\n%s", c.i, c, body)
	}
}

func firstEvent(body string) string {
	if m := regexp.MustCompile(`(?m)^id: (\S+)`).FindStringSubmatch(body); m != nil {
		return m[1]
	}
	return ""
}

// post sends a message as it is.
func (c *tenant) post(raw string) (int, string) {
	q := c.request(context.Background(), "x", map[string]any{})
	w := httptest.NewRequest("POST", "http://127.0.0.1/mcp", strings.NewReader(raw))
	w.Header = q.Header
	_, status, body := c.do(w)
	return status, body
}

// attack is one thing a thief does with what it stole, or made up.
type attack struct {
	name string
	era  translate.Era // EraUnknown: both
	what func(c *tenant) *string
	do   func(thief *tenant, stolen string) (int, string)
}

func with(method string, params func(stolen string) map[string]any) func(*tenant, string) (int, string) {
	return func(c *tenant, stolen string) (int, string) { return c.say(method, params(stolen)) }
}

var (
	taskOf   = func(c *tenant) *string { return &c.task }
	stateOf  = func(c *tenant) *string { return &c.state }
	cursorOf = func(c *tenant) *string { return &c.cursor }
	eventOf  = func(c *tenant) *string { return &c.event }
	sidOf    = func(c *tenant) *string { return &c.sid }
	linkOf   = func(c *tenant) *string { return &c.link }
)

func attacks() (all []attack) {
	id := func(s string) map[string]any { return map[string]any{"taskId": s} }
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		all = append(all, attack{method, translate.EraUnknown, taskOf, with(method, id)})
	}
	all = append(all,
		attack{"tasks/result", translate.Legacy, taskOf, with("tasks/result", id)},
		attack{"tasks/update", translate.Modern, taskOf, with("tasks/update", func(s string) map[string]any {
			return map[string]any{"taskId": s, "inputResponses": map[string]any{"q": map[string]any{"action": "cancel"}}}
		})},
		attack{"listen to taskIds", translate.Modern, taskOf, with("subscriptions/listen", func(s string) map[string]any {
			return map[string]any{"notifications": map[string]any{"taskIds": []any{s}}}
		})},
		attack{"tasks/list", translate.Legacy, cursorOf, with("tasks/list", func(s string) map[string]any { return map[string]any{"cursor": s} })},
	)
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		all = append(all, attack{method + " cursor", translate.EraUnknown, cursorOf, with(method, func(s string) map[string]any { return map[string]any{"cursor": s} })})
	}
	for method, params := range map[string]map[string]any{
		"tools/call": {"name": "ask", "arguments": map[string]any{}}, "prompts/get": {"name": "p"}, "resources/read": {"uri": "file:///x"},
	} {
		all = append(all, attack{method + " requestState", translate.Modern, stateOf, with(method, func(s string) map[string]any {
			p := map[string]any{"requestState": s, "inputResponses": map[string]any{"q": map[string]any{"action": "accept", "content": map[string]any{}}}}
			maps.Copy(p, params)
			return p
		})})
	}
	for _, method := range []string{"ping", "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list", "resources/subscribe",
		"resources/unsubscribe", "completion/complete", "logging/setLevel", "tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "made/up", "GET", "DELETE", "answer", "notifications/cancelled"} {
		all = append(all, attack{method + " in a session", translate.Legacy, sidOf, func(c *tenant, stolen string) (int, string) {
			c.header = http.Header{"Mcp-Session-Id": {stolen}}
			defer func() { c.header = nil }()
			switch method {
			case "GET", "DELETE":
				q := c.request(context.Background(), "", map[string]any{})
				q.Method, q.Body, q.ContentLength = method, http.NoBody, 0
				_, status, body := c.do(q)
				return status, body
			case "answer":
				return c.post(`{"jsonrpc":"2.0","id":1,"result":{"action":"cancel"}}`)
			case "notifications/cancelled":
				return c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			}
			return c.say(method, map[string]any{"name": "ask", "uri": "file:///x", "taskId": c.task, "level": "debug"})
		}})
	}
	all = append(all,
		attack{"Last-Event-ID", translate.Legacy, eventOf, func(c *tenant, stolen string) (int, string) {
			q := c.request(context.Background(), "", map[string]any{})
			q.Method, q.Body, q.ContentLength = http.MethodGet, http.NoBody, 0
			q.Header.Set("Last-Event-ID", stolen)
			_, status, body := c.do(q)
			return status, body
		}},
		attack{"HTTP+SSE message url", translate.Legacy, linkOf, func(c *tenant, stolen string) (int, string) {
			q := c.request(context.Background(), "tools/list", map[string]any{})
			to, err := q.URL.Parse(stolen)
			if err != nil {
				panic(err)
			}
			q.URL = to
			q.Header.Del("Mcp-Session-Id")
			q.Header.Del("Mcp-Protocol-Version")
			_, status, body := c.do(q)
			return status, body
		}},
	)
	return all
}

// madeUp is of the form of s and nobody's.
func madeUp(s string) string {
	b := []byte(s)
	for i := max(0, len(b)-6); i < len(b)-1; i++ { // the last letter may hold bits nobody reads
		switch b[i] {
		case '.', '-', '_', ':':
		case 'A':
			b[i] = 'B'
		default:
			b[i] = 'A'
		}
	}
	return string(b)
}

var requestID = regexp.MustCompile(`"(id|io.modelcontextprotocol/subscriptionId)":\d+`)

func anonymous(s string) string { return requestID.ReplaceAllString(s, `"$1":0`) }

// TestTenancy: fifty callers try each other's ids, made-up ones and the
// server's own, by every method, in all four pairs of eras.
func TestTenancy(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playTenancy(t, pair) })
		})
	}
}

func playTenancy(t *testing.T, pair pairing) {
	server := newTenantServer(pair.server == translate.Legacy)
	b := newTenancyBridge(t, &scaleServer{serve: server.serve}, pair.server)
	defer b.close()
	all := make([]*tenant, tenants)
	defer func() { // what came on streams is looked at, too
		for _, c := range all {
			for _, end := range c.open {
				end()
			}
		}
	}()
	for i := range all {
		all[i] = &tenant{scaleClient: &scaleClient{b: b, who: "t" + fmt.Sprint(i), version: translate.LatestModern, asks: true}, t: t, i: i}
	}
	for _, c := range all {
		c.begin(pair.client)
	}
	tried := 0
	for i, thief := range all {
		victim := all[(i+1)%tenants]
		for _, a := range attacks() {
			if a.era != translate.EraUnknown && a.era != pair.client {
				continue
			}
			stolen := *a.what(victim)
			foreignStatus, foreign := a.do(thief, stolen)
			unknownStatus, unknown := a.do(thief, madeUp(stolen))
			tried++
			foreign, unknown = anonymous(strings.ReplaceAll(foreign, stolen, "X")), anonymous(strings.ReplaceAll(unknown, madeUp(stolen), "X"))
			if foreignStatus != unknownStatus || foreign != unknown {
				t.Errorf("%s: another's: %d %.300s\nnobody's: %d %.300s", a.name, foreignStatus, foreign, unknownStatus, unknown)
			}
		}
		for n := range 4 { // the server's own ids
			for _, method := range []string{"tasks/get", "tasks/cancel"} {
				if status, body := thief.say(method, map[string]any{"taskId": fmt.Sprint("task-", 1+(i*7+n*13)%tenants)}); !strings.Contains(body, `"error"`) {
					t.Errorf("%s of a guessed id: %d %s", method, status, body)
				}
			}
		}
		if pair.client == translate.Legacy { // in its own session: what it can name of others'
			for id := range 20 {
				thief.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{}}}`, 1000+id))
				thief.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, 1000+id))
				thief.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, id))
			}
		}
		if t.Failed() {
			return
		}
	}
	for _, c := range all { // nothing of theirs was touched
		status, body := c.say("tasks/get", map[string]any{"taskId": c.task})
		if status != 200 || !strings.Contains(body, mark(c.i)) || strings.Contains(body, "cancelled") {
			t.Errorf("caller %d's own task afterwards: %d %s", c.i, status, body)
		}
		if status, body = c.say("prompts/list", map[string]any{"cursor": c.cursor}); status != 200 || !strings.Contains(body, mark(c.i)) {
			t.Errorf("caller %d's own cursor afterwards: %d %s", c.i, status, body)
		}
		if pair.client == translate.Modern && pair.server == translate.Modern {
			status, body = c.say("tools/call", map[string]any{"name": "ask", "arguments": map[string]any{}, "requestState": c.state,
				"inputResponses": map[string]any{"q": map[string]any{"action": "accept", "content": map[string]any{}}}})
			if status != 200 || !strings.Contains(body, mark(c.i)) {
				t.Errorf("caller %d's own state afterwards: %d %s", c.i, status, body)
			}
		}
	}
	t.Logf("%d attacks", tried)
}

// newTenancyBridge seals every handle and forgets nothing while a test runs.
func newTenancyBridge(t *testing.T, s *scaleServer, era translate.Era) *scaleBridge {
	t.Helper()
	const long = 100 * time.Hour
	return newFunctionBridge(t, s, era,
		session.Options{Policy: session.Policy{SealSameEra: true, ParkFor: long, SessionIdle: long, ResumeFor: long}},
		downstream.Options{SSEPath: "/sse", Limits: downstream.Limits{IdleTimeout: long}})
}
