package session_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// routeRig is a Route before servers.
type routeRig struct {
	t       testing.TB
	route   *session.Route
	store   session.Store
	handles *session.Handles
	proc    *session.Process
	policy  session.Policy
	ups     []session.RouteUpstream
	closed  map[string]int
	started []*session.Runner
	mu      sync.Mutex
	// turns: on changes the state key, and how often it did.
	turns bool
	turn  int
}

func newRouteRig(t testing.TB, servers ...*routeServer) *routeRig {
	handles, err := session.NewHandles([][]byte{bytes.Repeat([]byte("k"), session.MinStateKey)})
	if err != nil {
		t.Fatal(err)
	}
	rig := &routeRig{t: t, store: memory.New(), handles: handles, proc: session.NewProcess(nil), closed: map[string]int{}, policy: session.Policy{Gather: -1}}
	for _, s := range servers {
		rig.ups = append(rig.ups, rig.up(s, 1))
	}
	rig.route, err = session.NewRoute(session.RouteOptions{Name: "r", Store: session.PrefixStore(rig.store, "r/"), Handles: handles, Process: rig.proc, Logger: rig.logger()}, rig.ups)
	if err != nil {
		t.Fatal(err)
	}
	return rig
}

func (rig *routeRig) logger() *slog.Logger {
	tt, ok := rig.t.(*testing.T)
	if !ok {
		return nil
	}
	return slog.New(slog.NewTextHandler(errorLog{tt}, &slog.HandlerOptions{Level: slog.LevelError}))
}

func (rig *routeRig) up(s *routeServer, weight int, pins ...session.Pin) session.RouteUpstream {
	show := s.name
	if s.as != "" {
		show = s.as
	}
	name := "r/" + show
	creds := session.NewCredentials(0)
	return session.RouteUpstream{Name: name, Show: show, Key: fmt.Sprintf("%p", s), Weight: weight, Pins: pins, Policy: rig.policy,
		Start: func() (*session.Runner, func(), error) {
			r, err := session.New(session.Options{Store: session.PrefixStore(rig.store, fmt.Sprintf("u/%s/%p/", name, s)), Dialer: s, Faces: s, Handles: rig.handles,
				Counts: session.PrefixStore(rig.store, "counts/"), Upstream: name, Policy: rig.policy, Process: rig.proc, Credentials: creds, Logger: rig.logger()})
			rig.mu.Lock()
			rig.started = append(rig.started, r)
			rig.mu.Unlock()
			return r, func() {
				rig.mu.Lock()
				defer rig.mu.Unlock()
				rig.closed[s.name]++
			}, err
		}}
}

func (rig *routeRig) update(ups ...session.RouteUpstream) {
	rig.t.Helper()
	if err := rig.route.Update(ups); err != nil {
		rig.t.Fatal(err)
	}
	rig.ups = ups
}

func (rig *routeRig) close() {
	rig.route.Close()
	rig.store.Close()
}

// routeClient is a client of one era.
type routeClient struct {
	rig     *routeRig
	era     translate.Era
	who     session.Principal
	name    string
	version string
	session string
	asks    []*jsonrpc.Message // requests of servers, in the order they came
	notes   []*jsonrpc.Message
	eventID string
	n       int
	auto    bool // answers questions itself
	shared  bool // its caller cannot be told from others
}

func (rig *routeRig) modern(who string) *routeClient {
	return &routeClient{rig: rig, era: translate.Modern, who: session.HashPrincipal("token", who), name: "cli", version: "1.0.0"}
}

func (rig *routeRig) legacy(who string) *routeClient {
	c := &routeClient{rig: rig, era: translate.Legacy, who: session.HashPrincipal("token", who), name: "cli", version: "1.0.0"}
	c.open()
	return c
}

