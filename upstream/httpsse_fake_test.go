package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"taskbridge/session"
)

// sseFake is a server of HTTP+SSE (2024-11-05), by hand.
type sseFake struct {
	endpoint string // announced; "" is the usual one
	// onPost, if set, may answer a POST itself; it says what goes to the stream.
	onPost func(w http.ResponseWriter, m sseMsg, s *sseFakeSession) (done bool)
	// onGet, if set, may answer a GET.
	onGet func(w http.ResponseWriter, r *http.Request) (done bool)
	// main answers what is posted to the stream's own path: 405 by default.
	main http.HandlerFunc
	// cut ends each stream after so many events, endpoint included.
	cut int

	mu       sync.Mutex
	n        int
	sessions map[string]*sseFakeSession
	log      []string
	headers  []http.Header
}

type sseMsg struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	raw    string
}

type sseFakeSession struct {
	id     string
	events chan string
	gone   chan struct{}
}

func (s *sseFakeSession) send(data string) {
	select {
	case s.events <- "event: message\ndata: " + data + "\n\n":
	case <-s.gone:
	}
}

func (f *sseFake) note(r *http.Request, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, what)
	f.headers = append(f.headers, r.Header.Clone())
}

func (f *sseFake) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.log, " ")
}

func (f *sseFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == "GET" && r.URL.Path == "/sse":
		f.stream(w, r)
	case r.Method == "POST" && r.URL.Path == "/messages":
		f.post(w, r)
	case f.main != nil:
		f.note(r, r.Method+r.URL.Path)
		f.main(w, r)
	default:
		f.note(r, r.Method+r.URL.Path)
		w.WriteHeader(405)
	}
}

func (f *sseFake) stream(w http.ResponseWriter, r *http.Request) {
	f.note(r, "GET")
	if f.onGet != nil && f.onGet(w, r) {
		return
	}
	f.mu.Lock()
	f.n++
	s := &sseFakeSession{id: fmt.Sprint(f.n), events: make(chan string), gone: make(chan struct{})}
	if f.sessions == nil {
		f.sessions = map[string]*sseFakeSession{}
	}
	f.sessions[s.id] = s
	f.mu.Unlock()
	defer func() {
		close(s.gone)
		f.mu.Lock()
		delete(f.sessions, s.id)
		f.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	http.SetCookie(w, &http.Cookie{Name: "lb", Value: "node-" + s.id})
	at := f.endpoint
	if at == "" {
		at = "/messages?sid="
	}
	fmt.Fprintf(w, ": hello\n\nevent: endpoint\ndata: %s%s\n\n", at, s.id)
	w.(http.Flusher).Flush()
	for n := 1; n != f.cut; n++ {
		select {
		case ev := <-s.events:
			io.WriteString(w, ev)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (f *sseFake) post(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var m sseMsg
	json.Unmarshal(raw, &m)
	m.raw = string(raw)
	what := m.Method
	if what == "" {
		what = "answer"
	}
	f.note(r, what)
	f.mu.Lock()
	s := f.sessions[r.URL.Query().Get("sid")]
	f.mu.Unlock()
	if s == nil {
		w.WriteHeader(404)
		return
	}
	if f.onPost != nil && f.onPost(w, m, s) {
		return
	}
	w.WriteHeader(202)
	io.WriteString(w, "Accepted")
	f.reply(m, s)
}

// reply puts the usual answer on the stream.
func (f *sseFake) reply(m sseMsg, s *sseFakeSession) {
	switch {
	case m.Method == "initialize":
		go s.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"old","version":"1"}}}`)
	case m.Method != "" && m.ID != nil:
		go s.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"of":"` + m.Method + `"}}`)
	}
}

func sseAt(transport Transport) func(*HTTPOptions) {
	return func(o *HTTPOptions) {
		up := o.Upstreams["up"]
		up.URL = strings.TrimSuffix(up.URL, "/mcp") + "/sse"
		up.Transport = transport
		o.Upstreams["up"] = up
	}
}

const initMsg = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// begin opens a session and says its id.
func beginSSE(t testing.TB, c session.Conn) string {
	t.Helper()
	st := mustDo(t, c, post(initMsg))
	frames, err := readAllFrames(st)
	if err != io.EOF || len(frames) != 1 || !strings.Contains(string(frames[0].Msg.Raw), `"id":"i"`) {
		t.Fatalf("initialize: %s, %v", raws(frames), err)
	}
	id := st.Envelope().Header.Get("Mcp-Session-Id")
	if !madeHere(id) || st.Envelope().Status != 200 {
		t.Fatalf("no session: %+v", st.Envelope())
	}
	if st := mustDo(t, c, session.Outgoing{Msg: []byte(noteMsg), Session: id}); st.Envelope().Status != 202 {
		t.Fatalf("initialized: %+v", st.Envelope())
	}
	return id
}

func in(id, msg string) session.Outgoing {
	return session.Outgoing{Verb: "POST", Msg: []byte(msg), Session: id}
}

// ended is closed when a session's link is over.
func (s *links) ended(id string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.faces[id]; p != nil {
		return p.gone
	}
	over := make(chan struct{})
	close(over)
	return over
}
