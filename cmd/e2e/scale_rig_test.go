package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Scale: many tasks, principals and waiting clients on small caches. The
// server is a function and the clock is virtual, so that only the proxy costs
// anything.

// scaleSize is n with TASKBRIDGE_E2E=full, less otherwise: tests that count
// need no more.
func scaleSize(n int) int {
	switch {
	case e2eMode() == "full":
		return n
	case testing.Short() || raceEnabled:
		return n / 20
	}
	return n / 5
}

// scaleServer answers exchanges by a function. What it returns is sent as one
// stream; a channel in x keeps the stream open for more.
type scaleServer struct {
	serve func(x *scaleExchange)
	calls sync.Map // method -> *atomic.Int64
	open  atomic.Int64
	most  atomic.Int64 // listen streams at once
}

type scaleExchange struct {
	out    session.Outgoing
	as     session.Principal
	msg    *jsonrpc.Message
	header http.Header
	status int
	frames []string
	more   chan string // nil: the stream ends after frames
	s      *scaleServer
	ctx    context.Context
	once   sync.Once
}

func (s *scaleServer) count(method string) *atomic.Int64 {
	n, _ := s.calls.LoadOrStore(method, new(atomic.Int64))
	return n.(*atomic.Int64)
}

func (s *scaleServer) Dial(_ context.Context, t session.Target) (session.Conn, error) {
	return scaleConn{s, t}, nil
}

type scaleConn struct {
	s *scaleServer
	t session.Target
}

func (c scaleConn) Close() error { return nil }

func (c scaleConn) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	x := &scaleExchange{out: out, as: c.t.Principal, header: http.Header{"Content-Type": {"application/json"}}, status: 200, s: c.s, ctx: ctx}
	method := out.Verb
	if out.Msg != nil {
		m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
		if err != nil {
			return nil, err
		}
		x.msg, method = m, m.Method
	}
	c.s.count(method).Add(1)
	c.s.serve(x)
	if x.more != nil {
		x.header.Set("Content-Type", "text/event-stream")
		n := c.s.open.Add(1)
		for {
			most := c.s.most.Load()
			if n <= most || c.s.most.CompareAndSwap(most, n) {
				break
			}
		}
	}
	return x, nil
}

func (x *scaleExchange) reply(result string) {
	x.frames = append(x.frames, `{"jsonrpc":"2.0","id":`+string(x.msg.ID.Raw())+`,"result":`+result+`}`)
}

func (x *scaleExchange) refuse(message string) {
	x.frames = append(x.frames, `{"jsonrpc":"2.0","id":`+string(x.msg.ID.Raw())+`,"error":{"code":-32602,"message":"`+message+`"}}`)
}

func (x *scaleExchange) Envelope() *translate.Envelope {
	return &translate.Envelope{Status: x.status, Header: x.header}
}

func (x *scaleExchange) Next() (translate.Frame, error) {
	raw := ""
	switch {
	case len(x.frames) > 0:
		raw, x.frames = x.frames[0], x.frames[1:]
	case x.more == nil:
		return translate.Frame{}, io.EOF
	default:
		select {
		case raw = <-x.more:
		case <-x.ctx.Done():
			return translate.Frame{}, x.ctx.Err()
		}
	}
	m, err := jsonrpc.Decode([]byte(raw), jsonrpc.Limits{})
	return translate.Frame{Msg: m, Leg: translate.ServerLeg, Dir: translate.ToClient, Time: time.Now()}, err
}

func (x *scaleExchange) Close() error {
	x.once.Do(func() {
		if x.more != nil {
			x.s.open.Add(-1)
		}
	})
	return nil
}

type scaleFaces session.Face

func (f scaleFaces) Face(context.Context, session.Target) (session.Face, error) {
	return session.Face(f), nil
}

// scaleBridge is a runner and its listener without sockets.
type scaleBridge struct {
	t   testing.TB
	srv *downstream.Server
	r   *session.Runner
	// store is the runner's.
	store session.Store
	ids   atomic.Int64
}

// newScaleBridge has caches so small that tasks are forgotten.
func newScaleBridge(t testing.TB, s *scaleServer, era translate.Era, policy session.Policy) *scaleBridge {
	t.Helper()
	return newFunctionBridge(t, s, era, session.Options{Policy: policy, Snapshots: session.NewSnapshots(64, 0)}, downstream.Options{})
}

