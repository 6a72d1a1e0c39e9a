package session_test

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// answerer is a server that answers each message at once; "" leaves it open.
type answerer func(m *jsonrpc.Message) string

func (a answerer) Dial(context.Context, session.Target) (session.Conn, error) { return a, nil }
func (a answerer) Close() error                                               { return nil }

func (a answerer) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	e := &fakeExchange{out: out, ctx: ctx, events: make(chan fakeEvent, 2)}
	e.env = &translate.Envelope{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}}
	if out.Msg == nil {
		e.env = &translate.Envelope{Status: 405}
		e.events <- fakeEvent{end: true}
		return e, nil
	}
	m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	said := a(m)
	if said == "" && m.Kind == jsonrpc.Request {
		e.env.Header.Set("Content-Type", "text/event-stream")
		return e, nil
	}
	if m.Kind == jsonrpc.Request {
		said = strings.ReplaceAll(said, "ID", string(m.ID.Raw()))
		answer, err := jsonrpc.Decode([]byte(said), jsonrpc.Limits{})
		if err != nil {
			return nil, err
		}
		e.events <- fakeEvent{msg: answer}
	}
	e.events <- fakeEvent{end: true}
	return e, nil
}

// watched is a runner with a witness, and a client of it.
type watched struct {
	t *testing.T
	r *session.Runner
	w *witness
	// principal and session of what is said next.
	principal session.Principal
	session   string
	header    http.Header
	verb      string // of what has no message; empty: GET
}

func newWatched(t *testing.T, face session.Face, a answerer) *watched {
	t.Helper()
	return newWatchedBy(t, face, a, func(w *witness) session.Observer { return w })
}

func newWatchedBy(t *testing.T, face session.Face, a answerer, by func(*witness) session.Observer) *watched {
	t.Helper()
	handles, err := session.NewHandles([][]byte{make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{}
	r, err := session.New(session.Options{Store: memory.New(), Dialer: a, Faces: fakeFaces{face}, Handles: handles,
		Route: "tickets", Upstream: "blue", Observers: []session.Observer{by(w)}})
	if err != nil {
		t.Fatal(err)
	}
	return &watched{t: t, r: r, w: w, principal: session.HashPrincipal("token", "ann")}
}

// say hands a message over (empty: a GET) and gives what came on its stream, up
// to the final Out or until nothing moves.
func (c *watched) say(era translate.Era, raw string) (outs []session.Out) {
	c.t.Helper()
	s := c.r.NewStream()
	in := session.Inbound{
		Caller: session.Caller{Principal: c.principal, Era: era, Session: c.session},
		Frame:  translate.Frame{Leg: translate.ClientLeg, Dir: translate.ToServer, HTTP: &translate.Envelope{Verb: "POST", Header: c.header}, Transport: translate.TransportHTTP},
	}
	if raw == "" {
		in.Frame.HTTP.Verb = cmp.Or(c.verb, "GET")
	} else {
		m, err := jsonrpc.Decode([]byte(raw), jsonrpc.Limits{})
		if err != nil {
			c.t.Fatal(err)
		}
		in.Frame.Msg = m
	}
	if era == translate.Modern {
		in.Caller.Version = translate.V20260728
	}
	c.r.Client(c.t.Context(), in, s)
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	for {
		o, ok := s.Next(ctx)
		if !ok {
			break
		}
		outs = append(outs, o)
		if o.Final {
			break
		}
	}
	s.Gone()
	synctest.Wait()
	return outs
}

// last is the newest request the witness saw the end of.
func (c *watched) last() (session.Request, session.Ended) {
	c.t.Helper()
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if len(c.w.of) == 0 {
		c.t.Fatal("nothing was observed")
	}
	return c.w.of[len(c.w.of)-1], c.w.ended[len(c.w.ended)-1]
}

func (c *watched) end() {
	c.r.Close()
	c.w.check(c.t)
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"shop","version":"2.1"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=b"}`

func TestObserver_ModernClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWatched(t, session.Face{Era: translate.Modern, Version: translate.V20260728}, func(m *jsonrpc.Message) string {
			switch name, _ := m.At("params", "name").Str(); name {
			case "fails":
				return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[],"isError":true}}`
			case "task":
				return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"task","taskId":"7","status":"working"}}`
			case "asks":
				return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"input_required","inputRequests":{}}}`
			case "refuses":
				return `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such tool"}}`
			case "tells":
				return `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no tb1_` + strings.Repeat("Ab-_", 40) + `: gone"}}`
			case "waits":
				return ""
			}
			return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}`
		})
		defer c.end()
		c.header = http.Header{"Traceparent": {"00-11111111111111111111111111111111-2222222222222222-01"}}
		for _, row := range []struct {
			name string
			want translate.Answer
		}{
			{"works", translate.Answer{Outcome: translate.OutcomeCompleted}},
			{"fails", translate.Answer{Outcome: translate.OutcomeToolError}},
			{"task", translate.Answer{Outcome: translate.OutcomeTask, Task: translate.Working, TaskID: `"7"`}},
			{"asks", translate.Answer{Outcome: translate.OutcomeInputRequired}},
			{"refuses", translate.Answer{Outcome: translate.OutcomeError, Code: -32602, Message: "no such tool"}},
			{"tells", translate.Answer{Outcome: translate.OutcomeError, Code: -32602, Message: "no …: gone"}},
			{"waits", translate.Answer{Outcome: translate.OutcomeGone}},
		} {
			c.say(translate.Modern, `{"jsonrpc":"2.0","id":"r1","method":"tools/call","params":{"name":"`+row.name+`",`+modernMeta+`}}`)
			q, e := c.last()
			if e.Answer != row.want {
				t.Errorf("%s: %+v, want %+v", row.name, e.Answer, row.want)
			}
			want := session.Request{
				Who: session.Who{Principal: c.principal, Client: "shop", ClientVersion: "2.1"}, At: q.At, Route: "tickets", Upstream: "blue",
				Down: translate.Modern, Up: translate.Modern, Version: translate.V20260728, Transport: "http", Kind: jsonrpc.Request, Verb: "POST",
				Method: "tools/call", Name: row.name, ID: `"r1"`,
				Parent: session.TraceContext{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", State: "a=b"},
				Link:   session.TraceContext{Parent: c.header.Get("Traceparent")},
			}
			if q != want {
				t.Errorf("%s:\n got %+v\nwant %+v", row.name, q, want)
			}
		}
		c.say(translate.Modern, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"r1",`+modernMeta+`}}`)
		if q, e := c.last(); q.Kind != jsonrpc.Notification || e.Outcome != translate.OutcomeAccepted {
			t.Errorf("a notification: %s %s", q.Kind, e.Outcome)
		}
	})
}

