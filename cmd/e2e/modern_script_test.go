package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session"
	"taskbridge/translate"
)

// answerBox collects the client's answers to a scripted legacy server's own
// requests.
type answerBox struct {
	mu  sync.Mutex // protects all
	all map[string]json.RawMessage
	n   atomic.Int32
}

// take keeps a message if it is an answer.
func (b *answerBox) take(c *scriptCall) bool {
	if c.Method != "" || c.ID == nil {
		return false
	}
	b.mu.Lock()
	if b.all == nil {
		b.all = map[string]json.RawMessage{}
	}
	b.all[string(c.ID)] = c.Body
	b.mu.Unlock()
	b.n.Add(1)
	c.W.WriteHeader(202)
	return true
}

func (b *answerBox) of(id string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.all[id])
}

// wait holds the exchange until there are n answers.
func (b *answerBox) wait(c *scriptCall, n int32) bool {
	for b.n.Load() < n {
		if c.R.Context().Err() != nil {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

const relatedT1 = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}`

// elicitation is a question of a legacy server.
func elicitation(id int, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"mode":"form","message":"Question %d?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}%s}}`, id, id, more)
}

func scriptedPlay(t *testing.T, s *scripted, policy session.Policy) *cellPlay {
	b := newBridge(t, s.URL, bridgeOptions{Policy: policy})
	p := &cellPlay{ctx: testContext(t), t: t, url: b.URL, store: b.Store}
	p.c = &peers.ModernClient{URL: p.url, Tasks: true}
	t.Cleanup(func() { p.c.Close() })
	return p
}

// stored says whether the bridge keeps a call whose state holds holds.
func (p *cellPlay) stored(holds func(state string) bool) bool {
	list, err := p.store.List(p.ctx, "op/mcall:", "", 10)
	return err == nil && slices.ContainsFunc(list, func(e session.Entry) bool { return holds(string(e.Value)) })
}

// endings are how a legacy task may end with a result: for a modern client it
// is completed, whatever word the server used.
var endings = []struct {
	name, word, result string
	isError            bool
}{
	{"completed with isError", "completed", `{"isError":true,"content":[{"type":"text","text":"broke"}]}`, true},
	{"failed with isError", "failed", `{"isError":true,"content":[{"type":"text","text":"broke"}]}`, true},
	{"failed without isError", "failed", `{"content":[{"type":"text","text":"odd"}]}`, false},
}

