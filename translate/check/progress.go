package check

import (
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// token remembers a request's progress token.
func (c *Checker) token(ev *event) {
	v := ev.m.At("params", "_meta", translate.MetaProgress)
	if !v.Exists() || ev.lane.shared && ev.st == nil {
		return
	}
	ev.req.token = idHash(v)
	if ev.lane.shared {
		return // found by its stream
	}
	key := tokenKey{ev.lane.n, ev.r.Dir, ev.req.token}
	if before, ok := c.tokens.Get(key); ok && c.active(before) {
		c.findSee(ev, before.line, "progress/token-reused", "token %s is that of a request in flight", clip(string(v.Raw())))
	}
	c.tokens.Add(key, ev.req)
}

// active: the request, or the task it became, has not ended.
func (c *Checker) active(r *request) bool {
	return r.answered == 0 || r.task != nil && r.task.terminal == 0 && !r.modern
}

// progress looks at one progress notification.
func (c *Checker) progress(ev *event) {
	v := ev.m.Params().Get("progressToken")
	if !v.Exists() {
		return
	}
	if ev.st != nil && ev.by == byServer && ev.st.req != nil && ev.st.req.listen != nil {
		return // listen/request-scoped
	}
	req := c.reported(ev, v)
	if req == nil {
		return
	}
	c.ended(ev, req, v)
	n, ok := ev.m.Params().Get("progress").Float()
	switch {
	case !ok || len(ev.r.Redacted) > 0:
	case ev.st.again(req.token, n, req.moved && n <= req.progress):
	case req.moved && n <= req.progress:
		c.find(ev, "progress/not-rising", "%s after %v for token %s", clip(string(ev.m.Params().Get("progress").Raw())), req.progress, clip(string(v.Raw())))
	default:
		req.moved, req.progress = true, n
	}
	c.relatedProgress(ev, req)
}

// again: what a stream that is resumed tells was told before, which it tells in
// the same order (2025-11-25 basic/transports, Resumability and Redelivery).
func (st *stream) again(token uint64, n float64, before bool) bool {
	if st == nil || !st.resumes {
		return false
	}
	falls := st.moved && st.token == token && n <= st.progress
	st.moved, st.token, st.progress = true, token, n
	return before && !falls
}

// reported is the request a notification is about.
func (c *Checker) reported(ev *event, v jsonrpc.Value) *request {
	dir := translate.ToServer
	if ev.by == byClient {
		dir = translate.ToClient
	}
	id := idHash(v)
	if ev.st != nil && ev.by == byServer && ev.st.req != nil && ev.st.req.token == id {
		return ev.st.req
	}
	if ev.lane.shared {
		if ev.modern && ev.st != nil && ev.st.req != nil {
			c.find(ev, "progress/unknown-token", "token %s is not that of the request", clip(string(v.Raw())))
		}
		return nil
	}
	req, ok := c.tokens.Get(tokenKey{ev.lane.n, dir, id})
	if !ok {
		if !c.tokens.forgot {
			c.find(ev, "progress/unknown-token", "no request has the token %s", clip(string(v.Raw())))
		}
		return nil
	}
	return req
}

// ended: nothing is reported of what is over. Streams of one session have no
// order among them, so over HTTP only the request's own tells.
func (c *Checker) ended(ev *event, req *request, v jsonrpc.Value) {
	if req.answered == 0 || !ev.lane.conn && hash(ev.r.Stream) != req.stream {
		return
	}
	switch {
	case req.task == nil:
		c.findSee(ev, req.answered, "progress/after-end", "the request of token %s was answered", clip(string(v.Raw())))
	case req.modern:
		c.findSee(ev, req.answered, "progress/on-task", "the request of token %s became a task", clip(string(v.Raw())))
	case req.task.terminal > 0 && ev.lane.conn:
		c.findSee(ev, req.task.terminal, "progress/after-end", "the task of token %s has ended", clip(string(v.Raw())))
	}
}
