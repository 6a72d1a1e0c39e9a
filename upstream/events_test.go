package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
)

// padded is an answer of n bytes and more, its id at the end.
func padded(id string, n int) string {
	return `{"jsonrpc":"2.0","result":{"x":"` + strings.Repeat("x", n) + `"},"id":` + id + `}`
}

// eventServer answers a POST and a GET with events, and notes what answers it
// got. Where hang is set, the stream stays open behind them.
type eventServer struct {
	events  string
	hang    bool
	answers chan string
}

func (e *eventServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var m sseMsg
	json.Unmarshal(raw, &m)
	if r.Method == "POST" && m.Method == "" {
		e.answers <- string(raw)
		w.WriteHeader(202)
		return
	}
	w.Header().Set("Content-Type", sseType)
	io.WriteString(w, e.events)
	w.(http.Flusher).Flush()
	if e.hang {
		<-r.Context().Done()
	}
}

// TestCaseB59_EventsGoOn: over Streamable HTTP a message over the limit is
// discarded, whoever it was for is told, and the rest of the stream goes on.
func TestCaseB59_EventsGoOn(t *testing.T) {
	event := func(data string) string { return "data: " + data + "\n\n" }
	note := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	longNote := `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + strings.Repeat("x", 1500) + `"}}`
	question := `{"jsonrpc":"2.0","method":"elicitation/create","params":{"message":"` + strings.Repeat("x", 1500) + `"},"id":"q"}`
	lines := "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\"\ndata: :\ndata: 1\ndata: ,\"result\":{\"x\":\"" + strings.Repeat("x", 1500) + "\"}}\n\n"
	resume := session.Outgoing{Verb: "GET", Header: http.Header{"Last-Event-Id": {"7"}}}
	for _, c := range []struct {
		name   string
		out    session.Outgoing
		events string
		want   []string
		fails  string // empty: it ends well
		last   string
	}{
		{"a notification before the answer", post(pingMsg), event(note) + event(longNote) + event(pongMsg), []string{note, pongMsg}, "", ""},
		{"the answer", post(pingMsg), event(note) + event(padded("1", 1500)) + event(pongMsg), []string{note}, "over the limit of 1000 bytes", ""},
		{"the answer, in lines", post(pingMsg), lines, nil, "over the limit of 1000 bytes", ""},
		{"an answer to another", post(pingMsg), event(padded("2", 1500)) + event(pongMsg), []string{pongMsg}, "", ""},
		{"a question", post(pingMsg), event(question) + event(pongMsg), []string{pongMsg}, "", ""},
		{"the id of what was discarded counts", post(pingMsg), "id: 9\n" + event(longNote) + event(pongMsg), []string{pongMsg}, "", "9"},
		{"GET", session.Outgoing{Verb: "GET"}, event(longNote) + event(question) + event(note), []string{note}, "", ""},
		{"a request taken up again", resume, event(note) + event(padded("5", 1500)) + event(note), []string{note}, "over the limit of 1000 bytes", ""},
		{"no end", post(pingMsg), event(note) + event(padded("2", 4500)) + event(pongMsg), []string{note}, "over the limit of 1000 bytes without an end", ""},
		{"no end on GET", session.Outgoing{Verb: "GET"}, event(note) + event(padded("2", 4500)) + event(note), []string{note}, "without an end", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &eventServer{events: c.events, answers: make(chan string, 1)}
			d, _ := realServer(t, e, func(o *HTTPOptions) { o.MaxMessage, o.Budget = 1000, session.NewBudget(1<<20) })
			s := mustDo(t, dialUp(t, d, nil), c.out)
			frames, err := readAllFrames(s)
			if got := raws(frames); got != strings.Join(c.want, "|") {
				t.Errorf("got %s", got)
			}
			if c.fails == "" && err != io.EOF {
				t.Errorf("ended with %v", err)
			} else if c.fails != "" {
				wantFail(t, err, session.FailTooLarge, c.fails)
			}
			if got := s.(session.Resumer).LastEventID(); got != c.last {
				t.Errorf("last event %q", got)
			}
			if strings.Contains(c.events, `"q"`) {
				if got := <-e.answers; !strings.Contains(got, `"id":"q"`) || !strings.Contains(got, "over the limit") {
					t.Errorf("the question was answered %s", got)
				}
			}
			s.Close()
			if n := d.opts.Budget.InUse(); n != 0 {
				t.Errorf("%d bytes in use", n)
			}
		})
	}
}

