package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

func TestSSEUpstream_Conversation(t *testing.T) {
	f := &sseFake{}
	d, _ := realServer(t, f, sseAt(TransportSSE), func(o *HTTPOptions) {
		up := o.Upstreams["up"]
		up.Header = http.Header{"X-Key": {"k"}}
		o.Upstreams["up"] = up
	})
	c := dialUp(t, d, http.Header{"Authorization": {"Bearer a"}})
	id := beginSSE(t, c)
	out := in(id, `{"jsonrpc":"2.0","id":"x","method":"tools/list"}`)
	out.Version, out.Header = "2025-11-25", http.Header{"Traceparent": {"00-a"}}
	wantFrames(t, mustDo(t, c, out), `{"jsonrpc":"2.0","id":"x","result":{"of":"tools/list"}}`)
	if got := f.seen(); got != "GET initialize notifications/initialized tools/list" {
		t.Error(got)
	}
	for i, h := range f.headers {
		if h.Get("Authorization") != "Bearer a" || h.Get("X-Key") != "k" || h.Get("Mcp-Session-Id") != "" {
			t.Errorf("%d: %v", i, h)
		}
		if i > 0 && h.Get("Cookie") != "lb=node-1" {
			t.Errorf("%d: cookies %v", i, h["Cookie"])
		}
	}
	if h := f.headers[3]; h.Get("Mcp-Protocol-Version") != "2025-11-25" || h.Get("Traceparent") != "00-a" {
		t.Errorf("%v", h)
	}
	// A session is its principal's.
	other, err := d.Dial(t.Context(), session.Target{Upstream: "up", Principal: "q"})
	if err != nil {
		t.Fatal(err)
	}
	if st := mustDo(t, other, in(id, pingMsg)); st.Envelope().Status != 404 {
		t.Errorf("another's session: %+v", st.Envelope())
	}
	if st := mustDo(t, c, session.Outgoing{Verb: "DELETE", Session: id}); st.Envelope().Status != 200 {
		t.Errorf("%+v", st.Envelope())
	}
	if st := mustDo(t, c, in(id, pingMsg)); st.Envelope().Status != 404 {
		t.Errorf("%+v", st.Envelope())
	}
	if got := f.seen(); strings.Contains(got, "ping") || strings.Contains(got, "DELETE") {
		t.Error(got)
	}
	d.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(d.sse["up"].faces); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// TestSSEUpstream_AnswersAfterWork: a server may answer a POST only when it is
// done, and ask meanwhile.
func TestSSEUpstream_AnswersAfterWork(t *testing.T) {
	answered := make(chan string, 1)
	f := &sseFake{}
	f.onPost = func(w http.ResponseWriter, m sseMsg, s *sseFakeSession) bool {
		switch {
		case m.Method == "tools/call":
			s.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(m.ID) + `,"progress":1}}`)
			s.send(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{}}`)
			<-answered
			f.reply(m, s)
			w.WriteHeader(200)
			return true
		case m.Method == "":
			answered <- m.raw
		}
		return false
	}
	d, _ := realServer(t, f, sseAt(TransportSSE))
	c := dialUp(t, d, nil)
	id := beginSSE(t, c)
	st := mustDo(t, c, in(id, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":{"progressToken":"tok"}}}`))
	first, err := st.Next()
	if err != nil || !strings.Contains(string(first.Msg.Raw), `"progressToken":"tok"`) {
		t.Fatalf("%v %v", first.Msg, err)
	}
	q, err := st.Next()
	if err != nil || q.Msg.Method != "elicitation/create" {
		t.Fatalf("%v %v", q.Msg, err)
	}
	if st := mustDo(t, c, in(id, `{"jsonrpc":"2.0","id":7,"result":{"action":"accept"}}`)); st.Envelope().Status != 202 {
		t.Errorf("%+v", st.Envelope())
	}
	wantFrames(t, st, `{"jsonrpc":"2.0","id":5,"result":{"of":"tools/call"}}`)
}