func (c *routeClient) open() {
	c.rig.t.Helper()
	c.session = ""
	r := c.do("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"`+c.name+`","version":"`+c.version+`"}}`)
	if c.session == "" {
		c.rig.t.Fatalf("no session: %s", r.raw())
	}
	c.note("notifications/initialized", "")
}

// routeReply is the end of a request.
type routeReply struct {
	out session.Out
	msg *jsonrpc.Message
}

func (r routeReply) raw() string {
	if r.out.Raw == nil {
		return fmt.Sprintf("HTTP %d", r.out.Status)
	}
	return string(r.out.Raw)
}

// result gives a member of the result as text.
func (r routeReply) result(path ...string) string {
	if r.msg == nil {
		return ""
	}
	v := r.msg.Result()
	for _, p := range path {
		v = v.Get(p)
	}
	s, _ := v.Str()
	return s
}

func (r routeReply) code() int64 {
	if r.msg == nil {
		return 0
	}
	n, _ := r.msg.Error().Get("code").Int()
	return n
}

func (c *routeClient) inbound(raw []byte, header http.Header) session.Inbound {
	in := session.Inbound{Caller: session.Caller{Principal: c.who, Open: c.shared, Era: c.era, Session: c.session, Header: header}}
	in.Frame = translate.Frame{Leg: translate.ClientLeg, Dir: translate.ToServer, Time: time.Now(), HTTP: &translate.Envelope{Verb: http.MethodPost, Header: http.Header{}}}
	if raw != nil {
		m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
		if err != nil {
			c.rig.t.Fatalf("%s: %v", raw, err)
		}
		in.Frame.Msg = m
	}
	if c.era == translate.Modern {
		in.Caller.Version = translate.LatestModern
		if m := in.Frame.Msg; m != nil {
			if in.Caller.Header == nil {
				in.Caller.Header = http.Header{}
			}
			maps.Copy(in.Caller.Header, translate.StandardHeaders(m))
		}
	} else if c.session != "" {
		in.Caller.Version = translate.LatestLegacy
	}
	return in
}

// request makes a request of the client's era.
func (c *routeClient) request(method, params string) []byte {
	c.n++
	if params == "" {
		params = "{}"
	}
	if c.era == translate.Modern {
		meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"` + c.name + `","version":"` + c.version +
			`"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		if params != "{}" {
			meta += ","
		}
		params = "{" + meta + params[1:]
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.n, method, params)
}

// start sends a request; the caller reads the stream.
func (c *routeClient) start(method, params string) *session.ClientStream {
	s := c.rig.route.NewStream()
	c.rig.route.Client(context.Background(), c.inbound(c.request(method, params), nil), s)
	return s
}

// do sends a request and waits for its end; what comes before is kept.
func (c *routeClient) do(method, params string) routeReply {
	c.rig.t.Helper()
	return c.finish(c.start(method, params))
}

func (c *routeClient) finish(s *session.ClientStream) routeReply {
	c.rig.t.Helper()
	defer s.Gone()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		out, ok := s.Next(ctx)
		cancel()
		if !ok {
			c.rig.t.Fatalf("no answer")
		}
		r := routeReply{out: out}
		if out.Raw != nil {
			r.msg, _ = jsonrpc.Decode(out.Raw, jsonrpc.Limits{})
		}
		if id := out.Header.Get("Mcp-Session-Id"); id != "" {
			c.session = id
		}
		if out.Final {
			return r
		}
		c.took(r)
	}
}

func (c *routeClient) took(r routeReply) {
	if r.out.EventID != "" {
		c.eventID = r.out.EventID
	}
	switch {
	case r.msg == nil:
	case r.msg.Kind == jsonrpc.Request:
		c.asks = append(c.asks, r.msg)
		if c.auto {
			c.answer(r.msg)
		}
	default:
		c.notes = append(c.notes, r.msg)
	}
}

func (c *routeClient) answer(ask *jsonrpc.Message) {
	c.send([]byte(`{"jsonrpc":"2.0","id":` + string(ask.ID.Raw()) + `,"result":{"action":"accept","content":{}}}`))
}

func (c *routeClient) note(method, params string) {
	if params == "" {
		params = "{}"
	}
	c.send([]byte(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`))
}

func (c *routeClient) send(raw []byte) routeReply {
	s := c.rig.route.NewStream()
	c.rig.route.Client(context.Background(), c.inbound(raw, nil), s)
	return c.finish(s)
}

// verb sends GET or DELETE.
func (c *routeClient) verb(verb, lastEvent string) *session.ClientStream {
	s := c.rig.route.NewStream()
	in := c.inbound(nil, nil)
	in.Frame.HTTP.Verb = verb
	if lastEvent != "" {
		in.Frame.HTTP.Header.Set("Last-Event-ID", lastEvent)
	}
	c.rig.route.Client(context.Background(), in, s)
	return s
}

func (c *routeClient) delete() { c.finish(c.verb(http.MethodDelete, "")) }

// at says which server answers the client's plain calls.
func (c *routeClient) at() string {
	c.rig.t.Helper()
	r := c.do("tools/call", `{"name":"t","arguments":{"do":"who"}}`)
	_, text, _ := strings.Cut(r.raw(), `"text":"`)
	name, _, _ := strings.Cut(text, " ")
	if name == "" {
		c.rig.t.Fatalf("no server answered: %s", r.raw())
	}
	return name
}

// newTask makes a task and returns its id.
func (c *routeClient) newTask() string {
	c.rig.t.Helper()
	params := `{"name":"t","arguments":{"do":"task"}}`
	if c.era == translate.Legacy {
		params = `{"name":"t","arguments":{"do":"task"},"task":{}}`
	}
	r := c.do("tools/call", params)
	id := r.result("taskId")
	if c.era == translate.Legacy {
		id = r.result("task", "taskId")
	}
	if id == "" {
		c.rig.t.Fatalf("no task: %s", r.raw())
	}
	return id
}

func (c *routeClient) get(id string) routeReply {
	c.rig.t.Helper()
	return c.do("tasks/get", `{"taskId":"`+id+`"}`)
}

// namesServer finds which of the servers a text names.
func namesServer(raw string, names ...string) string {
	i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(raw, n+" ") || strings.Contains(raw, `"`+n+`"`) })
	if i < 0 {
		return ""
	}
	return names[i]
}