// TestCaseB59_EventsWithoutRoom: what there is no room for is discarded alike;
// an answer can be had again where the server gives ids.
func TestCaseB59_EventsWithoutRoom(t *testing.T) {
	longNote := `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + strings.Repeat("x", 300<<10) + `"}}`
	budget := session.NewBudget(1 << 20)
	for !budget.TryAcquire(1<<20 - 100<<10) {
		t.Fatal("no budget")
	}
	d, _ := realServer(t, &eventServer{events: "id: 1\ndata: " + longNote + "\n\nid: 2\ndata: " + pongMsg + "\n\n"}, func(o *HTTPOptions) { o.Budget = budget })
	wantFrames(t, mustDo(t, dialUp(t, d, nil), post(pingMsg)), pongMsg)
	d, _ = realServer(t, &eventServer{events: "id: 1\ndata: {}\n\nid: 2\ndata: " + padded("1", 300<<10) + "\n\n"}, func(o *HTTPOptions) { o.Budget = budget })
	s := mustDo(t, dialUp(t, d, nil), post(pingMsg))
	_, err := readAllFrames(s)
	wantFail(t, err, session.FailBusy)
	if got := s.(session.Resumer).LastEventID(); got != "1" {
		t.Errorf("last event %q", got)
	}
	if n := budget.InUse(); n != 1<<20-100<<10 {
		t.Errorf("%d bytes in use", n)
	}
}

// TestCaseB59_EventsLate: the end of what is discarded is waited for, for a
// minute; a slow one that ends within it harms nobody.
func TestCaseB59_EventsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := pipeServer(t, &eventServer{events: "data: " + strings.Repeat("x", 1500), hang: true}, func(o *HTTPOptions) { o.MaxMessage = 1000 })
		began := time.Now()
		_, err := readAllFrames(mustDo(t, dialUp(t, d, nil), post(pingMsg)))
		wantFail(t, err, session.FailTooLarge, "without an end")
		if took := time.Since(began); took != discardFor {
			t.Errorf("after %v", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", sseType)
			io.WriteString(w, "data: "+strings.Repeat("x", 1500))
			w.(http.Flusher).Flush()
			time.Sleep(discardFor - time.Second)
			io.WriteString(w, "\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(2 * discardFor)
			io.WriteString(w, "data: "+pongMsg+"\n\n")
		}), func(o *HTTPOptions) { o.MaxMessage = 1000 })
		wantFrames(t, mustDo(t, dialUp(t, d, nil), post(pingMsg)), pongMsg)
	})
}

// sseHold answers initialize as usual and keeps the rest for the test.
func sseHold(f *sseFake) chan *sseFakeSession {
	held := make(chan *sseFakeSession, 16)
	f.onPost = func(w http.ResponseWriter, m sseMsg, s *sseFakeSession) bool {
		if m.Method == "initialize" || m.ID == nil {
			return false
		}
		w.WriteHeader(202)
		held <- s
		return true
	}
	return held
}