// TestCaseB32_SSEAccepted: any 2xx is accepted; other statuses are the
// exchange's own, as over Streamable HTTP.
func TestCaseB32_SSEAccepted(t *testing.T) {
	for _, status := range []int{200, 202, 204} {
		f := &sseFake{}
		f.onPost = func(w http.ResponseWriter, m sseMsg, s *sseFakeSession) bool {
			w.WriteHeader(status)
			if status == 200 {
				io.WriteString(w, `{"jsonrpc":"2.0","id":null}`)
			}
			f.reply(m, s)
			return true
		}
		d, _ := realServer(t, f, sseAt(TransportSSE))
		c := dialUp(t, d, nil)
		id := beginSSE(t, c)
		wantFrames(t, mustDo(t, c, in(id, pingMsg)), `{"jsonrpc":"2.0","id":1,"result":{"of":"ping"}}`)
	}
	for _, status := range []int{400, 401, 403, 413, 429, 500, 503} {
		f := &sseFake{}
		d, _ := realServer(t, f, sseAt(TransportSSE))
		c := dialUp(t, d, nil)
		id := beginSSE(t, c)
		f.onPost = func(w http.ResponseWriter, m sseMsg, s *sseFakeSession) bool {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(status)
			return true
		}
		for _, msg := range []string{pingMsg, noteMsg} {
			st := mustDo(t, c, in(id, msg))
			if env := st.Envelope(); env.Status != status || env.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%d: %+v", status, env)
			}
			wantFrames(t, st)
		}
		f.onPost = nil
		wantFrames(t, mustDo(t, c, in(id, pingMsg)), `{"jsonrpc":"2.0","id":1,"result":{"of":"ping"}}`)
	}
}

// TestSSEUpstream_SessionForgotten: the server's 404 ends the session here too.
func TestSSEUpstream_SessionForgotten(t *testing.T) {
	f := &sseFake{}
	d, _ := realServer(t, f, sseAt(TransportSSE))
	c := dialUp(t, d, nil)
	id := beginSSE(t, c)
	f.mu.Lock()
	clear(f.sessions)
	f.mu.Unlock()
	for range 2 {
		st := mustDo(t, c, in(id, pingMsg))
		if st.Envelope().Status != 404 {
			t.Errorf("%+v", st.Envelope())
		}
		wantFrames(t, st)
	}
	beginSSE(t, c)
}

func TestSSEUpstream_FallsBack(t *testing.T) {
	for _, status := range []int{400, 404, 405} {
		f := &sseFake{main: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }}
		d, _ := realServer(t, f, sseAt(TransportAuto))
		c := dialUp(t, d, nil)
		id := beginSSE(t, c)
		wantFrames(t, mustDo(t, c, in(id, pingMsg)), `{"jsonrpc":"2.0","id":1,"result":{"of":"ping"}}`)
		beginSSE(t, c) // now it is known
		if got := f.seen(); got != "POST/sse GET initialize notifications/initialized ping GET initialize notifications/initialized" {
			t.Errorf("%d: %s", status, got)
		}
	}
	for _, status := range []int{401, 403, 406, 415, 500, 503} {
		f := &sseFake{main: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }}
		d, _ := realServer(t, f, sseAt(TransportAuto))
		if st := mustDo(t, dialUp(t, d, nil), post(initMsg)); st.Envelope().Status != status || f.seen() != "POST/sse" {
			t.Errorf("%d: %+v %s", status, st.Envelope(), f.seen())
		}
	}
	f := &sseFake{}
	d, _ := realServer(t, f, sseAt(TransportHTTP))
	if st := mustDo(t, dialUp(t, d, nil), post(initMsg)); st.Envelope().Status != 405 || f.seen() != "POST/sse" {
		t.Errorf("pinned to http: %+v %s", st.Envelope(), f.seen())
	}
}

// TestSSEUpstream_NotThatEither: what a POST was answered stands where no event
// stream of this transport comes; a refusal of the GET is told.
func TestSSEUpstream_NotThatEither(t *testing.T) {
	for name, onGet := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"405":    func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(405); return true },
		"a page": func(w http.ResponseWriter, _ *http.Request) bool { io.WriteString(w, "<html>"); return true },
		"no event": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", sseType)
			w.WriteHeader(200)
			return true
		},
		"other first": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", sseType)
			io.WriteString(w, "data: {}\n\n")
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &sseFake{onGet: onGet, main: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", jsonType)
				w.WriteHeader(400)
				io.WriteString(w, `{"jsonrpc":"2.0","id":"i","error":{"code":-32600,"message":"no"}}`)
			}}
			d, _ := realServer(t, f, sseAt(TransportAuto))
			c := dialUp(t, d, nil)
			for range 2 {
				st := mustDo(t, c, post(initMsg))
				if st.Envelope().Status != 400 {
					t.Errorf("%+v", st.Envelope())
				}
				wantFrames(t, st, `{"jsonrpc":"2.0","id":"i","error":{"code":-32600,"message":"no"}}`)
			}
			pinned, _ := realServer(t, f, sseAt(TransportSSE))
			_, err := dialUp(t, pinned, nil).Do(t.Context(), post(initMsg))
			wantFail(t, err, session.FailUnreachable, "HTTP+SSE")
		})
	}
	f := &sseFake{onGet: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(401)
		return true
	}}
	d, _ := realServer(t, f, sseAt(TransportAuto))
	if st := mustDo(t, dialUp(t, d, nil), post(initMsg)); st.Envelope().Status != 401 || st.Envelope().Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%+v", st.Envelope())
	}
}

