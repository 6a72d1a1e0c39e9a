package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"testing"
)

// gate stops the next request of some methods at the server.
type gate struct {
	mu      sync.Mutex // protects the fields below
	methods []string
	reached chan struct{}
	open    chan struct{}
	seen    map[string]int // requests by method
}

// close stops the next request of one of methods; open lets it go on.
func (g *gate) close(methods ...string) (reached <-chan struct{}, open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.methods, g.reached, g.open = methods, make(chan struct{}), make(chan struct{})
	o := g.open
	return g.reached, sync.OnceFunc(func() { close(o) })
}

func (g *gate) pass(msg []byte) {
	var m struct{ Method string }
	if json.Unmarshal(msg, &m) != nil || m.Method == "" {
		return
	}
	g.mu.Lock()
	if g.seen == nil {
		g.seen = map[string]int{}
	}
	g.seen[m.Method]++
	if !slices.Contains(g.methods, m.Method) {
		g.mu.Unlock()
		return
	}
	g.methods = nil
	reached, open := g.reached, g.open
	g.mu.Unlock()
	close(reached)
	<-open
}

func (g *gate) times(method string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[method]
}

// crossing cuts the connection once a request of one of methods is at the server,
// and returns the answer to ask. What the proxy can answer by itself is asked until
// it cannot.
func (r *cutRig) crossing(ask string, params map[string]any, methods ...string) lineMessage {
	r.t.Helper()
	reached, open := r.gate.close(methods...)
	defer open()
	for {
		_, answer := r.c.begin(ask, params)
		select {
		case <-reached:
			r.cutter.cut()
			open()
			return r.c.wait(ask, answer)
		case m := <-answer:
			if m.Error != nil {
				r.t.Fatalf("%s: %+v", ask, m.Error)
			}
			r.t.Logf("%s was answered without the server", ask)
		}
	}
}

// TestCut_SentAgain: the connection is cut while the server has a request. One
// that only reads is answered all the same, from the new connection; a call of a
// tool is answered with an error and has run once. A task whose look crosses the
// cut goes on to its end.
func TestCut_SentAgain(t *testing.T) {
	noGoroutineLeft(t)
	cases := []cutCase{
		{clientModern: true, serverModern: true, link: "websocket"},
		{link: "websocket"},
		{serverModern: true, link: "websocket", pin: "modern"},
		{clientModern: true, link: "websocket", pin: "legacy"},
		{clientModern: true, link: "http+sse"},
		{link: "http+sse"},
	}
	for _, k := range cases {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			r := newCutRig(t, k)
			r.works("before")
			r.readsCross()
			r.callsCross()
			r.lookCrosses()
		})
	}
}

func (r *cutRig) readsCross() {
	r.t.Helper()
	before := r.gate.times("tools/list")
	if m := r.crossing("tools/list", nil, "tools/list"); m.Error != nil {
		r.t.Errorf("tools/list: %+v", m.Error)
	}
	if n := r.gate.times("tools/list") - before; n < 2 {
		r.t.Errorf("tools/list reached the server %d times", n)
	}
}

func (r *cutRig) callsCross() {
	r.t.Helper()
	before := r.slow.Load()
	m := r.crossing("tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": 0}}, "tools/call")
	if m.Error == nil || m.Error.Message == "" {
		r.t.Errorf("a call that crossed the cut: %s %+v", m.Result, m.Error)
	}
	r.works("call")
	if n := r.slow.Load() - before; n != 1 {
		r.t.Errorf("the call ran %d times", n)
	}
}

// lookCrosses: a look at a task crosses the cut, the client's own or one of the
// proxy's for a client that waits.
func (r *cutRig) lookCrosses() {
	r.t.Helper()
	var created struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	r.c.must("tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 1, "label": "x"}, "task": map[string]any{}}, &created)
	id := created.TaskID + created.Task.TaskID
	method := "tasks/get"
	if !r.c.modern {
		method = "tasks/result"
	}
	m := r.crossing(method, map[string]any{"taskId": id}, "tasks/get", "tasks/result")
	if m.Error != nil {
		r.t.Fatalf("%s: %+v", method, m.Error)
	}
	if method == "tasks/result" {
		if !bytes.Contains(m.Result, []byte("content")) {
			r.t.Errorf("the result is %s", m.Result)
		}
		return
	}
	var task struct{ Status string }
	eventually(r.t, "the task ends", func() bool {
		r.c.must("tasks/get", map[string]any{"taskId": id}, &task)
		return task.Status != "working"
	})
	if task.Status != "completed" {
		r.t.Errorf("the task is %s", task.Status)
	}
}
