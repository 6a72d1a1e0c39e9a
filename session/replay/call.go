package replay

import (
	"context"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// Bounds of what is done for one call.
const (
	maxRounds = 64
	// Polling: as the proxy's own (missing: 1 s), and never faster than this.
	defaultPoll = time.Second
	fastestPoll = 20 * time.Millisecond
	slowestPoll = 10 * time.Second
	// statePause stands before a round that brings nothing but a state.
	statePause = 100 * time.Millisecond
)

// call sends a request and follows it to its end, in as many rounds, polls and
// answers as the server wants now.
func (d *drive) call() {
	first := d.op.First()
	ctx, stop := context.WithCancel(d.ctx)
	defer stop()
	e := &exchange{c: d.c, d: d, ctx: ctx}
	d.cancels(e, stop)
	e.send(d.rewritten(first), first.Record)
	e.read()
	for round := 1; e.reply != nil && round < maxRounds; round++ {
		result := e.reply.Result()
		if !result.Get("resultType").Is("input_required") {
			break
		}
		raw, ok := d.retry(e.reply, round)
		if !ok {
			return
		}
		e = &exchange{c: d.c, d: d, ctx: ctx}
		e.send(raw, d.roundModel(round))
		e.read()
	}
	if e.reply == nil {
		return
	}
	task := translate.TaskOf(e.reply.Result())
	id, ok := task.Get("taskId").Str()
	if !ok {
		return
	}
	d.r.ids.put(d.op.TaskID, id)
	if d.op.Era == translate.Modern {
		d.followModern(id, task)
	} else {
		d.followLegacy(id, task)
	}
}

// retry is the next round of an exchange: the same request with what it asks
// for and its state (2026-07-28 basic/patterns/mrtr).
func (d *drive) retry(asked *jsonrpc.Message, round int) ([]byte, bool) {
	responses, n := jsonrpc.NewObject(), 0
	for key, entry := range asked.Result().Get("inputRequests").Members() {
		answer, ok := d.answer(entry)
		if !ok {
			return nil, false
		}
		responses.Raw(key, answer)
		n++
	}
	if n == 0 && !wait(d.ctx, statePause) {
		return nil, false
	}
	rounds := d.parts(operation.RoleRequest, d.op.Method)
	base := rounds[min(round, len(rounds)-1)]
	e := d.r.ids.edits(d.ctx, base.Msg, base.Msg.Method)
	params := base.Msg.Params()
	if n > 0 {
		e.Set(params, "inputResponses", responses.Bytes())
	} else {
		e.Delete(params.Get("inputResponses"))
	}
	if state := asked.Result().Get("requestState"); state.Exists() {
		e.Set(params, "requestState", state.Raw())
	} else {
		e.Delete(params.Get("requestState"))
	}
	if round >= len(rounds) {
		e.Replace(base.Msg.At("id"), d.freshID().Raw())
	}
	return e.Bytes(), true
}

func (d *drive) roundModel(round int) *capture.Record {
	rounds := d.parts(operation.RoleRequest, d.op.Method)
	return rounds[min(round, len(rounds)-1)].Record
}

// answer is the recorded answer to an entry of inputRequests; false: the
// recorded client gave none, or there is no way to say so.
func (d *drive) answer(entry jsonrpc.Value) ([]byte, bool) {
	method, _ := entry.Get("method").Str()
	q := d.c.answers.take(d.op.N, method, entry.Get("params"))
	if q == nil {
		d.note("the server asked %s, to which the capture holds no answer", method)
		raw := refusal(method)
		return raw, raw != nil
	}
	if q.Answer == nil {
		return nil, false
	}
	return q.Answer, wait(d.ctx, d.r.thinking(q))
}

// interval is how long to wait before the next poll (missing: 1 s).
func interval(task jsonrpc.Value) time.Duration {
	for _, key := range []string{"pollIntervalMs", "pollInterval"} {
		if ms, ok := translate.Milliseconds(task.Get(key)); ok {
			return min(max(time.Duration(ms)*time.Millisecond, fastestPoll), slowestPoll)
		}
	}
	return defaultPoll
}

// taskRequest is one about the operation's task: as the recorded client sent
// its own, with their ids as long as there are some, else as this one would
// have.
func (d *drive) taskRequest(method, id string, role operation.Role, extra ...[2]string) ([]byte, *capture.Record) {
	if parts := d.parts(role, method); len(parts) > 0 && len(extra) == 0 {
		n := d.said(method)
		p := parts[min(n, len(parts)-1)]
		e := d.r.ids.edits(d.ctx, p.Msg, method)
		if n >= len(parts) {
			e.Replace(p.Msg.At("id"), d.freshID().Raw())
		}
		return e.Bytes(), p.Record
	}
	params := jsonrpc.NewObject().Str("taskId", id)
	for _, x := range extra {
		params.Raw(x[0], []byte(x[1]))
	}
	if meta := d.op.First().Msg.Params().Get("_meta"); d.op.Era == translate.Modern && meta.Type() == jsonrpc.Object {
		e := meta.Edit()
		e.Delete(meta.Get(translate.MetaProgress))
		params.Raw("_meta", e.Bytes())
	}
	return jsonrpc.NewRequest(d.freshID(), method, params.Bytes()), d.own()
}

// said counts the requests of a method about the task.
func (d *drive) said(method string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sent == nil {
		d.sent = map[string]int{}
	}
	d.sent[method]++
	return d.sent[method] - 1
}

// ask sends a request about the task and waits for its answer.
func (d *drive) ask(method, id string, role operation.Role, extra ...[2]string) *exchange {
	raw, model := d.taskRequest(method, id, role, extra...)
	e := d.post(raw, model)
	e.read()
	return e
}

// followModern polls a task to its end and answers what it asks (2026-07-28
// tasks extension, Polling, Input Requests).
func (d *drive) followModern(id string, task jsonrpc.Value) {
	answered := map[string]bool{}
	for {
		if !wait(d.ctx, interval(task)) || d.gone() {
			return
		}
		e := d.ask("tasks/get", id, operation.RolePoll)
		if e.reply == nil || e.reply.Kind == jsonrpc.ErrorResponse {
			return
		}
		task = e.reply.Result()
		if status, _ := task.Get("status").Str(); translate.Terminal(status) {
			return
		}
		responses, n := jsonrpc.NewObject(), 0
		for key, entry := range task.Get("inputRequests").Members() {
			if answered[key] {
				continue
			}
			answered[key] = true
			if answer, ok := d.answer(entry); ok {
				responses.Raw(key, answer)
				n++
			}
		}
		if n > 0 {
			d.ask("tasks/update", id, operation.RoleUpdate, [2]string{"inputResponses", string(responses.Bytes())})
		}
	}
}

// followLegacy polls a task and fetches its result as the recorded client did;
// its questions come on the stream of tasks/result (2025-11-25
// basic/utilities/tasks).
func (d *drive) followLegacy(id string, task jsonrpc.Value) {
	f := d.legacyHabits()
	f.id = id
	if f.early {
		f.fetch()
	}
	for !f.over {
		select {
		case <-f.fetched:
			f.over = true
			if !f.sawEnd || f.shownEnd {
				continue
			}
		default:
			if !f.polls {
				f.fetch()
				f.waitFetched()
				continue
			}
			if !f.pause(interval(task)) {
				return
			}
			if d.gone() {
				f.over = true
				continue
			}
		}
		e := d.ask("tasks/get", id, operation.RolePoll)
		if e.reply == nil || e.reply.Kind == jsonrpc.ErrorResponse {
			break
		}
		task = e.reply.Result()
		f.polled(task)
	}
	if f.open {
		f.waitFetched()
	}
}

// legacyFollow is one task that is followed.
type legacyFollow struct {
	d  *drive
	id string
	// What the recorded client did: it polled, it saw the end by a poll, it asked
	// for the result before, and how often.
	polls, sawEnd, early bool
	fetches              int

	open, over, shownEnd bool
	fetched              chan struct{}
}

func (d *drive) legacyHabits() *legacyFollow {
	f := &legacyFollow{d: d, fetched: make(chan struct{})}
	for _, p := range d.op.Parts {
		if p.Msg == nil {
			continue
		}
		switch {
		case p.Role == operation.RolePoll && p.Msg.Method == "tasks/get":
			f.polls = true
		case p.Role == operation.RolePoll && p.Msg.Method == "tasks/result":
			f.early = f.early || !f.sawEnd
			f.fetches++
		case p.Role == operation.RoleReply && p.To >= 0 && d.op.Parts[p.To].Msg != nil && d.op.Parts[p.To].Msg.Method == "tasks/get":
			status, _ := p.Msg.Result().Get("status").Str()
			f.sawEnd = f.sawEnd || translate.Terminal(status)
		}
	}
	return f
}

// fetch opens tasks/result, once; again where the recorded client did, too, and
// the first came to nothing.
func (f *legacyFollow) fetch() {
	if f.open || f.fetches == 0 {
		return
	}
	f.open = true
	f.d.wg.Go(func() {
		defer close(f.fetched)
		for range f.fetches {
			if e := f.d.ask("tasks/result", f.id, operation.RolePoll); e.reply != nil {
				return
			}
		}
	})
}

func (f *legacyFollow) waitFetched() {
	f.over = true
	if !f.open {
		return
	}
	select {
	case <-f.fetched:
	case <-f.d.ctx.Done():
	}
}

// pause waits for the next poll, or until the result is there.
func (f *legacyFollow) pause(interval time.Duration) bool {
	t := time.NewTimer(interval)
	defer t.Stop()
	select {
	case <-t.C:
	case <-f.fetched:
	case <-f.d.ctx.Done():
		return false
	}
	return true
}

func (f *legacyFollow) polled(task jsonrpc.Value) {
	status, _ := task.Get("status").Str()
	switch {
	case translate.Terminal(status):
		f.shownEnd, f.over = true, true
		f.fetch()
	case status == "input_required":
		f.fetch()
	}
}
