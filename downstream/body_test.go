package downstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

func big(n int) string {
	return `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", n) + `"}}`
}

// chunked hides a body's length.
func chunked(body string) *http.Request {
	q := req("POST", "x")
	q.Body, q.ContentLength = io.NopCloser(strings.NewReader(body)), -1
	return q
}

func TestBodySizes(t *testing.T) {
	const limit = 1 << 20
	r := newRig(t, nil, func(o *Options) { o.Limits.Body = limit })
	fit := limit - len(big(0))
	for _, n := range []int{0, 100, firstRead - len(big(0)), firstRead, 3 * firstRead, fit} {
		for name, q := range map[string]*http.Request{"declared": req("POST", big(n)), "chunked": chunked(big(n))} {
			if got := r.do(q); got.status != 200 {
				t.Errorf("%d %s: %d", n, name, got.status)
			}
			calls := r.hub.calls()
			if raw := calls[len(calls)-1].Frame.Msg.Raw; string(raw) != big(n) {
				t.Errorf("%d %s: %d bytes came through", n, name, len(raw))
			}
		}
	}
	before := len(r.hub.calls())
	for name, q := range map[string]*http.Request{"declared": req("POST", big(fit+1)), "chunked": chunked(big(fit + 1))} {
		if got := r.do(q); got.status != 413 {
			t.Errorf("%s over the limit: %d", name, got.status)
		}
	}
	if len(r.hub.calls()) != before {
		t.Error("a message over the limit reached the hub")
	}
	if n := r.server.o.Budget.InUse() + r.server.o.Shared.large.InUse(); n != 0 {
		t.Errorf("%d bytes are still taken", n)
	}
}

func TestBudgetOfChunkedBody(t *testing.T) {
	r := newRig(t, nil, func(o *Options) { o.Budget = session.NewBudget(256 << 10); o.Limits.Body = 1 << 20 })
	got := r.do(chunked(big(512 << 10)))
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("%+v", got)
	}
	if n := r.server.o.Budget.InUse(); n != 0 {
		t.Errorf("%d bytes are still taken", n)
	}
	if got := r.post(ping); got.status != 200 {
		t.Errorf("afterwards: %d", got.status)
	}
}

func declare(n int, lines ...string) string {
	return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n", n, strings.Join(append(lines, ""), "\r\n"))
}

// drip sends text, then a byte a second, and reports the reply's status.
func (r *rig) drip(text string, drip byte, status chan<- int) {
	c, err := r.ln.Dial()
	if err != nil {
		status <- 0
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.Close()
	wg.Go(func() {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
		for {
			time.Sleep(time.Second)
			if _, err := c.Write([]byte{drip}); err != nil {
				return
			}
		}
	})
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		status <- 0
		return
	}
	res.Body.Close()
	status <- res.StatusCode
}

func TestSafetyS7_SlowBodies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
			if in.Frame.HTTP.Verb == "GET" {
				s.Send(session.Out{Begin: true})
				time.AfterFunc(time.Minute, func() { s.Send(session.Out{Raw: result("0"), Final: true}) })
				return
			}
			echo(in, s)
		}}
		r := newRig(t, hub, nil)
		stream := r.open(t.Context(), req("GET", ""))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const clients = 1000
		statuses := make(chan int, clients)
		start := time.Now()
		for i := range clients {
			size := 64 << 20
			if i%2 == 0 {
				size = 60 << 10
			}
			go r.drip(declare(size), ' ', statuses)
		}
		time.Sleep(10 * time.Second)
		if got := r.post(ping); got.status != 200 || time.Since(start) > 11*time.Second {
			t.Errorf("a small call beside them: %d after %v", got.status, time.Since(start))
		}
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 128<<20 {
			t.Errorf("%d MiB for 10 bytes a client", grown>>20)
		}
		count := map[int]int{}
		for range clients {
			count[<-statuses]++
		}
		if count[408] < clients/2 || count[408]+count[503] != clients {
			t.Errorf("statuses %v, want 408, and 503 where 64 MiB did not fit", count)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("they were kept for %v", took)
		}
		if body, err := io.ReadAll(stream.Body); err != nil || !strings.HasSuffix(string(body), "data: "+string(result("0"))+"\n\n") {
			t.Errorf("the event stream was hurt: %q %v", body, err)
		}
		if n := r.server.o.Budget.InUse() + r.server.o.Shared.large.InUse(); n != 0 {
			t.Errorf("%d bytes are still taken", n)
		}
	})
}

func TestSlowButSteadyBodyIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		pr, pw := io.Pipe()
		body := big(1 << 20)
		go func() {
			for p := []byte(body); len(p) > 0; p = p[min(len(p), 32<<10):] {
				time.Sleep(time.Second)
				pw.Write(p[:min(len(p), 32<<10)])
			}
			pw.Close()
		}()
		q := req("POST", body)
		q.Body = pr
		if got := r.do(q); got.status != 200 {
			t.Errorf("%+v", got)
		}
		// The deadline of that body must not end a later wait on the connection.
		time.Sleep(time.Minute)
		if got := r.post(ping); got.status != 200 {
			t.Errorf("later: %d", got.status)
		}
	})
}