// TestSSEUpstream_ForeignID: a server's own session id that begins like ours
// goes to that server.
func TestSSEUpstream_ForeignID(t *testing.T) {
	f := &sseFake{main: reply(200, jsonType, pongMsg)}
	d, _ := realServer(t, f, sseAt(TransportAuto))
	wantFrames(t, mustDo(t, dialUp(t, d, nil), in("sse-1", pingMsg)), pongMsg)
}

// TestSSEUpstream_Replaced: a server that was known to speak HTTP+SSE and now
// speaks Streamable HTTP.
func TestSSEUpstream_Replaced(t *testing.T) {
	f := &sseFake{}
	d, _ := realServer(t, f, sseAt(TransportAuto))
	c := dialUp(t, d, nil)
	beginSSE(t, c)
	f.onGet = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(405); return true }
	f.main = reply(200, jsonType, `{"jsonrpc":"2.0","id":"i","result":{}}`)
	wantFrames(t, mustDo(t, c, post(initMsg)), `{"jsonrpc":"2.0","id":"i","result":{}}`)
}

// TestSafetyS20_NothingPostedElsewhere: an endpoint of another origin is refused
// naming both, and nothing is sent there.
func TestSafetyS20_NothingPostedElsewhere(t *testing.T) {
	var elsewhere []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { elsewhere = append(elsewhere, r.URL.String()) }))
	defer other.Close()
	for _, transport := range []Transport{TransportAuto, TransportSSE} {
		f := &sseFake{endpoint: other.URL + "/messages?sid="}
		d, srv := realServer(t, f, sseAt(transport))
		_, err := dialUp(t, d, http.Header{"Authorization": {"Bearer a"}}).Do(t.Context(), post(initMsg))
		wantFail(t, err, session.FailRedirect, srv.URL+"/sse", other.URL+"/messages")
		if strings.Contains(err.Error(), "sid=1") {
			t.Error(err)
		}
	}
	if len(elsewhere) > 0 {
		t.Errorf("sent there: %v", elsewhere)
	}
}

// TestCaseB60_MessageURL: a configured place counts, whatever is announced.
func TestCaseB60_MessageURL(t *testing.T) {
	f := &sseFake{endpoint: "/wrong/messages?sid="}
	d, _ := realServer(t, f, sseAt(TransportSSE), func(o *HTTPOptions) {
		up := o.Upstreams["up"]
		up.MessageURL = strings.TrimSuffix(up.URL, "/sse") + "/messages"
		o.Upstreams["up"] = up
	})
	beginSSE(t, dialUp(t, d, nil))
}

func TestSSEUpstream_Probe(t *testing.T) {
	for _, transport := range []Transport{TransportAuto, TransportSSE} {
		f := &sseFake{}
		d, _ := realServer(t, f, sseAt(transport))
		r, err := Probe(t.Context(), dialUp(t, d, nil), ProbeOptions{Upstream: "up"})
		if err != nil || r.Era != translate.Legacy || r.Version != "2024-11-05" || !r.Session {
			t.Errorf("%+v, %v", r, err)
		}
		want := "POST/sse POST/sse GET initialize notifications/initialized"
		if transport == TransportSSE {
			want = "GET initialize notifications/initialized"
		}
		if got := f.seen(); got != want {
			t.Errorf("%s", got)
		}
		d.sse["up"].mu.Lock()
		if n := len(d.sse["up"].pipes); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		d.sse["up"].mu.Unlock()
	}
}

