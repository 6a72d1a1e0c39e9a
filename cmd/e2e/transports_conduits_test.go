package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"taskbridge/translate"
)

// overHTTP speaks Streamable HTTP.
type overHTTP struct {
	p    *party
	url  string
	http *http.Client
	gone atomic.Bool // the session: HTTP 404

	mu      sync.Mutex // protects the fields below
	session string
	lost    map[string]bool // ids of events after which a stream broke off
	stops   map[string]context.CancelFunc
	life    context.Context
	end     context.CancelFunc
	wg      sync.WaitGroup
}

func httpConduit(_ testing.TB, p *party, at string, _ []string) conduit {
	c := &overHTTP{p: p, url: at, http: &http.Client{Transport: &http.Transport{}}, lost: map[string]bool{}, stops: map[string]context.CancelFunc{}}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

func (c *overHTTP) Send(raw []byte) error {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name, URI, TaskID string }
	}
	if len(raw) < 64<<10 {
		_ = json.Unmarshal(raw, &m)
	} else { // a large call of the tests
		id, _, _ := bytes.Cut(bytes.TrimPrefix(raw, []byte(`{"jsonrpc":"2.0","id":`)), []byte(","))
		m.ID, m.Method, m.Params.Name = id, "tools/call", "greet"
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if c.p.era == translate.Modern {
		h.Set("Mcp-Protocol-Version", translate.V20260728)
		h.Set("Mcp-Method", m.Method)
		if name := m.Params.Name + m.Params.URI + m.Params.TaskID; name != "" {
			h.Set("Mcp-Name", name)
		}
	}
	if m.ID == nil || m.Method == "" {
		resp, err := c.do(c.context(""), http.MethodPost, h, raw)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			return fmt.Errorf("HTTP %d", resp.StatusCode)
		}
		if m.Method == "notifications/initialized" {
			return c.get("")
		}
		return nil
	}
	ctx := c.context(string(m.ID))
	c.wg.Go(func() {
		resp, err := c.do(ctx, http.MethodPost, h, raw)
		if err == nil {
			if s := resp.Header.Get("Mcp-Session-Id"); s != "" {
				c.mu.Lock()
				c.session = s
				c.mu.Unlock()
			}
			err = c.read(resp, string(m.ID))
		}
		if err != nil && ctx.Err() == nil {
			c.p.take(fmt.Appendf(nil, `{"id":%s,"error":{"code":0,"message":%q}}`, m.ID, err.Error()))
		}
	})
	return nil
}

func (c *overHTTP) context(id string) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithCancel(c.life)
	if id == "" {
		context.AfterFunc(c.life, cancel)
	} else {
		c.stops[id] = cancel
	}
	return ctx
}

func (c *overHTTP) do(ctx context.Context, verb string, h http.Header, raw []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, verb, c.url, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	r.Header = h
	c.mu.Lock()
	if c.session != "" && c.p.era != translate.Modern {
		h.Set("Mcp-Session-Id", c.session)
		h.Set("Mcp-Protocol-Version", translate.V20251125)
	}
	c.mu.Unlock()
	resp, err := c.http.Do(r)
	if err == nil && resp.StatusCode == http.StatusNotFound && c.p.era == translate.Legacy {
		c.gone.Store(true)
		c.mu.Lock()
		c.session = ""
		c.mu.Unlock()
	}
	return resp, err
}

// read hands over what a reply holds. A refusal without an id is the request's.
func (c *overHTTP) read(resp *http.Response, id string) error {
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		var m partyMessage
		if json.Unmarshal(raw, &m) != nil || string(m.ID) != id {
			return fmt.Errorf("HTTP %d: %.200s", resp.StatusCode, raw)
		}
		c.p.take(raw)
		return nil
	}
	last := ""
	err := readItems(resp.Body, func(ev sseItem) {
		if ev.id != "" {
			last = ev.id
		}
		if ev.data != "" {
			c.p.take([]byte(ev.data))
		}
	})
	if err != nil && last != "" {
		c.mu.Lock()
		c.lost[last] = true
		c.mu.Unlock()
	}
	return err
}

// get opens a stream for what belongs to no request, or resumes one.
func (c *overHTTP) get(after string) error {
	h := http.Header{"Accept": {"text/event-stream"}}
	if after != "" {
		h.Set("Last-Event-ID", after)
	}
	resp, err := c.do(c.context(""), http.MethodGet, h, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		if after != "" && resp.StatusCode == http.StatusMethodNotAllowed {
			return nil // all of it has been read
		}
		return fmt.Errorf("GET: HTTP %d", resp.StatusCode)
	}
	c.wg.Go(func() { _ = c.read(resp, "") })
	return nil
}

func (c *overHTTP) Cancel(id string) {
	if c.p.era == translate.Modern {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stops[id]()
		return
	}
	_ = c.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
}

func (c *overHTTP) Cut() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.wg.Wait()
	c.http.CloseIdleConnections()
	c.mu.Lock()
	c.life, c.end = context.WithCancel(context.Background())
	c.mu.Unlock()
}

// Back resumes what was cut off: over HTTP/1.1 each request has a connection
// when it needs one.
func (c *overHTTP) Back() (bool, error) {
	c.mu.Lock()
	lost := c.lost
	c.lost = map[string]bool{}
	c.mu.Unlock()
	for id := range lost {
		if err := c.get(id); err != nil {
			return true, err
		}
	}
	return true, nil
}

