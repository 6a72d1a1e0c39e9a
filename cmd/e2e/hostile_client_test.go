package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
)

// caller is a client that sends what it is told to.
type caller struct {
	t       testing.TB
	g       *bridge
	era     translate.Era
	http    *http.Client
	token   string
	session string
	version string // of a legacy session, 2025-11-25 if empty
	caps    string // of a modern client
	id      int
}

const tasksCaps = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

func newCaller(t testing.TB, g *bridge, era translate.Era, token string) *caller {
	t.Helper()
	c := &caller{t: t, g: g, era: era, token: token, caps: tasksCaps, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
	t.Cleanup(c.http.CloseIdleConnections)
	if era == translate.Legacy {
		c.initialize()
	}
	return c
}

func (c *caller) initialize() {
	c.t.Helper()
	c.session = ""
	r := c.post(c.headers("initialize", ""), `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
	c.session = r.Header.Get("Mcp-Session-Id")
	if r.Status != 200 || c.session == "" {
		c.t.Fatalf("initialize: %s", r)
	}
	if r := c.post(c.headers("", ""), `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.Status != 202 {
		c.t.Fatalf("initialized: %s", r)
	}
}

// headers are those of a good request.
func (c *caller) headers(method, name string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if c.token != "" {
		h["Authorization"] = []string{"Bearer " + c.token}
	}
	if c.era == translate.Modern {
		h["Mcp-Protocol-Version"] = []string{"2026-07-28"}
		h["Mcp-Method"] = []string{translate.EncodeHeader(method)}
		if name != "" {
			h["Mcp-Name"] = []string{translate.EncodeHeader(name)}
		}
		return h
	}
	if c.session != "" {
		h["Mcp-Session-Id"] = []string{c.session}
		h["Mcp-Protocol-Version"] = []string{cmp.Or(c.version, "2025-11-25")}
	}
	return h
}

// meta is what a modern request carries.
func (c *caller) meta(more string) string {
	if c.era != translate.Modern {
		return "{" + strings.TrimPrefix(more, ",") + "}"
	}
	return `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + c.caps + more + `}`
}

// params adds what the era wants to members of params.
func (c *caller) params(members string) string {
	p := `"_meta":` + c.meta("")
	if c.era == translate.Legacy && members != "" {
		return "{" + members + "}"
	}
	if members != "" {
		p = members + "," + p
	}
	return "{" + p + "}"
}

func request(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":` + quote(method) + `,"params":` + params + `}`
}

// call sends a good request.
func (c *caller) call(method, members string) rawReply {
	c.t.Helper()
	c.id++
	id := fmt.Sprint(c.id)
	r := c.send(id, method, c.params(members))
	r.ID = id
	return r
}

func (c *caller) tool(name, members string) rawReply {
	c.t.Helper()
	if members != "" {
		members = "," + members
	}
	return c.call("tools/call", `"name":`+quote(name)+`,"arguments":{}`+members)
}

// send posts a request with the headers that fit it.
func (c *caller) send(id, method, params string) rawReply {
	c.t.Helper()
	return c.post(c.headers(method, nameOf(method, params)), request(id, method, params))
}

func nameOf(method, params string) string {
	member := translate.NameMember(method)
	var p map[string]json.RawMessage
	if member == "" || json.Unmarshal([]byte(params), &p) != nil {
		return ""
	}
	var name string
	_ = json.Unmarshal(p[member], &name)
	return name
}

// rawReply is a whole answer.
type rawReply struct {
	ID     string
	Status int
	Header http.Header
	Body   []byte
	// Answers are the responses in it, Others the other messages.
	Answers, Others []json.RawMessage
	Broken          error // the reply ended before its end
}

func (r rawReply) String() string {
	return fmt.Sprintf("HTTP %d %.600s (%d answers, %v)", r.Status, r.Body, len(r.Answers), r.Broken)
}

type answer struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

func (r rawReply) answer() answer {
	var a answer
	if len(r.Answers) > 0 {
		_ = json.Unmarshal(r.Answers[0], &a)
	}
	return a
}

// Code is the error's code, 0 for a result, 1 for no answer.
func (r rawReply) Code() int {
	a := r.answer()
	switch {
	case a.Error != nil:
		return a.Error.Code
	case a.Result != nil:
		return 0
	}
	return 1
}

func (r rawReply) Text() string {
	var p struct{ Content []struct{ Text string } }
	if json.Unmarshal(r.answer().Result, &p) != nil || len(p.Content) == 0 {
		return ""
	}
	return p.Content[0].Text
}

func (r rawReply) field(name string) string {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(r.answer().Result, &m)
	var s string
	_ = json.Unmarshal(m[name], &s)
	return s
}

// patience is how long a reply may take before a test calls it a hang. Nothing
// is measured with it.
const patience = 20 * time.Second

// startPatience is for a process that is started: node, beside dozens of others
// on two cores, has been seen to take half a minute.
const startPatience = 2 * time.Minute

func (c *caller) post(h http.Header, body string) rawReply {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.postIn(ctx, h, body)
}

func (c *caller) postIn(ctx context.Context, h http.Header, body string) rawReply {
	c.t.Helper()
	return c.do(ctx, http.MethodPost, h, body)
}

func (c *caller) do(ctx context.Context, verb string, h http.Header, body string) rawReply {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, verb, c.g.URL, strings.NewReader(body))
	if err != nil {
		return rawReply{Broken: err}
	}
	req.Header = h
	resp, err := c.http.Do(req)
	if err != nil {
		return rawReply{Broken: err}
	}
	defer resp.Body.Close()
	return readReply(resp)
}

