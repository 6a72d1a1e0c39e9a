package downstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
)

const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`

// script sends Outs at times after the message came.
func script(outs map[time.Duration]session.Out) *fakeHub {
	return &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
		for after, o := range outs {
			time.AfterFunc(after, func() { s.Send(o) })
		}
	}}
}

func TestReplyForms(t *testing.T) {
	final := session.Out{Raw: result("1"), Final: true}
	for _, tt := range []struct {
		name  string
		outs  map[time.Duration]session.Out
		lines []string
		typ   string
		body  string
	}{
		{"at once", map[time.Duration]session.Out{0: final}, nil, "application/json", string(final.Raw)},
		{"just in time", map[time.Duration]session.Out{1900 * time.Millisecond: final}, nil, "application/json", string(final.Raw)},
		{"after silence", map[time.Duration]session.Out{2100 * time.Millisecond: final}, nil, "text/event-stream", ": \n\ndata: " + string(final.Raw) + "\n\n"},
		{"long silence", map[time.Duration]session.Out{40 * time.Second: final}, nil, "text/event-stream", ": \n\n: \n\n: \n\ndata: " + string(final.Raw) + "\n\n"},
		{"a message before", map[time.Duration]session.Out{0: {Raw: []byte(progress)}, time.Second: final}, nil, "text/event-stream", "data: " + progress + "\n\ndata: " + string(final.Raw) + "\n\n"},
		{"begun, then nothing", map[time.Duration]session.Out{0: {Begin: true}, time.Second: {Final: true}}, nil, "text/event-stream", ": \n\n"},
		{"JSON only", map[time.Duration]session.Out{0: {Raw: []byte(progress)}, 40 * time.Second: final}, []string{"Accept: application/json"}, "application/json", string(final.Raw)},
		{"SSE only", map[time.Duration]session.Out{0: final}, []string{"Accept: text/event-stream"}, "text/event-stream", "data: " + string(final.Raw) + "\n\n"},
		{"lines in JSON", map[time.Duration]session.Out{0: {Raw: []byte("{\r\n\"a\":\r1}")}, time.Second: {Final: true}}, nil, "text/event-stream", "data: {\"a\":1}\n\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, script(tt.outs), nil)
				got := r.post(ping, tt.lines...)
				if got.status != 200 || got.header.Get("Content-Type") != tt.typ || got.body != tt.body {
					t.Errorf("%d %s %q\nwant %s %q", got.status, got.header.Get("Content-Type"), got.body, tt.typ, tt.body)
				}
				if tt.typ == "text/event-stream" && got.header.Get("X-Accel-Buffering") != "no" {
					t.Errorf("%v", got.header)
				}
				if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("%v", got.header)
				}
				synctest.Wait()
				if r.hub.left() != 1 {
					t.Error("the hub was not told that the reader has gone")
				}
			})
		})
	}
}

// The session's id comes with the reply's header, however long the server
// behind takes to open the session.
func TestSlowInitializeKeepsItsSession(t *testing.T) {
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	id := http.Header{"Mcp-Session-Id": {"s-1"}}
	final := session.Out{Raw: result("1"), Final: true, Header: id}
	for name, outs := range map[string]map[time.Duration]session.Out{
		"after silence":    {20 * time.Second: final},
		"a message before": {0: {Raw: []byte(progress), Header: id}, 20 * time.Second: final},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				got := newRig(t, script(outs), nil).post(initialize)
				if got.status != 200 || got.header.Get("Mcp-Session-Id") != "s-1" || !strings.Contains(got.body, string(final.Raw)) {
					t.Errorf("%d %v %q", got.status, got.header, got.body)
				}
			})
		})
	}
}

func TestPlainStatus(t *testing.T) {
	for _, out := range []session.Out{
		{Status: 404, Raw: result("1"), Final: true},
		{Status: 401, Final: true},
		{Status: 502, Raw: result("1"), Final: true},
		{Status: 204, Final: true},
	} {
		for _, q := range []*http.Request{req("POST", ping), req("POST", ping, "Accept: text/event-stream"), req("POST", notify), req("GET", ""), req("DELETE", "")} {
			r := newRig(t, script(map[time.Duration]session.Out{0: out}), nil)
			if out.Status == 204 && q.Method == "GET" {
				continue
			}
			got := r.do(q)
			if got.status != out.Status || got.body != string(out.Raw) || (got.header.Get("Content-Type") == "application/json") != (out.Raw != nil) {
				t.Errorf("%s %d: %+v", q.Method, out.Status, got)
			}
		}
	}
}

func TestCaseB31_PrimingOnlyWhereItIsKnown(t *testing.T) {
	outs := []session.Out{
		{EventID: "s/1", RetryMS: 500, Begin: true},
		{Raw: []byte(progress), EventID: "s/2"},
		{Raw: result("1"), EventID: "s/3", Final: true},
	}
	hub := &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
		for _, o := range outs {
			s.Send(o)
		}
	}}
	r := newRig(t, hub, nil)
	ids := "id: s/2\ndata: " + progress + "\n\nid: s/3\ndata: " + string(result("1")) + "\n\n"
	for _, tt := range []struct {
		body  string
		lines []string
		want  string
	}{
		{ping, []string{"MCP-Protocol-Version: 2025-11-25"}, "retry: 500\nid: s/1\ndata: \n\n" + ids},
		{ping, nil, "retry: 500\nid: s/1\ndata: \n\n" + ids},
		{ping, []string{"MCP-Protocol-Version: 2025-06-18"}, "retry: 500\n: \n\n" + ids},
		{modernList, modernLines, ": \n\ndata: " + progress + "\n\ndata: " + string(result("1")) + "\n\n"},
	} {
		if got := r.post(tt.body, tt.lines...); got.body != tt.want {
			t.Errorf("%v: %q\nwant %q", tt.lines, got.body, tt.want)
		}
	}
}

// h2 makes the rig's client speak HTTP/2 with prior knowledge.
func (r *rig) h2() {
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return r.ln.Dial() }}
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetUnencryptedHTTP2(true)
	r.client = &http.Client{Transport: tr}
	r.t.Cleanup(tr.CloseIdleConnections)
}

func TestCaseB58_IdleStreams(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2"} {
		for _, q := range []*http.Request{req("GET", ""), req("POST", listen, listenLines...)} {
			t.Run(proto+" "+q.Method, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					hub := script(map[time.Duration]session.Out{0: {Begin: true}, 10 * time.Minute: {Raw: result("1"), Final: true}})
					r := newRig(t, hub, nil)
					if proto == "HTTP/2" {
						r.h2()
					}
					start := time.Now()
					res := r.open(t.Context(), q.Clone(t.Context()))
					if res.ProtoMajor == 2 && (res.Header.Get("Connection") != "" || res.Header.Get("Keep-Alive") != "") {
						t.Errorf("%v", res.Header)
					}
					last, comments := start, 0
					for br := bufio.NewReader(res.Body); ; {
						line, err := br.ReadString('\n')
						if gap := time.Since(last); gap > 30*time.Second || comments == 0 && gap > 0 {
							t.Errorf("silent for %v", gap)
						}
						last = time.Now()
						if err == io.EOF {
							break
						}
						if err != nil {
							t.Fatal(err)
						}
						if strings.HasPrefix(line, ":") {
							comments++
						}
					}
					if took := time.Since(start); took != 10*time.Minute || comments < 20 {
						t.Errorf("%d comments in %v", comments, took)
					}
				})
			})
		}
	}
}

func TestHTTP2Plain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		r.h2()
		for range 3 {
			if got := r.post(modernList, modernLines...); got.status != 200 || got.body != string(result("1")) {
				t.Errorf("%+v", got)
			}
			// Neither bound of the last exchange may reach into the next one.
			time.Sleep(70 * time.Second)
		}
		if got := r.post(ping, "Content-Type: text/plain"); got.status != 415 || got.header.Get("Connection") != "" {
			t.Errorf("%+v", got)
		}
	})
}

// TestCaseB22_DisconnectReachesTheHub: what it means is the hub's to say.
func TestCaseB22_DisconnectReachesTheHub(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, script(map[time.Duration]session.Out{0: {Raw: []byte(progress)}}), nil)
			if h2 {
				r.h2()
			}
			ctx, cancel := context.WithCancel(t.Context())
			r.open(ctx, req("POST", modernList, modernLines...))
			synctest.Wait()
			if r.hub.left() != 0 {
				t.Error("left too early")
			}
			cancel()
			synctest.Wait()
			if r.hub.left() != 1 {
				t.Error("the hub was not told")
			}
		})
	}
}

func TestDisconnectBeforeTheFirstByte(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, &fakeHub{on: silent}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.client.Do(req("POST", ping).WithContext(ctx)); err == nil {
			t.Fatal("got a reply")
		}
		synctest.Wait()
		if r.hub.left() != 1 {
			t.Error("the hub was not told")
		}
	})
}

func TestStuckReaderIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, script(map[time.Duration]session.Out{0: {Raw: []byte(progress)}}), nil)
		c, err := r.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, declare(len(ping), "Accept: application/json, text/event-stream")+ping)
		time.Sleep(29 * time.Second)
		if r.hub.left() != 0 {
			t.Error("given up too early")
		}
		time.Sleep(2 * time.Second)
		if r.hub.left() != 1 {
			t.Error("a client that reads nothing is still waited for")
		}
	})
}

func TestSlowReaderOfALargeReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		raw := []byte(big(1 << 20))
		r := newRig(t, script(map[time.Duration]session.Out{0: {Raw: raw, Final: true}}), nil)
		c, err := r.ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go io.WriteString(c, declare(len(ping))+ping)
		n := 0
		for buf := make([]byte, 16<<10); n < len(raw); {
			time.Sleep(2 * time.Second)
			got, err := c.Read(buf)
			if err != nil {
				t.Fatalf("after %d bytes: %v", n, err)
			}
			n += got
		}
	})
}

func TestLostReply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// The hub's stream passes its bound before anything was read.
		hub := &fakeHub{on: func(_ session.Inbound, s *session.ClientStream) { s.Gone() }}
		r := newRig(t, hub, nil)
		if got := r.post(ping); !strings.Contains(got.body, `"code":-32603`) || !strings.Contains(got.body, `"id":1`) {
			t.Errorf("%+v", got)
		}
	})
}

// deafWriter is the way to a client that is gone: what is written may seem to
// work, as with a small reply in a buffer.
type deafWriter struct {
	*httptest.ResponseRecorder
	write, flush error
}

func (w deafWriter) Write(p []byte) (int, error) {
	if w.write != nil {
		return 0, w.write
	}
	return w.ResponseRecorder.Write(p)
}

func (w deafWriter) FlushError() error { return w.flush }

// The hub hears whether the answer to initialize reached its client, whatever
// shows that it did not.
func TestInitializeUnheard(t *testing.T) {
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	away := errors.New("connection reset by peer")
	for _, tt := range []struct {
		name         string
		lines        []string
		write, flush error
		left         bool // the connection was closed before the answer came
		unheard      bool
	}{
		{name: "there"},
		{name: "there, as an event", lines: []string{"Accept: text/event-stream"}},
		{name: "left", left: true, unheard: true},
		{name: "cut while it is written", write: away, unheard: true},
		{name: "cut when it is flushed", flush: away, unheard: true},
		{name: "an event that is cut", lines: []string{"Accept: text/event-stream"}, flush: away, unheard: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hub := &fakeHub{}
			hub.on = func(in session.Inbound, s *session.ClientStream) {
				s.Send(session.Out{Raw: result("1"), Final: true, Header: http.Header{"Mcp-Session-Id": {"s-1"}}})
			}
			server, err := New(Options{Hub: hub, Loopback: true})
			if err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if tt.left {
				leave()
			}
			q := req("POST", initialize, tt.lines...).WithContext(ctx)
			q.RemoteAddr = "127.0.0.1:50000"
			w := deafWriter{httptest.NewRecorder(), tt.write, tt.flush}
			server.ServeHTTP(w, q)
			if got := hub.live[0].Unheard(); got != tt.unheard {
				t.Errorf("unheard %v, want %v; %d %v", got, tt.unheard, w.Code, w.Header())
			}
		})
	}
}

// A client that closes its half of the connection before the answer is taken for
// gone; what it may still read is no 200.
func TestHalfClosed(t *testing.T) {
	for _, verb := range []string{"POST", "GET", "DELETE"} {
		server, err := New(Options{Hub: &fakeHub{on: func(session.Inbound, *session.ClientStream) {}}, Loopback: true})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		q := req(verb, ping, "Mcp-Session-Id: s-1", "Accept: application/json, text/event-stream").WithContext(ctx)
		q.RemoteAddr = "127.0.0.1:50000"
		w := httptest.NewRecorder()
		server.ServeHTTP(w, q)
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", verb, w.Code, w.Body)
		}
	}
}