// TestCaseB59_SSEGoesOn: over HTTP+SSE an answer over the limit is its call's
// error alone; the session, and what else is under way in it, goes on.
func TestCaseB59_SSEGoesOn(t *testing.T) {
	f := &sseFake{}
	held := sseHold(f)
	answers := make(chan string, 1)
	hold := f.onPost
	f.onPost = func(w http.ResponseWriter, m sseMsg, s *sseFakeSession) bool {
		if m.Method == "" {
			answers <- m.raw
		}
		return hold(w, m, s)
	}
	d, _ := realServer(t, f, sseAt(TransportSSE), func(o *HTTPOptions) { o.MaxMessage = 1000 })
	c := dialUp(t, d, nil)
	id := beginSSE(t, c)
	one := mustDo(t, c, in(id, `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`))
	s := <-held
	two := mustDo(t, c, in(id, `{"jsonrpc":"2.0","id":"b","method":"tools/list"}`))
	<-held
	// Of our ids initialize has the first.
	s.send(padded("2", 2000))
	_, err := readAllFrames(one)
	wantFail(t, err, session.FailTooLarge, "1000 bytes")
	s.send(`{"jsonrpc":"2.0","method":"elicitation/create","params":{"message":"` + strings.Repeat("x", 2000) + `"},"id":"q"}`)
	if got := <-answers; !strings.Contains(got, `"id":"q"`) || !strings.Contains(got, "over the limit") {
		t.Errorf("the question was answered %s", got)
	}
	s.send(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	wantFrames(t, two, `{"jsonrpc":"2.0","id":"b","result":{}}`)
	three := mustDo(t, c, in(id, pingMsg))
	<-held
	s.send(`{"jsonrpc":"2.0","id":4,"result":{}}`)
	wantFrames(t, three, pongMsg)
}

// TestCaseB59_SSEEndless: an event that does not end, in bytes or in time, ends
// its session: each call in it gets one error, other sessions live on.
func TestCaseB59_SSEEndless(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %v", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &sseFake{}
				held := sseHold(f)
				d := pipeServer(t, f, sseAt(TransportSSE), func(o *HTTPOptions) { o.MaxMessage = 1000 })
				c := dialUp(t, d, nil)
				id, other := beginSSE(t, c), beginSSE(t, c)
				one := mustDo(t, c, in(id, `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`))
				s := <-held
				two := mustDo(t, c, in(id, `{"jsonrpc":"2.0","id":"b","method":"tools/list"}`))
				<-held
				apart := mustDo(t, c, in(other, `{"jsonrpc":"2.0","id":"c","method":"tools/list"}`))
				s2 := <-held
				began := time.Now()
				want := time.Duration(0)
				if late {
					want = discardFor
					s.events <- "data: " + strings.Repeat("x", 1500)
				} else {
					s.send(padded("2", 5000))
				}
				for _, st := range []session.Stream{one, two} {
					frames, err := readAllFrames(st)
					if err == io.EOF || len(frames) > 0 || !strings.Contains(err.Error(), "limit") {
						t.Errorf("%s, %v", raws(frames), err)
					}
				}
				if took := time.Since(began); took != want {
					t.Errorf("after %v", took)
				}
				synctest.Wait()
				if st := mustDo(t, c, in(id, pingMsg)); st.Envelope().Status != 404 {
					t.Errorf("the session: %+v", st.Envelope())
				}
				s2.send(`{"jsonrpc":"2.0","id":2,"result":{}}`)
				wantFrames(t, apart, `{"jsonrpc":"2.0","id":"c","result":{}}`)
			})
		})
	}
}

// TestCaseB59_ChildLate: a server process whose line does not end within a
// minute is ended; the calls it owes get one error each.
func TestCaseB59_ChildLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewStdio(StdioOptions{Name: "up", Command: []string{"x"}, MaxMessage: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		out, says := io.Pipe()
		why := make(chan error, 1)
		r := s.newLines(out, func(err error) { why <- err; says.Close() })
		go func() {
			io.WriteString(says, `{"jsonrpc":"2.0","id":1,"result":"`+strings.Repeat("x", 1500))
			time.Sleep(discardFor - time.Second)
			io.WriteString(says, "\"}\n"+pongMsg+"\n"+strings.Repeat("x", 1500))
		}()
		if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "over the limit") {
			t.Error(err)
		}
		if line, err := r.Next(); string(line) != pongMsg || err != nil {
			t.Errorf("%s, %v", line, err)
		}
		began := time.Now()
		if _, err := r.Next(); err == nil {
			t.Error("a line without an end was read")
		}
		if took := time.Since(began); took != discardFor {
			t.Errorf("after %v", took)
		}
		if err := <-why; !strings.Contains(err.Error(), "1000 bytes without an end") {
			t.Error(err)
		}
	})
}
