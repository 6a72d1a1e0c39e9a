package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// ErrNoResponse means that the HTTP response ended without a JSON-RPC response
// to the request.
var ErrNoResponse = errors.New("no JSON-RPC response")

var errClientClosed = errors.New("client is closed")

// Answer answers a request of a server: with a result, or with an error object
// (an *RPCError or anything that marshals to one) when errObj is not nil. It
// may be called from several goroutines at once.
type Answer func(method string, params json.RawMessage) (result any, errObj any)

// Accept answers every elicitation with that content.
func Accept(content any) Answer {
	return func(string, json.RawMessage) (any, any) {
		return object("action", "accept", "content", content), nil
	}
}

// Decline declines every elicitation.
func Decline() Answer {
	return func(string, json.RawMessage) (any, any) { return object("action", "decline"), nil }
}

// Reply is the outcome of one HTTP exchange. Result and Error are nil when the
// response had none, as when a gateway refuses.
type Reply struct {
	Result   json.RawMessage
	Error    json.RawMessage
	Status   int
	Header   http.Header
	Raw      json.RawMessage   // the JSON-RPC response as it came, or the body if it was none
	Messages []json.RawMessage // what came on the stream before it
}

// Err returns the JSON-RPC error, or one made of the HTTP status when there is
// no result, else nil.
func (r Reply) Err() error {
	if r.Error != nil {
		var e RPCError
		if err := json.Unmarshal(r.Error, &e); err != nil {
			return fmt.Errorf("malformed error object: %w", err)
		}
		return &e
	}
	if r.Result == nil {
		return fmt.Errorf("HTTP %d without a JSON-RPC result: %.200s", r.Status, r.Raw)
	}
	return nil
}

// Code returns the JSON-RPC error code, 0 without an error.
func (r Reply) Code() int {
	var e RPCError
	_ = json.Unmarshal(r.Error, &e)
	return e.Code
}

// Decode unmarshals the result, or returns Err.
func (r Reply) Decode(v any) error {
	if err := r.Err(); err != nil {
		return err
	}
	return json.Unmarshal(r.Result, v)
}

// Text returns the first text block of a tool result.
func (r Reply) Text() string { return firstText(r.Result) }

func firstText(result json.RawMessage) string {
	var p struct{ Content []struct{ Text string } }
	if json.Unmarshal(result, &p) != nil || len(p.Content) == 0 {
		return ""
	}
	return p.Content[0].Text
}

// wire sends and receives for a client.
type wire struct {
	name  string
	url   string
	http  *http.Client
	trace func(TraceEntry)
	edit  func(http.Header, []byte) []byte
}

func (w *wire) log(out bool, method string, status int, h http.Header, msg json.RawMessage) {
	if w.trace != nil {
		w.trace(TraceEntry{Peer: w.name, Time: time.Now(), Out: out, HTTP: method, Status: status,
			Header: h.Clone(), Message: msg})
	}
}

// send makes the HTTP request; the caller closes the response's body.
func (w *wire) send(ctx context.Context, method string, h http.Header, body []byte) (*http.Response, error) {
	if w.edit != nil {
		body = w.edit(h, body)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = h
	w.log(true, method, 0, h, body)
	return w.http.Do(req)
}

// read reads a response up to the JSON-RPC response with that id (empty for
// none) and hands what comes before it to each.
func (w *wire) read(resp *http.Response, method, id string, each func(*message)) (Reply, error) {
	defer resp.Body.Close()
	r := Reply{Status: resp.StatusCode, Header: resp.Header}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return r, err
		}
		w.log(false, method, r.Status, r.Header, body)
		r.Raw = body
		var m message
		if json.Unmarshal(body, &m) == nil && m.isResponse() {
			r.Result, r.Error = m.Result, m.Error
		} else if id != "" && r.Status == http.StatusOK {
			return r, ErrNoResponse
		}
		return r, nil
	}
	for event, err := range events(resp.Body) {
		if err != nil {
			return r, err
		}
		w.log(false, method, r.Status, r.Header, event)
		var m message
		if err := json.Unmarshal(event, &m); err != nil {
			return r, fmt.Errorf("read event: %w", err)
		}
		if m.isResponse() && id != "" && string(m.ID) == id {
			r.Result, r.Error, r.Raw = m.Result, m.Error, event
			return r, nil
		}
		r.Messages = append(r.Messages, event)
		each(&m)
	}
	if id != "" {
		return r, ErrNoResponse
	}
	return r, nil
}

// life owns a client's goroutines.
type life struct {
	mu     sync.Mutex // protects everything below and the Add of wg
	ctx    context.Context
	cancel context.CancelFunc
	own    *http.Client
	closed bool
	lastID int
	wg     sync.WaitGroup
}

// context returns a context that ends with ctx or the client, whichever comes
// first.
func (l *life) context(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	l.initLocked()
	mine := l.ctx
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(mine, cancel)
	return ctx, func() { stop(); cancel() }
}

func (l *life) initLocked() {
	if l.ctx != nil {
		return
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if l.closed {
		l.cancel()
	}
}

// run starts f unless the client is closed.
func (l *life) run(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.wg.Go(f)
	return true
}

func (l *life) nextID() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastID++
	return l.lastID
}

// client returns given, or a client of our own: the default one would leave
// idle connections behind after Close.
func (l *life) client(given *http.Client) *http.Client {
	if given != nil {
		return given
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil {
		l.own = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	return l.own
}

func (l *life) end(c *http.Client) {
	l.mu.Lock()
	l.closed = true
	l.initLocked()
	l.cancel()
	l.mu.Unlock()
	l.wg.Wait()
	c.CloseIdleConnections()
}

func postHeader(extra http.Header) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	maps.Copy(h, extra)
	return h
}

func clientInfo(name, otherwise string) map[string]string {
	if name == "" {
		name = otherwise
	}
	return map[string]string{"name": name, "version": "1.0.0"}
}