// newFunctionBridge fills in what the options have no say in.
func newFunctionBridge(t testing.TB, s *scaleServer, era translate.Era, up session.Options, down downstream.Options) *scaleBridge {
	t.Helper()
	face := scaleFaces{Era: era, Version: translate.LatestLegacy}
	if era == translate.Modern {
		face = scaleFaces{Era: era, Version: translate.LatestModern, Tasks: true}
	}
	up.Store, up.Dialer, up.Faces, up.Handles = memory.New(), s, face, testHandles(t)
	r, err := session.New(up)
	if err != nil {
		t.Fatal(err)
	}
	down.Hub, down.Loopback = r, true
	srv, err := downstream.New(down)
	if err != nil {
		t.Fatal(err)
	}
	return &scaleBridge{t: t, srv: srv, r: r, store: up.Store}
}

func (b *scaleBridge) close() { b.r.Close() }

// scaleClient is one caller; sid is set for legacy ones.
type scaleClient struct {
	b       *scaleBridge
	who     string
	sid     string
	version string
	asks    bool // a modern one that can be asked
}

// request makes one; modern ones carry who they are, as each must.
func (c *scaleClient) request(ctx context.Context, method string, params map[string]any) *http.Request {
	id := c.b.ids.Add(1)
	if c.version == translate.LatestModern {
		caps := map[string]any{"extensions": map[string]any{translate.ExtTasks: map[string]any{}}}
		if c.asks {
			caps["elicitation"] = map[string]any{"form": map[string]any{}}
		}
		params["_meta"] = map[string]any{translate.MetaVersion: c.version, translate.MetaClientInfo: map[string]any{"name": "c", "version": "1"}, translate.MetaClientCaps: caps}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		panic(err)
	}
	req := httptest.NewRequestWithContext(ctx, "POST", "http://127.0.0.1/mcp", strings.NewReader(string(body)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+c.who)
	if method != "initialize" {
		req.Header.Set("Mcp-Protocol-Version", c.version)
	}
	if c.sid != "" {
		req.Header.Set("Mcp-Session-Id", c.sid)
	}
	if c.version == translate.LatestModern {
		req.Header.Set("Mcp-Method", method)
		for _, k := range []string{"taskId", "name"} {
			if s, ok := params[k].(string); ok {
				req.Header.Set("Mcp-Name", s)
			}
		}
	}
	return req
}

// last is the last JSON message of a reply, plain or a stream.
func last(body string) []byte {
	body = strings.TrimSpace(body)
	if i := strings.LastIndex(body, "data: {"); i >= 0 {
		body = body[i+len("data: "):]
		body, _, _ = strings.Cut(body, "\n")
	}
	return []byte(body)
}

type scaleReply struct {
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

func (c *scaleClient) call(method string, params map[string]any) (r scaleReply) {
	w := httptest.NewRecorder()
	c.b.srv.ServeHTTP(w, c.request(context.Background(), method, params))
	if sid := w.Header().Get("Mcp-Session-Id"); sid != "" && method == "initialize" {
		c.sid = sid
	}
	if err := json.Unmarshal(last(w.Body.String()), &r); err != nil {
		c.b.t.Errorf("%s: %v: HTTP %d %q", method, err, w.Code, w.Body)
	}
	return r
}

func (c *scaleClient) must(method string, params map[string]any, into any) {
	r := c.call(method, params)
	if r.Error != nil {
		c.b.t.Errorf("%s: %+v", method, *r.Error)
		return
	}
	if err := json.Unmarshal(r.Result, into); err != nil {
		c.b.t.Error(err)
	}
}

func legacyScaleClient(b *scaleBridge, who string) *scaleClient {
	c := &scaleClient{b: b, who: who, version: translate.LatestLegacy}
	var init struct{ Capabilities map[string]json.RawMessage }
	c.must("initialize", map[string]any{"protocolVersion": c.version, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "c", "version": "1"}}, &init)
	if init.Capabilities["tasks"] == nil {
		b.t.Fatal("no tasks")
	}
	return c
}
