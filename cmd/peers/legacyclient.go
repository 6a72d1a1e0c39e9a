package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// LegacyClient is a 2025-11-25 client. Set the exported fields before its
// first use; its methods are safe for concurrent use. Close it to end its
// session and streams.
type LegacyClient struct {
	URL    string
	HTTP   *http.Client // nil: one of its own
	Header http.Header  // added to every request

	// Name in clientInfo; default taskbridge-legacy-client.
	Name string
	// Version to ask for in initialize; default LegacyVersion.
	Version string
	// Capabilities to declare; nil declares elicitation.
	Capabilities any
	// TaskTTL is what RunTask asks for; default one minute.
	TaskTTL time.Duration
	// OnRequest answers requests of the server on any stream, but for those
	// that a RunTask answers; nil refuses them with -32601. ping is answered
	// without it. It must not wait for ever, for Close waits for it.
	OnRequest Answer
	// OnNotification sees notifications of any stream, in the stream's order.
	OnNotification func(method string, params json.RawMessage)
	Trace          func(TraceEntry)
	// Edit may change headers and body of a request just before it is sent, to
	// break it on purpose.
	Edit func(h http.Header, body []byte) []byte
	// QuietCancel leaves out the notifications/cancelled that a Call whose
	// context ends would send.
	QuietCancel bool

	life life

	mu      sync.Mutex // protects everything below
	session string
	version string
	answers map[string]Answer // of running tasks, by task id
}

func (c *LegacyClient) wire() *wire {
	return &wire{name: "legacy client", url: c.URL, http: c.life.client(c.HTTP), trace: c.Trace, edit: c.Edit}
}

// SessionID returns the session's id, empty before Initialize.
func (c *LegacyClient) SessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

func (c *LegacyClient) headers() http.Header {
	h := postHeader(c.Header)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version != "" {
		h.Set("MCP-Protocol-Version", c.version)
	}
	if c.session != "" {
		h.Set("Mcp-Session-Id", c.session)
	}
	return h
}

// Initialize makes a new session, forgetting the old one, and returns the
// InitializeResult.
func (c *LegacyClient) Initialize(ctx context.Context) (json.RawMessage, error) {
	c.mu.Lock()
	c.session, c.version = "", ""
	c.mu.Unlock()
	capabilities := c.Capabilities
	if capabilities == nil {
		capabilities = json.RawMessage(`{"elicitation":{}}`)
	}
	version := c.Version
	if version == "" {
		version = LegacyVersion
	}
	r, err := c.Call(ctx, "initialize", object(
		"protocolVersion", version,
		"capabilities", capabilities,
		"clientInfo", clientInfo(c.Name, "taskbridge-legacy-client"),
	))
	if err != nil {
		return nil, err
	}
	var result struct{ ProtocolVersion string }
	if err := r.Decode(&result); err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	c.mu.Lock()
	c.session, c.version = r.Header.Get("Mcp-Session-Id"), result.ProtocolVersion
	c.mu.Unlock()
	return r.Result, c.Notify(ctx, "notifications/initialized", nil)
}

// Call sends a request and waits for its response; requests of the server on
// the response stream go to OnRequest. A JSON-RPC error or an HTTP status is
// part of the Reply, not an error. When ctx ends first the client sends
// notifications/cancelled (see QuietCancel).
func (c *LegacyClient) Call(ctx context.Context, method string, params any) (Reply, error) {
	return c.call(ctx, method, params, nil)
}

// call is Call with an answer for questions that carry no task.
func (c *LegacyClient) call(ctx context.Context, method string, params any, answer Answer) (Reply, error) {
	body, err := encodeParams(params)
	if err != nil {
		return Reply{}, err
	}
	id := c.life.nextID()
	r, err := c.exchange(ctx, strconv.Itoa(id), requestMessage(id, method, body), answer)
	// initialize must not be cancelled, and a task has tasks/cancel
	// (2025-11-25 cancellation, "Behavior Requirements").
	if err != nil && ctx.Err() != nil && method != "initialize" && !augmented(body) && !c.QuietCancel {
		quick, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = c.Notify(quick, "notifications/cancelled", object("requestId", id, "reason", context.Cause(ctx).Error()))
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", method, err)
	}
	return r, nil
}

func augmented(params json.RawMessage) bool {
	var p struct{ Task json.RawMessage }
	return json.Unmarshal(params, &p) == nil && p.Task != nil
}

func encodeParams(params any) (json.RawMessage, error) {
	if params == nil {
		return nil, nil
	}
	return encode(params)
}

