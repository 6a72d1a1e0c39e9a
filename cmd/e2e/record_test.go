package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"taskbridge/translate/schematest"
)

// recorder stands before a server and keeps every message that passes.
type recorder struct {
	URL string

	mu        sync.Mutex // protects the field below
	exchanges []*exchange
}

// exchange is one HTTP request with its answer.
type exchange struct {
	mu           sync.Mutex // protects the fields below
	verb         string
	session      string
	resumes      bool // a GET with Last-Event-ID
	request      []byte
	status       int
	eventStream  bool
	response     bytes.Buffer
	responseSess string
}

// message is one JSON-RPC message as it went over the wire.
type message struct {
	raw      []byte
	toServer bool
	method   string
	kind     schematest.Kind
}

func (m message) key() string { return fmt.Sprintf("%t %s", m.toServer, m.raw) }

func record(t testing.TB, target string) *recorder {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r := new(recorder)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host, pr.Out.Host = u.Scheme, u.Host, u.Host
		},
		ModifyResponse: func(res *http.Response) error {
			x := res.Request.Context().Value(exchangeKey{}).(*exchange)
			x.mu.Lock()
			defer x.mu.Unlock()
			x.status = res.StatusCode
			x.eventStream = strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
			x.responseSess = res.Header.Get("Mcp-Session-Id")
			res.Body = &tee{ReadCloser: res.Body, x: x}
			return nil
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		x := &exchange{verb: req.Method, session: req.Header.Get("Mcp-Session-Id"), resumes: req.Header.Get("Last-Event-ID") != "", request: body}
		r.mu.Lock()
		r.exchanges = append(r.exchanges, x)
		r.mu.Unlock()
		req.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, req.WithContext(withExchange(req, x)))
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	r.URL = s.URL + u.Path
	return r
}

// tee keeps what is read.
type tee struct {
	io.ReadCloser
	x *exchange
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.x.mu.Lock()
	t.x.response.Write(p[:n])
	t.x.mu.Unlock()
	return n, err
}

// messages gives all messages so far, each with the method it has or answers.
func (r *recorder) messages() []message {
	r.mu.Lock()
	exchanges := append([]*exchange(nil), r.exchanges...)
	r.mu.Unlock()
	asked := map[string]string{} // the server's requests: session and id → method
	sent := map[string]string{}  // the client's, likewise
	var out []message
	var answers []int // indexes of client messages that answer one of those
	sessions := map[int]string{}
	for _, x := range exchanges {
		x.mu.Lock()
		session := x.session
		if x.responseSess != "" {
			session = x.responseSess
		}
		own := ""
		if len(x.request) > 0 {
			m := read(x.request, true)
			own = m.method
			sent[session+" "+idOf(x.request)] = own
			if m.method == "" {
				answers = append(answers, len(out))
				sessions[len(out)] = session
			}
			out = append(out, m)
		}
		for _, raw := range split(x.response.Bytes(), x.eventStream) {
			m := read(raw, false)
			if m.method == "" {
				m.method = own
				if x.resumes { // the rest of another exchange's reply
					m.method = sent[session+" "+idOf(raw)]
				}
			} else if m.kind == schematest.Request {
				asked[session+" "+idOf(raw)] = m.method
			}
			out = append(out, m)
		}
		x.mu.Unlock()
	}
	for _, i := range answers {
		out[i].method = asked[sessions[i]+" "+idOf(out[i].raw)]
	}
	return out
}

func read(raw []byte, toServer bool) message {
	var env struct {
		ID            json.RawMessage
		Method        string
		Result, Error json.RawMessage
	}
	json.Unmarshal(raw, &env)
	m := message{raw: raw, toServer: toServer, method: env.Method}
	switch {
	case env.Error != nil:
		m.kind = schematest.Error
	case env.Result != nil:
		m.kind = schematest.Result
	case env.ID != nil:
		m.kind = schematest.Request
	default:
		m.kind = schematest.Notification
	}
	return m
}

func idOf(raw []byte) string {
	var env struct{ ID json.RawMessage }
	json.Unmarshal(raw, &env)
	return string(env.ID)
}

// split gives the messages of a body. An event that is cut off is none.
func split(body []byte, events bool) [][]byte {
	if !events {
		if body = bytes.TrimSpace(body); len(body) == 0 || !json.Valid(body) {
			return nil
		}
		return [][]byte{body}
	}
	var out [][]byte
	parts := bytes.Split(bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")), []byte("\n\n"))
	for _, event := range parts[:len(parts)-1] {
		var data [][]byte
		for line := range bytes.Lines(event) {
			if value, ok := bytes.CutPrefix(bytes.TrimRight(line, "\n"), []byte("data:")); ok {
				data = append(data, bytes.TrimPrefix(value, []byte(" ")))
			}
		}
		if joined := bytes.Join(data, []byte("\n")); len(joined) > 0 {
			out = append(out, joined)
		}
	}
	return out
}

// legs are the two sides of a bridge, recorded.
type legs struct {
	client, server       *recorder
	clientEra, serverEra string
}

// recordedBridge is newBridge with a recorder on each side; gives the address
// for the client.
func recordedBridge(t testing.TB, serverURL, clientEra, serverEra string, o bridgeOptions) (string, *legs) {
	t.Helper()
	l := &legs{clientEra: clientEra, serverEra: serverEra}
	l.server = record(t, serverURL)
	l.client = record(t, newBridge(t, l.server.URL, o).URL)
	return l.client.URL, l
}

// check holds every message the proxy sent against the schema of the era it
// went to, unless the proxy passed it on byte for byte. Gives the ones it made
// or changed.
func (l *legs) check(t *testing.T, v *schematest.Validator) (made []message) {
	t.Helper()
	fromClient, fromServer := l.client.messages(), l.server.messages()
	seen := map[string]bool{}
	for _, m := range fromClient {
		if m.toServer {
			seen[m.key()] = true
		}
	}
	for _, m := range fromServer {
		if !m.toServer {
			seen[m.key()] = true
		}
	}
	sent := func(all []message, toServer bool, era string) {
		for _, m := range all {
			era := era
			if m.toServer != toServer || seen[m.key()] {
				continue
			}
			made = append(made, m)
			if m.method == "" && bytes.Contains(m.raw, []byte("unknown session")) {
				// A GET or DELETE that came after the session's end: refused with an
				// error that has no id (2025-11-25 basic/transports, Session Management).
				continue
			}
			if strings.HasPrefix(m.method, "notifications/com.example/") {
				continue // of no specification
			}
			if m.method == "" {
				t.Errorf("toward %s: an answer to nothing asked: %s", era, m.raw)
				continue
			}
			if m.method == "server/discover" {
				era = "modern" // the probe of a legacy server is a modern request
			}
			v.Validate(t, era, m.method, m.kind, m.raw)
		}
	}
	sent(fromServer, true, l.serverEra)
	sent(fromClient, false, l.clientEra)
	return made
}

type exchangeKey struct{}

func withExchange(r *http.Request, x *exchange) context.Context {
	return context.WithValue(r.Context(), exchangeKey{}, x)
}