func TestObserver_LegacyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWatched(t, session.Face{Era: translate.Modern, Version: translate.V20260728, Tasks: true}, func(m *jsonrpc.Message) string {
			switch m.Method {
			case "server/discover":
				return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"s","version":"1"}}}`
			case "tools/call":
				return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"task","taskId":"7","status":"working","createdAt":"2026-08-01T00:00:00Z","ttlMs":60000}}`
			}
			return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete"}}`
		})
		defer c.end()
		name := strings.Repeat("n", 127) + "é" + strings.Repeat("n", 1<<20)
		outs := c.say(translate.Legacy, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"`+name+`","version":"9"}}}`)
		q, e := c.last()
		if e.Outcome != translate.OutcomeCompleted || q.Up != translate.Modern || q.Down != translate.Legacy || e.Uses != translate.OnlyHandshake {
			t.Errorf("initialize: %+v, %+v", q, e)
		}
		if want := strings.Repeat("n", 127); q.Client != want {
			t.Errorf("a long name is shown as %d bytes: %q", len(q.Client), q.Client)
		}
		c.session = outs[len(outs)-1].Header.Get("Mcp-Session-Id")
		c.say(translate.Legacy, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.say(translate.Legacy, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{},"task":{"ttl":1000}}}`)
		q, e = c.last()
		if e.Outcome != translate.OutcomeTask || q.Version != "2025-11-25" || q.ClientVersion != "9" || q.Session != c.session || q.Name != "slow" ||
			e.Uses != translate.OnlyTaskParam {
			t.Errorf("a task: %+v, %+v", q, e)
		}
		lost := session.Lost{Who: session.Who{Principal: c.principal, Client: strings.Repeat("n", 127), ClientVersion: "9"}, Route: "tickets", Upstream: "blue", What: "requested_ttl"}
		if !slices.Contains(c.w.losses, lost) {
			t.Errorf("losses %+v", c.w.losses)
		}
		c.say(translate.Legacy, "")
		if q, e = c.last(); q.MethodLabel() != "GET" || e.Outcome != translate.OutcomeClosed || e.Uses != translate.OnlyGetStream {
			t.Errorf("a GET stream: %+v, %+v", q, e)
		}
		c.say(translate.Legacy, `{"jsonrpc":"2.0","id":3,"method":"secret/method","params":{}}`)
		if q, _ = c.last(); q.Method != "secret/method" || q.MethodLabel() != "_OTHER" {
			t.Errorf("a method nobody knows: %q is %q", q.Method, q.MethodLabel())
		}
		c.session = "nobody's"
		c.say(translate.Legacy, `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
		if q, e = c.last(); q.Up != 0 || e.Outcome != translate.OutcomeError || e.Status != 404 {
			t.Errorf("a session nobody knows: %+v, %+v", q, e)
		}
	})
}

func TestRequest_ResourceHasNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWatched(t, session.Face{Era: translate.Modern, Version: translate.V20260728}, func(*jsonrpc.Message) string {
			return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","contents":[]}}`
		})
		defer c.end()
		for uri, want := range map[string]string{
			"file:///home/a.txt":                     "file:///home/a.txt",
			"https://ann:pw@host/p?token=1#fragment": "https://host/p",
			"postgres://u:p@db":                      "postgres://db",
			"mailto:x?token=1":                       "mailto:x",
		} {
			c.say(translate.Modern, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"`+uri+`",`+modernMeta+`}}`)
			if q, _ := c.last(); q.Resource != want || q.Name != "" {
				t.Errorf("%s is shown as %q", uri, q.Resource)
			}
		}
	})
}

// Where nobody observes, nothing is paid for it.
func TestObserver_NobodyObserves(t *testing.T) {
	handles, err := session.NewHandles([][]byte{make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := session.New(session.Options{Store: memory.New(), Dialer: simDialer{}, Faces: fakeFaces{}, Handles: handles})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := session.NewClientStream("s", 0)
	in := session.Inbound{Frame: translate.Frame{Msg: m}}
	if n := testing.AllocsPerRun(100, func() { r.Observe(in, s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
