package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
)

// ModernClient is a 2026-07-28 client. Set the exported fields before its
// first use; its methods are safe for concurrent use.
type ModernClient struct {
	URL    string
	HTTP   *http.Client // nil: one of its own
	Header http.Header  // added to every request, over the client's own

	// Name in clientInfo; default taskbridge-modern-client.
	Name string
	// Version to speak; default ModernVersion.
	Version string
	// Tasks declares the tasks extension.
	Tasks bool
	// Capabilities to declare; nil declares elicitation.
	Capabilities any
	// Meta is merged into the _meta of every request.
	Meta map[string]any
	// OnNotification sees notifications that come before a response.
	OnNotification func(method string, params json.RawMessage)
	Trace          func(TraceEntry)
	// Edit may change headers and body of a request just before it is sent, to
	// break it on purpose.
	Edit func(h http.Header, body []byte) []byte

	life life
}

func (c *ModernClient) wire() *wire {
	return &wire{name: "modern client", url: c.URL, http: c.life.client(c.HTTP), trace: c.Trace, edit: c.Edit}
}

func (c *ModernClient) version() string {
	if c.Version == "" {
		return ModernVersion
	}
	return c.Version
}

func (c *ModernClient) capabilities() (json.RawMessage, error) {
	declared := json.RawMessage(`{"elicitation":{}}`)
	if c.Capabilities != nil {
		var err error
		if declared, err = encode(c.Capabilities); err != nil {
			return nil, err
		}
	}
	if !c.Tasks {
		return declared, nil
	}
	list, err := members(declared)
	if err != nil {
		return nil, err
	}
	extensions := object(TasksExtension, struct{}{})
	for _, m := range list {
		if m.key == "extensions" {
			if extensions, err = merge(extensions, m.value); err != nil {
				return nil, err
			}
		}
	}
	return merge(object("extensions", extensions), declared)
}

// withMeta adds the required fields to params; what params have themselves
// stays.
func (c *ModernClient) withMeta(params any) (json.RawMessage, error) {
	body, err := encodeParams(params)
	if err != nil {
		return nil, err
	}
	list, err := members(body)
	if err != nil {
		return nil, err
	}
	capabilities, err := c.capabilities()
	if err != nil {
		return nil, err
	}
	meta, err := merge(raw(c.Meta), object(
		KeyProtocolVersion, c.version(),
		KeyClientInfo, clientInfo(c.Name, "taskbridge-modern-client"),
		KeyClientCapabilities, capabilities,
	))
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		if m.key == "_meta" {
			if meta, err = merge(m.value, meta); err != nil {
				return nil, err
			}
		}
	}
	return merge(object("_meta", meta), body)
}

// request builds the message and headers of a request.
func (c *ModernClient) request(method string, params any) (id string, body json.RawMessage, h http.Header, err error) {
	full, err := c.withMeta(params)
	if err != nil {
		return "", nil, nil, fmt.Errorf("%s: %w", method, err)
	}
	h = http.Header{}
	h.Set("MCP-Protocol-Version", c.version())
	h.Set("Mcp-Method", method)
	if name, ok := headerName(method, full); ok {
		h.Set("Mcp-Name", EncodeHeader(name))
	}
	maps.Copy(h, c.Header)
	n := c.life.nextID()
	return strconv.Itoa(n), requestMessage(n, method, full), postHeader(h), nil
}

// Call sends a request and waits for its response. It adds _meta and the
// headers that mirror the body; members of params keep their bytes. A JSON-RPC
// error or an HTTP status is part of the Reply, not an error. Ending ctx closes
// the response stream, which is the modern cancellation.
func (c *ModernClient) Call(ctx context.Context, method string, params any) (Reply, error) {
	id, body, h, err := c.request(method, params)
	if err != nil {
		return Reply{}, err
	}
	r, err := c.exchange(ctx, id, h, body)
	if err != nil {
		return r, fmt.Errorf("%s: %w", method, err)
	}
	return r, nil
}

func (c *ModernClient) exchange(ctx context.Context, id string, h http.Header, body []byte) (Reply, error) {
	ctx, cancel := c.life.context(ctx)
	defer cancel()
	w := c.wire()
	resp, err := w.send(ctx, http.MethodPost, h, body)
	if err != nil {
		return Reply{}, err
	}
	return w.read(resp, http.MethodPost, id, c.notified)
}

// Post sends a body and headers as they are, but for Content-Type and Accept
// where h lacks them, and reads the response to its end.
func (c *ModernClient) Post(ctx context.Context, h http.Header, body []byte) (Reply, error) {
	return c.exchange(ctx, "", postHeader(h), body)
}

func (c *ModernClient) notified(m *message) {
	if m.isNotification() && c.OnNotification != nil {
		c.OnNotification(m.Method, m.Params)
	}
}

// Discover calls server/discover.
func (c *ModernClient) Discover(ctx context.Context) (json.RawMessage, error) {
	r, err := c.Call(ctx, "server/discover", nil)
	if err == nil {
		err = r.Err()
	}
	return r.Result, err
}

// Subscription is an open subscriptions/listen stream.
type Subscription struct {
	// Acknowledged is the filter the server agreed to.
	Acknowledged json.RawMessage

	cancel context.CancelFunc
	done   chan struct{}
	reply  Reply
	err    error
}

// Done is closed when the stream is over.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Wait waits for the end of the stream: nil error and the result when the
// server ended it gracefully, else an error.
func (s *Subscription) Wait() (Reply, error) {
	<-s.done
	return s.reply, s.err
}

// Close ends the stream and waits for its reader.
func (s *Subscription) Close() {
	s.cancel()
	<-s.done
}

// Listen opens a subscription with the filter given as the notifications
// member, waits for its acknowledgement and reads it in the background until
// ctx, the subscription or the client ends; fn sees each later notification. A
// refusal is an error, an *RPCError if it was one.
func (c *ModernClient) Listen(ctx context.Context, filter any, fn func(method string, params json.RawMessage)) (*Subscription, error) {
	id, body, h, err := c.request("subscriptions/listen", map[string]any{"notifications": filter})
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.life.context(ctx)
	s := &Subscription{cancel: cancel, done: make(chan struct{})}
	acknowledged := make(chan json.RawMessage, 1)
	first := true
	started := c.life.run(func() {
		defer close(s.done)
		defer cancel()
		w := c.wire()
		resp, err := w.send(ctx, http.MethodPost, h, body)
		if err != nil {
			s.err = err
			return
		}
		s.reply, s.err = w.read(resp, http.MethodPost, id, func(m *message) {
			if first && m.Method == "notifications/subscriptions/acknowledged" {
				var p struct{ Notifications json.RawMessage }
				_ = json.Unmarshal(m.Params, &p)
				acknowledged <- p.Notifications
			} else if fn != nil {
				fn(m.Method, m.Params)
			}
			first = false
		})
	})
	if !started {
		cancel()
		return nil, errClientClosed
	}
	select {
	case s.Acknowledged = <-acknowledged:
		return s, nil
	case <-s.done:
	}
	select {
	case s.Acknowledged = <-acknowledged: // and over at once
		return s, nil
	default:
	}
	if s.err == nil {
		s.err = s.reply.Err()
	}
	if s.err == nil {
		s.err = ErrNoResponse
	}
	return nil, s.err
}

// Close ends the streams and waits for everything the client started. Twice is
// fine.
func (c *ModernClient) Close() error {
	c.life.end(c.life.client(c.HTTP))
	return nil
}
