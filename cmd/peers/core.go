package peers

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// ServerOptions configures both servers; the zero value is ready to use.
type ServerOptions struct {
	// PollInterval is the interval tasks suggest to clients; default 100ms.
	PollInterval time.Duration
	// Clock gives the time in task timestamps; default time.Now. Timers run by
	// the runtime's clock, which testing/synctest replaces.
	Clock func() time.Time
	// TTL is how long a task lives when the request does not say; default 5m.
	TTL time.Duration
	// PageSize limits tasks/list and tools/list; default 100.
	PageSize int
	// KeepAlive is the time between SSE comments on an idle stream; default
	// 15s, negative for none.
	KeepAlive time.Duration
	// JSONResponses answers every POST with a JSON body. Legacy questions then
	// take the GET stream; progress of plain modern calls is not sent.
	JSONResponses bool
	// NoTasks makes a server without tasks: none are declared, and tools that
	// would need one run as plain calls.
	NoTasks bool
	// TasksPerSession shows a legacy task only to the session that created it
	// and ends it with the session, as real SDKs do.
	TasksPerSession bool
	// NeedGET sends every legacy server-to-client request on the GET stream,
	// never on the stream of a POST.
	NeedGET bool
	// Ran hears of each run of a tool, when Calls counts it, with the arguments;
	// it must not block.
	Ran func(tool string, args json.RawMessage)
	// Trace sees every message.
	Trace func(TraceEntry)
}

