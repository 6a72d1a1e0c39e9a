package downstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

func TestNewRefuses(t *testing.T) {
	for _, o := range []Options{{}, {Hub: &fakeHub{}, Path: "mcp"}, {Hub: &fakeHub{}, Path: "/mcp?x"}, {Hub: &fakeHub{}, AllowedOrigins: []string{"*"}}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// drainHub answers tools/list after five seconds, begins GET and listen and
// never answers anything else.
func drainHub() *fakeHub {
	return &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
		msg := in.Frame.Msg
		switch {
		case msg == nil || msg.Method == "subscriptions/listen":
			s.Send(session.Out{Begin: true})
		case msg.Method == "tools/list":
			time.AfterFunc(5*time.Second, func() { echo(in, s) })
		case msg.Method == "tools/call":
			s.Send(session.Out{Raw: []byte(progress)})
		case msg.Method == "" || msg.ID.IsZero():
			echo(in, s)
		}
	}}
}

const modernCall = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t",` + modernMeta + `}}`

var modernCallLines = []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: t"}

// start sends q and gives its whole reply later.
func (r *rig) start(q *http.Request) <-chan reply {
	out := make(chan reply, 1)
	go func() { out <- r.do(q) }()
	return out
}

func TestShutdownEndsStreamsAndAwaitsCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, drainHub(), nil)
		get := r.start(req("GET", ""))
		lis := r.start(req("POST", listen, listenLines...))
		call := r.start(req("POST", `{"jsonrpc":"2.0","id":4,"method":"tools/list"}`))
		synctest.Wait()
		if !r.server.Ready() {
			t.Error("not ready")
		}
		start := time.Now()
		down := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			down <- r.server.Shutdown(ctx)
		}()
		synctest.Wait()
		if r.server.Ready() {
			t.Error("still ready")
		}
		if got := <-get; got.status != 200 || got.body != ": \n\n" {
			t.Errorf("GET: %+v", got)
		}
		want := `: ` + "\n\n" + `data: {"jsonrpc":"2.0","id":"l","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}` + "\n\n"
		if got := <-lis; got.body != want {
			t.Errorf("listen: %q", got.body)
		}
		// Answers and cancels are taken, new work is not.
		if got := r.post(`{"jsonrpc":"2.0","id":1,"result":{}}`); got.status != 202 {
			t.Errorf("an answer: %d", got.status)
		}
		for _, q := range []*http.Request{req("POST", ping), req("GET", ""), req("POST", batchBody)} {
			if got := r.do(q); got.status != statusOf(translate.CondDraining, translate.Legacy) || got.header.Get("Retry-After") == "" || !got.close {
				t.Errorf("new work: %+v", got)
			}
		}
		if got := <-call; got.status != 200 || !strings.Contains(got.body, string(result("4"))) {
			t.Errorf("call: %+v", got)
		}
		if err := <-down; err != nil || time.Since(start) > 6*time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(start))
		}
		if _, err := r.ln.Dial(); err == nil {
			t.Error("still listening")
		}
	})
}

// TestShutdownAwaitsHandingOver: the hub may answer long after the server
// began to work for a call, and may itself take its time to return.
func TestShutdownAwaitsHandingOver(t *testing.T) {
	for _, body := range []string{ping, batchBody} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
				time.Sleep(5 * time.Second)
				echo(in, s)
			}}, nil)
			call := r.start(req("POST", body))
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := r.server.Shutdown(ctx); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			if got := <-call; got.status != 200 || !strings.Contains(got.body, string(result("1"))) {
				t.Errorf("call: %+v", got)
			}
		})
	}
}

func TestShutdownAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, drainHub(), nil)
		plain := r.start(req("POST", ping))
		modern := r.start(req("POST", modernCall, modernCallLines...))
		legacy := r.start(req("POST", `{"jsonrpc":"2.0","id":3,"method":"tools/call"}`))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if got := <-plain; got.status != 503 || !strings.Contains(got.body, `"id":1`) {
			t.Errorf("nothing sent yet: %+v", got)
		}
		if got := <-modern; !strings.Contains(got.body, `"id":2,"error":{"code":-32603`) {
			t.Errorf("modern: %q", got.body)
		}
		if got := <-legacy; got.body != "data: "+progress+"\n\n" {
			t.Errorf("legacy: %q", got.body)
		}
		if r.hub.left() != 3 {
			t.Error("the hub was not told")
		}
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, err := New(Options{Hub: &fakeHub{on: silent}, Loopback: true})
		if err != nil {
			t.Fatal(err)
		}
		ln := newMemListener()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, ln) }()
		c, err := ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		go io.WriteString(c, declare(len(ping))+ping)
		synctest.Wait()
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
	})
}

type countMetrics struct {
	requests, refused, streams, most int
}

func (c *countMetrics) Request(translate.Era, string, int, time.Duration) { c.requests++ }
func (c *countMetrics) Limited(string)                                    {}
func (c *countMetrics) Refused(translate.Cond)                            { c.refused++ }
func (c *countMetrics) Streams(d int) {
	c.streams += d
	c.most = max(c.most, c.streams)
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := &countMetrics{}
		r := newRig(t, nil, func(o *Options) { o.Metrics = m })
		r.post(ping)
		r.post(ping, "Accept: text/event-stream")
		r.post(`{`)
		r.do(req("GET", "", "Host: evil"))
		synctest.Wait()
		if m.requests != 4 || m.refused != 2 || m.streams != 0 || m.most != 1 {
			t.Errorf("%+v", m)
		}
	})
}