func TestSafetyS9_FramingAndUpgrade(t *testing.T) {
	t.Run("length and encoding", func(t *testing.T) {
		r := newRig(t, nil, nil)
		second := declare(len(ping)) + ping
		got, br, _ := r.raw(declare(5, "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(ping), ping) + second)
		if got.status != 200 || !got.close {
			t.Errorf("%+v", got)
		}
		if _, err := http.ReadResponse(br, nil); err == nil {
			t.Error("the connection carried a second request")
		}
		if n := len(r.hub.calls()); n != 1 {
			t.Errorf("the hub saw %d requests, want 1", n)
		}
	})
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"h2c upgrade":          {declare(len(ping), "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__") + ping, 200},
		"websocket upgrade":    {declare(len(ping), "Upgrade: websocket", "Connection: Upgrade") + ping, 200},
		"expect, over limit":   {declare(65<<20, "Expect: 100-continue"), 413},
		"over limit":           {declare(65 << 20), 413},
		"expect, wrong type":   {strings.Replace(declare(9, "Expect: 100-continue"), "application/json", "text/plain", 1), 415},
		"expect, bad host":     {strings.Replace(declare(9, "Expect: 100-continue"), "localhost", "evil", 1), 403},
		"two lengths":          {declare(5, "Content-Length: 6") + ping, 400},
		"two encodings":        {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
		"encoding gzip":        {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
		"two hosts":            {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", 400},
		"no host":              {"POST /mcp HTTP/1.1\r\n\r\n", 400},
		"no host, old version": {"POST /mcp HTTP/1.0\r\n\r\n", 403},
		"absolute target":      {"POST http://evil/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", 403},
		"blank before colon":   {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length : 5\r\n\r\n", 400},
		"long header":          {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 200<<10) + "\r\n\r\n", 431},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, nil)
			if got, _, _ := r.raw(tt.text); got.status != tt.want {
				t.Errorf("%d, want %d", got.status, tt.want)
			}
			if n := len(r.hub.calls()); tt.want != 200 && n != 0 {
				t.Errorf("the hub saw %d requests", n)
			}
		})
	}
	t.Run("expect", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, nil, nil)
			first, br, c := r.raw(declare(len(ping), "Expect: 100-continue"))
			if first.status != 100 {
				t.Fatalf("first %d, want 100", first.status)
			}
			go io.WriteString(c, ping)
			res, err := http.ReadResponse(br, nil)
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("%v %v", res, err)
			}
			io.Copy(io.Discard, res.Body)
			// The write bound of the first reply is long past.
			time.Sleep(90 * time.Second)
			c.SetReadDeadline(time.Now().Add(time.Minute))
			go io.WriteString(c, declare(len(ping), "Expect: 100-continue"))
			if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != 100 {
				t.Errorf("second: %v %v", res, err)
			}
		})
	})
}

func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		statuses := make(chan int, 1)
		start := time.Now()
		r.drip(strings.Replace(declare(60<<10), "application/json", "text/plain", 1), ' ', statuses)
		if got := <-statuses; got != 415 || time.Since(start) > 3*time.Second {
			t.Errorf("%d after %v", got, time.Since(start))
		}
	})
}

func TestSafetyS44_ManyBigBodies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, nil)
		const clients = 100
		statuses := make(chan int, clients)
		for range clients {
			go r.drip(declare(64<<20), ' ', statuses)
		}
		synctest.Wait()
		if n := len(statuses); n < 90 {
			t.Errorf("%d refused at once, want nearly all", n)
		}
		for range len(statuses) {
			if got := <-statuses; got != statusOf(translate.CondBusy, translate.Legacy) {
				t.Errorf("status %d", got)
			}
		}
		start := time.Now()
		for range 100 {
			if got := r.post(ping); got.status != 200 {
				t.Fatalf("a small call beside them: %+v", got)
			}
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("small calls waited %v", took)
		}
		if got, _, _ := r.raw(declare(64 << 20)); got.header.Get("Retry-After") == "" {
			t.Errorf("%v", got.header)
		}
	})
}

func TestReservation(t *testing.T) {
	v := reservation{all: session.NewBudget(8 << 20), large: session.NewBudget(6 << 20)}
	w := v
	if !v.grow(1) || !v.grow(7<<20) || v.grow(8<<20) || v.n != 7<<20 {
		t.Errorf("took %d", v.n)
	}
	if w.grow(2<<20) || !w.grow(1<<20) || w.large.InUse() != 6<<20 {
		t.Errorf("a small one beside it took %d", w.n)
	}
	v.release()
	w.release()
	if v.all.InUse()+v.large.InUse() != 0 {
		t.Error("not all was given back")
	}
}

func TestReplyIsOneWrite(t *testing.T) {
	r := newRig(t, nil, nil)
	c, err := r.ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go io.WriteString(c, declare(len(ping))+ping)
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil || !bytes.HasSuffix(buf[:n], result("1")) {
		t.Errorf("%q %v", buf[:n], err)
	}
}