func (o ServerOptions) withDefaults() ServerOptions {
	if o.PollInterval <= 0 {
		o.PollInterval = 100 * time.Millisecond
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.TTL <= 0 {
		o.TTL = 5 * time.Minute
	}
	if o.PageSize <= 0 {
		o.PageSize = 100
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	return o
}

const (
	maxTTL      = 24 * time.Hour
	maxBody     = 64 << 20
	closeLimit  = time.Second // for what is still written while closing
	readmeURI   = "demo://readme"
	readmeText  = "A small server for demonstrations and tests."
	helloPrompt = "hello"
)

// core is what both servers have.
type core struct {
	name  string
	o     ServerOptions
	tools []*tool
	tasks *taskStore
	ctx   context.Context // ends at Close
	stop  context.CancelFunc

	mu     sync.Mutex // protects counts, closed and the Add of wg
	counts map[string]int
	closed bool
	wg     sync.WaitGroup // handlers and tasks
}

func newCore(name string, o ServerOptions) *core {
	o = o.withDefaults()
	c := &core{name: name, o: o, tools: builtinTools(), counts: map[string]int{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.tasks = &taskStore{clock: o.Clock, byID: map[string]*task{}}
	return c
}

// Calls returns how many times a tool really ran. A task counts when it is
// created, a plain call when it has all its answers.
func (c *core) Calls(tool string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[tool]
}

func (c *core) counted(tool string, args json.RawMessage) {
	if c.o.Ran != nil {
		c.o.Ran(tool, args)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[tool]++
}

// Close ends every stream, call and task and waits for them. Requests that
// come later get 503. Twice is fine.
func (c *core) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.tasks.removeAll(func(*task) bool { return true })
	c.wg.Wait()
	c.tasks.removeAll(func(*task) bool { return true }) // made while closing
	return nil
}

func (c *core) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Add(1)
	return true
}

func (c *core) tool(name string) *tool {
	for _, t := range c.tools {
		if t.name == name {
			return t
		}
	}
	return nil
}

// startTask creates a task, runs work in it and returns its first state, which
// is always working. finish renders the outcome as the era has it.
func (c *core) startTask(spec taskSpec) (*task, bool) {
	if !c.enter() {
		return nil, false
	}
	ctx, cancel := context.WithCancel(c.ctx)
	t := c.tasks.create(spec.session, spec.ttl, spec.token, cancel)
	go func() {
		defer c.wg.Done()
		defer cancel()
		// A little work first, so that pollers see the task working.
		if wait(ctx, c.o.PollInterval/2) != nil {
			return
		}
		result, rerr := spec.work(ctx, t)
		c.tasks.change(t, func() { spec.finish(t, result, rerr) })
	}()
	return t, true
}

type taskSpec struct {
	session string
	ttl     time.Duration
	token   json.RawMessage
	work    func(context.Context, *task) (json.RawMessage, *RPCError)
	finish  func(*task, json.RawMessage, *RPCError)
}

// serve wraps an HTTP exchange: origin check, life counting, and deadlines so
// that a peer that does not read cannot hold up Close.
func (c *core) serve(w http.ResponseWriter, r *http.Request, handle func(out *reply)) {
	if !c.enter() {
		http.Error(w, "closing", http.StatusServiceUnavailable)
		return
	}
	defer c.wg.Done()
	rc := http.NewResponseController(w)
	told := make(chan struct{})
	stop := context.AfterFunc(c.ctx, func() {
		defer close(told)
		end := time.Now().Add(closeLimit)
		_ = rc.SetReadDeadline(end)
		_ = rc.SetWriteDeadline(end)
	})
	defer func() {
		if !stop() {
			<-told // w must not be used once the handler has returned
		}
	}()
	out := &reply{w: w, rc: rc, gone: r.Context(), trace: func(status int, h http.Header, msg json.RawMessage) {
		c.trace(true, r.Method, status, h, msg)
	}}
	if !localOrigin(r.Header.Get("Origin")) {
		// DNS rebinding, both eras' transports: 403.
		out.finish(http.StatusForbidden, errorMessage(nil, rpcErrorf(CodeInvalidRequest, "origin not allowed")))
		return
	}
	handle(out)
}

func (c *core) trace(out bool, method string, status int, h http.Header, msg json.RawMessage) {
	if c.o.Trace != nil {
		c.o.Trace(TraceEntry{Peer: c.name, Time: c.o.Clock(), Out: out, HTTP: method, Status: status,
			Header: h.Clone(), Message: msg})
	}
}

func localOrigin(origin string) bool {
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// readMessage reads and checks a POST body; on failure it has answered.
func (c *core) readMessage(out *reply, r *http.Request) (*message, bool) {
	fail := func(status, code int, text string) (*message, bool) {
		out.finish(status, errorMessage(nil, rpcErrorf(code, "%s", text)))
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(out.w, r.Body, maxBody))
	if err != nil {
		return fail(http.StatusRequestEntityTooLarge, CodeInvalidRequest, "body cannot be read")
	}
	c.trace(false, r.Method, 0, r.Header, body)
	if media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(media) != "application/json" {
		return fail(http.StatusUnsupportedMediaType, CodeInvalidRequest, "Content-Type must be application/json")
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if !strings.Contains(accept, "application/json") || !strings.Contains(accept, "text/event-stream") {
		return fail(http.StatusNotAcceptable, CodeInvalidRequest, "Accept must list application/json and text/event-stream")
	}
	var m message
	if !json.Valid(body) {
		return fail(http.StatusBadRequest, CodeParse, "parse error")
	}
	if json.Unmarshal(body, &m) != nil || m.JSONRPC != "2.0" || m.Method != "" && string(m.ID) == "null" ||
		!m.isRequest() && !m.isNotification() && !m.isResponse() {
		return fail(http.StatusBadRequest, CodeInvalidRequest, "not one JSON-RPC message")
	}
	return &m, true
}

// idle waits for one of two wake-ups (the second may be nil), sending comments meanwhile; false means the stream
// is over.
func (c *core) idle(ctx context.Context, out *reply, first, second <-chan struct{}) bool {
	var tick <-chan time.Time
	if c.o.KeepAlive > 0 && out.streaming() {
		t := time.NewTimer(c.o.KeepAlive)
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-first:
		return true
	case <-second:
		return true
	case <-tick:
		return out.comment() == nil
	case <-ctx.Done():
		return false
	}
}

// clampTTL turns a requested ttl in milliseconds into ours; a receiver may
// override it (2025-11-25 tasks, "TTL and Resource Management").
func (c *core) clampTTL(ms *float64) time.Duration {
	if ms == nil {
		return c.o.TTL
	}
	return time.Duration(min(max(*ms, 1), float64(maxTTL.Milliseconds()))) * time.Millisecond
}

// toolPage cuts the tool list by cursor.
func (c *core) toolPage(params json.RawMessage, render func(*tool) json.RawMessage) (json.RawMessage, *RPCError) {
	var p struct{ Cursor string }
	_ = json.Unmarshal(params, &p)
	start, rerr := decodeCursor(p.Cursor)
	if rerr != nil || start < 0 || start > len(c.tools) {
		return nil, rpcErrorf(CodeInvalidParams, "invalid cursor")
	}
	end := min(start+c.o.PageSize, len(c.tools))
	list := []json.RawMessage{}
	for _, t := range c.tools[start:end] {
		list = append(list, render(t))
	}
	pairs := []any{"tools", rawList(list)}
	if end < len(c.tools) {
		pairs = append(pairs, "nextCursor", encodeCursor(end))
	}
	return object(pairs...), nil
}

func rawList(items []json.RawMessage) json.RawMessage {
	b := []byte{'['}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}