func (c *LegacyClient) exchange(ctx context.Context, id string, body []byte, answer Answer) (Reply, error) {
	ctx, cancel := c.life.context(ctx)
	defer cancel()
	w := c.wire()
	resp, err := w.send(ctx, http.MethodPost, c.headers(), body)
	if err != nil {
		return Reply{}, err
	}
	return w.read(resp, http.MethodPost, id, func(m *message) { c.handle(m, answer) })
}

// Post sends a body as it is, with the session's headers, and reads the
// response until its end or its first JSON body.
func (c *LegacyClient) Post(ctx context.Context, body []byte) (Reply, error) {
	return c.exchange(ctx, "", body, nil)
}

// Notify sends a notification; a status other than 2xx is an error.
func (c *LegacyClient) Notify(ctx context.Context, method string, params any) error {
	body, err := encodeParams(params)
	if err != nil {
		return err
	}
	return c.deliver(ctx, requestMessage(nil, method, body))
}

func (c *LegacyClient) deliver(ctx context.Context, msg json.RawMessage) error {
	r, err := c.Post(ctx, msg)
	if err == nil && r.Status/100 != 2 {
		err = fmt.Errorf("HTTP %d: %.200s", r.Status, r.Raw)
	}
	return err
}

// OpenGET opens the standalone stream and reads it in the background until ctx
// or the client ends, or the server closes it. An error means that the server
// did not open one.
func (c *LegacyClient) OpenGET(ctx context.Context) error {
	h := c.headers()
	h.Del("Content-Type")
	h.Set("Accept", "text/event-stream")
	ctx, cancel := c.life.context(ctx)
	w := c.wire()
	resp, err := w.send(ctx, http.MethodGet, h, nil)
	if err != nil {
		cancel()
		return err
	}
	if resp.StatusCode != http.StatusOK {
		r, _ := w.read(resp, http.MethodGet, "", func(*message) {})
		cancel()
		return fmt.Errorf("open GET stream: HTTP %d: %.200s", r.Status, r.Raw)
	}
	started := c.life.run(func() {
		defer cancel()
		_, _ = w.read(resp, http.MethodGet, "", func(m *message) { c.handle(m, nil) })
	})
	if !started {
		cancel()
		resp.Body.Close()
		return errClientClosed
	}
	return nil
}

// handle takes a message that is not the awaited response. Questions are
// answered beside the stream, for several may be open at once.
func (c *LegacyClient) handle(m *message, answer Answer) {
	switch {
	case m.isNotification():
		if c.OnNotification != nil {
			c.OnNotification(m.Method, m.Params)
		}
	case m.isRequest():
		c.life.run(func() {
			ctx, cancel := c.life.context(context.Background())
			defer cancel()
			_ = c.deliver(ctx, c.response(m, answer))
		})
	}
}

// response answers a request of the server: by the task it belongs to, then by
// the call on whose stream it came, then by OnRequest.
func (c *LegacyClient) response(m *message, answer Answer) json.RawMessage {
	if m.Method == "ping" {
		return resultMessage(m.ID, object())
	}
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p)
	var related struct{ TaskID string }
	_ = json.Unmarshal(p.Meta[KeyRelatedTask], &related)
	c.mu.Lock()
	if a := c.answers[related.TaskID]; a != nil {
		answer = a
	}
	c.mu.Unlock()
	if answer == nil {
		answer = c.OnRequest
	}
	if answer == nil {
		return errorMessage(m.ID, rpcErrorf(CodeMethodNotFound, "Method not found"))
	}
	result, errObj := answer(m.Method, m.Params)
	if errObj != nil {
		return errorMessage(m.ID, errObj)
	}
	body := raw(result)
	if related.TaskID != "" && isObject(body) {
		// Responses related to a task say so too (2025-11-25 tasks,
		// "Associating Task-Related Messages").
		if merged, err := merge(body, object("_meta", relatedTask(related.TaskID))); err == nil {
			body = merged
		}
	}
	return resultMessage(m.ID, body)
}

// Close deletes the session, ends the streams and waits for everything the
// client started. Twice is fine.
func (c *LegacyClient) Close() error {
	var err error
	if c.SessionID() != "" {
		ctx, cancel := c.life.context(context.Background())
		ctx, stop := context.WithTimeout(ctx, 5*time.Second)
		var resp *http.Response
		w := c.wire()
		h := c.headers()
		h.Del("Content-Type")
		if resp, err = w.send(ctx, http.MethodDelete, h, nil); err == nil {
			_, err = w.read(resp, http.MethodDelete, "", func(*message) {})
		}
		stop()
		cancel()
		c.mu.Lock()
		c.session = ""
		c.mu.Unlock()
	}
	c.life.end(c.life.client(c.HTTP))
	return err
}