// pour posts and reads what comes, keeping nothing.
func (c *caller) pour(ctx context.Context, h http.Header, body string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.g.URL, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header = h
	if resp, err := c.http.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// readReply reads to the end; a listen stream is left after it is acknowledged.
func readReply(resp *http.Response) rawReply {
	r := rawReply{Status: resp.StatusCode, Header: resp.Header}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		r.Body, r.Broken = io.ReadAll(resp.Body)
		r.take(r.Body)
		return r
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		r.Body = append(r.Body, line...)
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			r.take(bytes.TrimSpace(data))
			if bytes.Contains(data, []byte("notifications/subscriptions/acknowledged")) {
				return r
			}
		}
		if err != nil {
			if err != io.EOF {
				r.Broken = err
			}
			return r
		}
	}
}

func (r *rawReply) take(raw []byte) {
	var m struct {
		Method        string
		Result, Error json.RawMessage
	}
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	if m.Method == "" && (m.Result != nil || m.Error != nil) {
		r.Answers = append(r.Answers, raw)
		return
	}
	r.Others = append(r.Others, raw)
}

// stream opens an event stream and yields its messages; closed with the reply.
func (c *caller) stream(verb string, h http.Header, body string) (<-chan string, int, func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, verb, c.g.URL, strings.NewReader(body))
	req.Header = h
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	out := make(chan string, 1024)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadString('\n')
			if line = strings.TrimSpace(line); line != "" {
				out <- line
			}
			if err != nil {
				return
			}
		}
	}()
	c.t.Cleanup(cancel)
	return out, resp.StatusCode, cancel
}

// next waits for a line that contains want.
func nextLine(t testing.TB, lines <-chan string, want string) string {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case l, ok := <-lines:
			if !ok {
				t.Fatalf("the stream ended before %q", want)
			}
			if strings.Contains(l, want) {
				return l
			}
		case <-limit:
			t.Fatalf("no line with %q", want)
		}
	}
}

// rawHTTP writes a request byte by byte as given and reads the reply.
func rawHTTP(t testing.TB, target, raw string) rawReply {
	t.Helper()
	u, _ := url.Parse(target)
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, raw)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return rawReply{Broken: err}
	}
	defer resp.Body.Close()
	return readReply(resp)
}

// eventually waits for something that happens beside the replies.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