func TestModernCells_Script(t *testing.T) {
	t.Run("a server that never says input_required", func(t *testing.T) {
		// Its status stays working; the question comes on tasks/result.
		var box answerBox
		s := newTaskServer(t, translate.Legacy)
		s.result = `{"content":[{"type":"text","text":"done"}],` + relatedT1 + `}`
		inner := s.Script
		s.Script = func(c *scriptCall) bool {
			if c.Method == "tasks/result" {
				c.Begin()
				if box.n.Load() == 0 {
					c.Events(elicitation(7, ","+relatedT1))
				}
				if box.wait(c, 1) {
					s.set("completed")
					c.Events(c.Reply(s.result))
				}
				return true
			}
			return box.take(c) || inner(c)
		}
		p := scriptedPlay(t, s.scripted, session.Policy{})
		run, err := p.c.RunTask(p.ctx, "job", nil, peers.Accept(map[string]any{"name": "Ada"}))
		if err != nil || run.Status() != "completed" || len(run.Questions) != 1 || run.Text() != "done" {
			t.Fatalf("%v %+v", err, run)
		}
		if strings.Contains(string(run.Questions[0]), "related-task") {
			t.Errorf("asked %s", run.Questions[0])
		}
		if got := box.of("7"); !strings.Contains(got, `"taskId":"t1"`) || !strings.Contains(got, `"Ada"`) {
			t.Errorf("answer %s", got)
		}
	})
	for _, c := range endings {
		t.Run(c.name, func(t *testing.T) {
			s := newTaskServer(t, translate.Legacy)
			s.result = c.result
			p := scriptedPlay(t, s.scripted, session.Policy{})
			id := p.create("job", nil)
			s.set(c.word)
			v := p.until(id, "completed")
			if v.Result.IsError != c.isError || v.Result.ResultType != "complete" || v.Error != nil {
				t.Errorf("%+v", v)
			}
		})
	}
	t.Run("completed but its result is an error", func(t *testing.T) {
		s := newTaskServer(t, translate.Legacy)
		inner := s.Script
		s.Script = func(c *scriptCall) bool {
			if c.Method == "tasks/result" {
				c.Error(-32603, "has no result stored")
				return true
			}
			return inner(c)
		}
		p := scriptedPlay(t, s.scripted, session.Policy{})
		id := p.create("job", nil)
		s.set("completed")
		if v := p.until(id, "failed"); v.Error == nil || v.Error.Code != -32603 {
			t.Errorf("%+v", v)
		}
	})
	t.Run("a handle resolves before the server knows its task", func(t *testing.T) {
		s := newTaskServer(t, translate.Legacy)
		s.result = `{"content":[{"type":"text","text":"done"}]}`
		var early atomic.Int32
		inner := s.Script
		s.Script = func(c *scriptCall) bool {
			if strings.HasPrefix(c.Method, "tasks/") && early.Add(1) <= 3 {
				c.Error(-32602, "Task not found")
				return true
			}
			return inner(c)
		}
		p := scriptedPlay(t, s.scripted, session.Policy{RetryAfter: 50 * time.Millisecond})
		id := p.create("job", nil)
		for range 3 {
			time.Sleep(120 * time.Millisecond)
			if v := p.get(id); v.Status != "working" {
				t.Fatalf("%+v", v)
			}
		}
		s.set("completed")
		p.until(id, "completed")
	})
	t.Run("a server that does not wait in tasks/result", func(t *testing.T) {
		s := newTaskServer(t, translate.Legacy)
		s.result = `{"content":[{"type":"text","text":"done"}]}`
		inner := s.Script
		s.Script = func(c *scriptCall) bool {
			if c.Method == "tasks/result" && *s.status.Load() == "working" {
				s.results.Add(1)
				c.Error(-32600, "Task is not ready")
				return true
			}
			return inner(c)
		}
		p := scriptedPlay(t, s.scripted, session.Policy{})
		start := time.Now()
		id := p.create("job", nil)
		for range 5 {
			time.Sleep(50 * time.Millisecond)
			if v := p.get(id); v.Status != "working" {
				t.Fatalf("%+v", v)
			}
		}
		if n, d := s.results.Load(), time.Since(start); n > 2+int32(d/time.Second) { // Policy.RetryAfter
			t.Errorf("tasks/result was asked %d times in %v", n, d)
		}
		s.set("completed")
		if v := p.until(id, "completed"); len(v.Result.Content) != 1 {
			t.Errorf("%+v", v)
		}
	})
	t.Run("two questions in one plain call", func(t *testing.T) {
		var box answerBox
		s := newScripted(t, translate.Legacy, nil)
		s.Script = func(c *scriptCall) bool {
			if c.Tool == "ok" {
				c.Begin()
				c.Events(elicitation(1, ""), elicitation(2, ""))
				if box.wait(c, 2) {
					c.Events(c.Reply(c.text("both")))
				}
				return true
			}
			return box.take(c)
		}
		p := scriptedPlay(t, s, session.Policy{})
		a := p.asks("ok", nil)
		rounds := 0
		for {
			rounds++
			one := map[string]any{}
			for key := range a.InputRequests {
				one[key] = yes
				break
			}
			r := p.call("ok", nil, "requestState", a.RequestState, "inputResponses", one)
			if r.Text() == "both" {
				break
			}
			a = required(t, r)
		}
		if rounds != 2 || s.Ran("ok") != 1 || box.of("1") == "" || box.of("2") == "" {
			t.Errorf("%d rounds, ran %d times", rounds, s.Ran("ok"))
		}
	})
	t.Run("an answer while the call is parked", func(t *testing.T) {
		// The server gives up its question and answers; the retry gets that.
		parked := make(chan struct{})
		s := newScripted(t, translate.Legacy, tools(map[string]func(c *scriptCall){"ok": func(c *scriptCall) {
			c.Begin()
			c.Events(elicitation(1, ""))
			<-parked
			c.Events(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, c.Reply(c.text("never mind")))
		}}))
		p := scriptedPlay(t, s, session.Policy{})
		a := p.asks("ok", nil)
		close(parked)
		eventually(t, "the proxy has the answer", func() bool {
			return p.stored(func(state string) bool {
				return strings.Contains(state, `"Parked":true`) && !strings.Contains(state, `"u":{`)
			})
		})
		if r := p.call("ok", nil, "requestState", a.RequestState, "inputResponses", a.answers()); r.Text() != "never mind" {
			t.Errorf("%s", r.Raw)
		}
		if s.Ran("ok") != 1 {
			t.Errorf("ran %d times", s.Ran("ok"))
		}
	})
	t.Run("a question in prompts/get and resources/read", func(t *testing.T) {
		var box answerBox
		s := newScripted(t, translate.Legacy, nil)
		s.Script = func(c *scriptCall) bool {
			switch c.Method {
			case "prompts/get", "resources/read":
				want := box.n.Load() + 1
				c.Begin()
				c.Events(elicitation(int(want), ""))
				if box.wait(c, want) {
					c.Events(c.Reply(map[string]string{
						"prompts/get":    `{"messages":[{"role":"user","content":{"type":"text","text":"p"}}]}`,
						"resources/read": `{"contents":[{"uri":"r://1","text":"r"}]}`,
					}[c.Method]))
				}
				return true
			}
			return box.take(c)
		}
		p := scriptedPlay(t, s, session.Policy{})
		for method, params := range map[string]map[string]any{"prompts/get": {"name": "p"}, "resources/read": {"uri": "r://1"}} {
			r, err := p.c.Call(p.ctx, method, params)
			if err != nil {
				t.Fatal(err)
			}
			a := required(t, r)
			params["requestState"], params["inputResponses"] = a.RequestState, a.answers()
			if r, err = p.c.Call(p.ctx, method, params); err != nil || r.Err() != nil || len(s.Requests(method)) != 1 {
				t.Errorf("%s: %v %s, asked %d times", method, err, r.Raw, len(s.Requests(method)))
			}
		}
	})
	t.Run("a question in a list", func(t *testing.T) {
		// It cannot be asked there, so the server hears an error.
		var box answerBox
		s := newScripted(t, translate.Legacy, nil)
		s.Script = func(c *scriptCall) bool {
			if c.Method == "prompts/list" {
				c.Begin()
				c.Events(elicitation(1, ""))
				if box.wait(c, 1) {
					c.Events(c.Reply(`{"prompts":[]}`))
				}
				return true
			}
			return box.take(c)
		}
		p := scriptedPlay(t, s, session.Policy{})
		r, err := p.c.Call(p.ctx, "prompts/list", map[string]any{})
		if err != nil || r.Err() != nil || !strings.Contains(box.of("1"), `"error"`) {
			t.Errorf("%v %s, answered %s", err, r.Raw, box.of("1"))
		}
	})
	t.Run("a stream dropped before the task is made", func(t *testing.T) {
		// Its handle is awaited, then cancelled.
		s := newTaskServer(t, translate.Legacy)
		inner := s.Script
		dropped := make(chan struct{})
		s.Script = func(c *scriptCall) bool {
			if c.Method == "tools/call" {
				<-dropped
			}
			return inner(c)
		}
		p := scriptedPlay(t, s.scripted, session.Policy{})
		ctx, leave := context.WithCancel(p.ctx)
		go func() {
			eventually(t, "the call runs", func() bool { return s.Ran("job") == 1 })
			leave()
		}()
		if _, err := p.c.Call(ctx, "tools/call", map[string]any{"name": "job", "arguments": map[string]any{}}); err == nil {
			t.Error("the call was answered before its stream was dropped")
		}
		eventually(t, "the proxy knows", func() bool {
			return p.stored(func(state string) bool { return strings.Contains(state, `"Gone":true`) })
		})
		close(dropped)
		eventually(t, "the task is cancelled", func() bool { return s.cancels.Load() == 1 })
		if n := len(s.Requests("notifications/cancelled")); n != 0 {
			t.Errorf("%d cancel notifications for a call sent as a task", n)
		}
	})
	t.Run("a result that is lost on its way", func(t *testing.T) {
		// The first tasks/result breaks: the task stays working till one holds.
		s := newTaskServer(t, translate.Legacy)
		s.result = `{"content":[{"type":"text","text":"done"}]}`
		var tries atomic.Int32
		inner := s.Script
		s.Script = func(c *scriptCall) bool {
			if c.Method == "tasks/result" && tries.Add(1) <= 2 {
				c.Cut("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
				return true
			}
			return inner(c)
		}
		p := scriptedPlay(t, s.scripted, session.Policy{RetryAfter: 50 * time.Millisecond})
		id := p.create("job", nil)
		s.set("completed")
		if v := p.until(id, "completed"); len(v.Result.Content) != 1 || s.Ran("job") != 1 {
			t.Errorf("%+v", v)
		}
	})
}
