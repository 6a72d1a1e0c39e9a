package replay

import (
	"context"
	"slices"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// cancels does what the recorded client did to end its call early, at the place
// where it did: after as many questions, notices and answers.
func (d *drive) cancels(first *exchange, stop context.CancelFunc) {
	did := false
	for i, p := range d.op.Parts {
		if p.Role != operation.RoleCancel || p.Record.Dir != translate.ToServer {
			continue
		}
		did = true
		after, last := d.before(i)
		gap := p.Record.Time.Sub(last)
		d.wg.Go(func() {
			reached := d.waitSigns(d.ctx, after, d.r.o.Timeout/2)
			if !reached && (p.Msg == nil || p.Msg.Method != "tasks/cancel" || d.taskEnded()) {
				return // there is nothing to cancel any more
			}
			if wait(d.ctx, d.r.pause(gap)) {
				d.cancel(i, stop)
			}
		})
	}
	if !did && d.op.Outcome == operation.Cancelled && d.op.Era == translate.Modern && d.op.Kind != operation.Task {
		// Closing the stream was the cancel, which no record need tell of
		// (2026-07-28 basic/patterns/cancellation).
		d.wg.Go(func() {
			if wait(d.ctx, d.r.pause(d.op.Ended.Sub(d.op.Began))) {
				stop()
			}
		})
	}
}

// before is what had been heard when part i was sent, and when the last of it.
// What came on the session's own stream is heard there again, if at all.
func (d *drive) before(i int) (signs, time.Time) {
	var s signs
	last := d.op.Began
	own := map[string]bool{}
	for _, p := range d.op.Parts[:i] {
		if p.Record.Dir == translate.ToServer {
			own[p.Record.Stream] = true
		}
		if p.Record.Dir != translate.ToClient || p.Msg == nil {
			continue
		}
		last = p.Record.Time
		if !own[p.Record.Stream] {
			continue
		}
		switch p.Msg.Kind {
		case jsonrpc.Request:
			s.asks++
		case jsonrpc.Notification:
			s.notices++
		default:
			status, _ := p.Msg.Result().Get("status").Str()
			s.ended = s.ended || translate.Terminal(status)
			if s.replies == 0 {
				s.replies = 1 // polls are as many as they are
			}
		}
	}
	return s, last
}

// cancel sends part i, a cancel.
func (d *drive) cancel(i int, stop context.CancelFunc) {
	p := d.op.Parts[i]
	if p.Msg == nil {
		stop()
		return
	}
	call := p.Msg.Method == "notifications/cancelled"
	// A cancelled call may never be answered, and who cancelled it need not
	// listen any more (2025-11-25 basic/utilities/cancellation).
	heard := slices.ContainsFunc(d.op.Parts[i:], func(q operation.Part) bool { return q.Role == operation.RoleReply && q.To == p.To })
	if call && !heard {
		stop()
	}
	e := d.post(d.rewritten(p), p.Record)
	e.read()
	if call {
		wait(d.ctx, cancelledWithin)
		stop()
		return
	}
	if e.reply != nil && e.reply.Kind == jsonrpc.Response && !d.looksOn() {
		d.mu.Lock()
		d.left = true
		d.mu.Unlock()
	}
}

// cancelledWithin is how long the answer to a cancelled call is waited for.
const cancelledWithin = time.Second

// taskEnded: the server has said so.
func (d *drive) taskEnded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.signs.ended
}

// gone: the task was cancelled, and the recorded client did not look at it
// again.
func (d *drive) gone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left
}

// looksOn: the recorded client looked at the task after it had cancelled it.
func (d *drive) looksOn() bool {
	cancelled := false
	for _, p := range d.op.Parts {
		cancelled = cancelled || p.Role == operation.RoleCancel
		if cancelled && p.Role == operation.RolePoll && p.Record.Dir == translate.ToServer {
			return true
		}
	}
	return false
}