// TestSSEUpstream_CutAtEachEvent: whatever waits gets one clear error, the
// session is unknown from then on, and new work gets a new one.
func TestSSEUpstream_CutAtEachEvent(t *testing.T) {
	for cut := 1; cut <= 4; cut++ {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			f := &sseFake{cut: cut}
			f.onPost = func(w http.ResponseWriter, m sseMsg, s *sseFakeSession) bool {
				if m.Method != "tools/call" {
					return false
				}
				w.WriteHeader(202)
				go func() {
					s.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(m.ID) + `,"progress":1}}`)
					s.send(`{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{}}`)
				}()
				return true
			}
			d, _ := realServer(t, f, sseAt(TransportSSE))
			c := dialUp(t, d, nil)
			if cut == 1 {
				st, err := c.Do(t.Context(), post(initMsg))
				if err == nil && st.Envelope().Status == 404 {
					// The server had forgotten the session when the message came.
					err = &session.DialError{Fail: session.FailBroken}
				} else if err == nil {
					var frames []translate.Frame
					if frames, err = readAllFrames(st); len(frames) > 0 {
						t.Errorf("got %s", raws(frames))
					}
				}
				if de := wantFail(t, err, session.FailBroken); de == nil {
					t.Error("no error")
				}
				f.cut = 0
				beginSSE(t, c)
				return
			}
			st := mustDo(t, c, post(initMsg))
			if frames, err := readAllFrames(st); err != io.EOF || len(frames) != 1 {
				t.Fatalf("%s %v", raws(frames), err)
			}
			id := st.Envelope().Header.Get("Mcp-Session-Id")
			call, err := c.Do(t.Context(), in(id, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":{"progressToken":"t"}}}`))
			if err == nil && call.Envelope().Status == 200 {
				var frames []translate.Frame
				frames, err = readAllFrames(call)
				if len(frames) != cut-2 {
					t.Errorf("%d messages before the end", len(frames))
				}
				wantFail(t, err, session.FailBroken, "event stream")
			} else if err == nil && call.Envelope().Status != 404 {
				t.Errorf("%+v", call.Envelope())
			}
			<-d.sse["up"].ended(id)
			if st := mustDo(t, c, in(id, pingMsg)); st.Envelope().Status != 404 {
				t.Errorf("%+v", st.Envelope())
			}
			f.cut = 0
			beginSSE(t, c)
		})
	}
}

// TestSSEUpstream_SilentStream: a GET that brings no endpoint is given up.
func TestSSEUpstream_SilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &sseFake{onGet: func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", sseType)
			io.WriteString(w, ": nothing\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}}
		d := pipeServer(t, f, sseAt(TransportAuto))
		began := time.Now()
		st := mustDo(t, dialUp(t, d, nil), post(initMsg))
		if st.Envelope().Status != 405 || time.Since(began) != endpointWait {
			t.Errorf("%+v after %v", st.Envelope(), time.Since(began))
		}
		st.Close()
	})
}

// TestSSEUpstream_CallerLeaves: a cancelled exchange leaves nothing behind, and
// the session goes on.
func TestSSEUpstream_CallerLeaves(t *testing.T) {
	f := &sseFake{}
	f.onPost = func(w http.ResponseWriter, m sseMsg, s *sseFakeSession) bool {
		if m.Method == "never" {
			w.WriteHeader(202)
			return true
		}
		return false
	}
	d, _ := realServer(t, f, sseAt(TransportSSE))
	c := dialUp(t, d, nil)
	id := beginSSE(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	st, err := c.Do(ctx, in(id, `{"jsonrpc":"2.0","id":3,"method":"never"}`))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := readAllFrames(st); err == io.EOF {
		t.Error("the exchange ended well")
	}
	// Its cancel still finds the request.
	mustDo(t, c, in(id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`))
	if got := f.seen(); !strings.HasSuffix(got, "never notifications/cancelled") {
		t.Error(got)
	}
	wantFrames(t, mustDo(t, c, in(id, pingMsg)), `{"jsonrpc":"2.0","id":1,"result":{"of":"ping"}}`)
}

// TestCaseB59_SSEUpstream: a large message passes unchanged, either way.
func TestCaseB59_SSEUpstream(t *testing.T) {
	big := strings.Repeat("YWJj", 3<<20)
	got := make(chan string, 1)
	f := &sseFake{}
	f.onPost = func(w http.ResponseWriter, m sseMsg, s *sseFakeSession) bool {
		if m.Method != "tools/call" {
			return false
		}
		got <- string(m.Params)
		w.WriteHeader(202)
		go s.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"data":"` + big + `"}}`)
		return true
	}
	d, _ := realServer(t, f, sseAt(TransportSSE))
	c := dialUp(t, d, nil)
	id := beginSSE(t, c)
	frames, err := readAllFrames(mustDo(t, c, in(id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"data":"`+big+`"}}`)))
	if err != io.EOF || len(frames) != 1 || string(frames[0].Msg.Raw) != `{"jsonrpc":"2.0","id":1,"result":{"data":"`+big+`"}}` {
		t.Errorf("%d messages, %v", len(frames), err)
	}
	if <-got != `{"data":"`+big+`"}` {
		t.Error("the call was changed")
	}
}