func (c *overHTTP) Close() error {
	var err error
	if c.session != "" {
		var resp *http.Response
		if resp, err = c.do(context.Background(), http.MethodDelete, http.Header{}, nil); err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotFound {
				err = fmt.Errorf("DELETE: HTTP %d", resp.StatusCode)
			}
		}
	}
	c.Cut()
	return err
}

// sseItem is one event of an event stream.
type sseItem struct{ name, id, data string }

// readItems reads a stream to its end; nil is an orderly one.
func readItems(r io.Reader, each func(sseItem)) error {
	br := bufio.NewReaderSize(r, 64<<10)
	var ev sseItem
	for {
		line, err := br.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "data":
			ev.data += value
		case name == "id":
			ev.id = value
		case name == "event":
			ev.name = value
		case name == "" && value == "" && len(line) <= 2:
			each(ev)
			ev = sseItem{}
		}
	}
}

// overSSE speaks HTTP+SSE (2024-11-05 basic/transports).
type overSSE struct {
	p    *party
	url  string
	http *http.Client

	to  string // where messages go
	end context.CancelFunc
	wg  sync.WaitGroup
}

func sseConduit(t testing.TB, p *party, at string, _ []string) conduit {
	c := &overSSE{p: p, url: strings.TrimSuffix(at, "/mcp") + "/sse", http: &http.Client{Transport: &http.Transport{}}}
	if _, err := c.Back(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *overSSE) Back() (bool, error) {
	ctx, cancel := context.WithCancel(context.Background())
	c.end = cancel
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return false, err
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := c.http.Do(r)
	if err != nil {
		return false, err
	}
	endpoint := make(chan string, 1)
	c.wg.Go(func() {
		defer close(endpoint)
		defer resp.Body.Close()
		_ = readItems(resp.Body, func(ev sseItem) {
			switch {
			case ev.name == "endpoint":
				endpoint <- ev.data
			case ev.data != "":
				c.p.take([]byte(ev.data))
			}
		})
	})
	to, err := resp.Request.URL.Parse(<-endpoint)
	if err != nil {
		return false, err
	}
	c.to = to.String()
	return false, nil
}

func (c *overSSE) Send(raw []byte) error {
	resp, err := c.http.Post(c.to, "application/json", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("POST: HTTP %d", resp.StatusCode)
	}
	return nil
}

func (c *overSSE) Cancel(id string) { cancelByNotice(c, id) }

func cancelByNotice(c conduit, id string) {
	_ = c.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
}

func (c *overSSE) Cut() {
	c.end()
	c.wg.Wait()
	c.http.CloseIdleConnections()
}

func (c *overSSE) Close() error { c.Cut(); return nil }

// overSocket speaks WebSocket.
type overSocket struct {
	p   *party
	url string
	mu  sync.Mutex // held while a message is written
	ws  *websocket.Conn
	wg  sync.WaitGroup
}

func socketConduit(t testing.TB, p *party, at string, _ []string) conduit {
	c := &overSocket{p: p, url: "ws" + strings.TrimPrefix(at, "http")}
	if _, err := c.Back(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *overSocket) Back() (bool, error) {
	ws, _, err := (&websocket.Dialer{Subprotocols: []string{"mcp"}}).Dial(c.url, nil)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	c.ws = ws
	c.mu.Unlock()
	c.wg.Go(func() {
		for {
			_, raw, err := ws.ReadMessage()
			if err != nil {
				return
			}
			c.p.take(raw)
		}
	})
	return false, nil
}

func (c *overSocket) Send(raw []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ws.WriteMessage(websocket.TextMessage, raw)
}

func (c *overSocket) Cancel(id string) { cancelByNotice(c, id) }

func (c *overSocket) Cut() {
	c.ws.NetConn().Close()
	c.wg.Wait()
}

// Close says goodbye and waits for the other side's word.
func (c *overSocket) Close() error {
	goodbye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = c.ws.WriteControl(websocket.CloseMessage, goodbye, time.Now().Add(patience))
	c.wg.Wait()
	return c.ws.Close()
}

// overStdio starts a proxy and speaks to it over its standard streams.
type overLines struct {
	p    *party
	cmd  *exec.Cmd
	said lockedBuffer
	mu   sync.Mutex // held while a message is written
	in   io.WriteCloser
	done chan struct{}
	err  error // valid then
}

func stdioConduit(t testing.TB, p *party, _ string, args []string) conduit {
	t.Helper()
	c := &overLines{p: p, done: make(chan struct{})}
	c.cmd = exec.Command(builtBridge(t), append([]string{"stdio", "--log-level", "warn"}, append(recorded(t), args...)...)...)
	c.cmd.Stderr = &c.said
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.in = in
	go func() {
		defer close(c.done)
		br := bufio.NewReaderSize(out, 64<<10)
		for {
			line, err := br.ReadBytes('\n')
			if err != nil {
				break
			}
			p.take(line)
		}
		c.err = c.cmd.Wait()
	}()
	return c
}

func (c *overLines) Send(raw []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.in.Write(raw); err != nil {
		return err
	}
	_, err := c.in.Write([]byte{'\n'})
	return err
}

func (c *overLines) Cancel(id string) { cancelByNotice(c, id) }

func (c *overLines) Cut() { _ = c.Close() }

func (c *overLines) Back() (bool, error) { return false, errors.New("the proxy ends with its client") }

func (c *overLines) Close() error {
	c.in.Close()
	select {
	case <-c.done:
	case <-time.After(patience):
		_ = c.cmd.Process.Kill()
		return errors.New("taskbridge stdio did not end with its input")
	}
	if c.err != nil {
		return fmt.Errorf("%w: %s", c.err, c.said.String())
	}
	return nil
}
