package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// held finishes work begun before a reload, and puts down what came of it.
type held func(ctx context.Context)

// hold begins one of each kind of work on every route.
func (r *rehearsal) hold() map[string][]held {
	var wg sync.WaitGroup
	var mu sync.Mutex // protects all
	all := map[string][]held{}
	for _, route := range rehearsalRoutes {
		begins := []func(context.Context, string, string) (held, error){r.holdSession, r.holdTask, r.holdQuestion}
		if route != "mixed" { // whose legacy server ends a session's tasks with it
			begins = append(begins, r.holdOrphan)
		}
		for _, begin := range begins {
			r.names++
			name := fmt.Sprintf("held-%s-%d", route, r.names)
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(r.ctx, rehearsalPatience)
				defer cancel()
				h, err := begin(ctx, name, r.fleet.url(route))
				if err != nil {
					r.ledger.fail("%s: %v", name, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				all[route] = append(all[route], h)
			})
		}
	}
	wg.Wait()
	return all
}

// finish finishes what was held.
func (r *rehearsal) finish(all []held) {
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(r.ctx, rehearsalPatience)
			defer cancel()
			h(ctx)
		})
	}
	wg.Wait()
}

// begins creates a task that waits for an answer.
func (c *rehearser) begins(ctx context.Context, what string) (key, id string, err error) {
	key = c.r.ledger.begin(c.name, c.what(what))
	c.key.Store(key)
	id, err = c.create(ctx, "confirm_delete", map[string]any{"filename": key, "key": key})
	if err != nil {
		c.close()
		err = fmt.Errorf("%s: %w", what, err)
	}
	return key, id, err
}

// holdSession is a session with a task, both of which must stay where they are.
func (r *rehearsal) holdSession(ctx context.Context, name, url string) (held, error) {
	c, err := r.newLegacy(ctx, name, url)
	if err != nil {
		return nil, err
	}
	c.do(acts[0])
	key, id, err := c.begins(ctx, "session and task over a reload")
	return func(ctx context.Context) {
		c.do(acts[0])
		c.key.Store(key)
		text, err := c.fetch(ctx, id)
		r.ledger.end(key, c.session, text, err)
		c.do(acts[2])
		c.close()
	}, err
}

// holdOrphan is a task whose session ends before the reload. A later one of the
// same caller fetches it, wherever that one is bound.
func (r *rehearsal) holdOrphan(ctx context.Context, name, url string) (held, error) {
	c, err := r.newLegacy(ctx, name, url)
	if err != nil {
		return nil, err
	}
	key, id, err := c.begins(ctx, "task over a reload and two sessions")
	if err != nil {
		return nil, err
	}
	place := c.session
	c.close()
	return func(ctx context.Context) {
		later, err := r.newLegacy(ctx, c.name, c.url)
		if err != nil {
			r.ledger.end(key, place, "", err)
			return
		}
		defer later.close()
		later.key.Store(key)
		text, err := later.fetch(ctx, id)
		r.ledger.end(key, place, text, err)
	}, nil
}

// holdTask is a modern client's task.
func (r *rehearsal) holdTask(ctx context.Context, name, url string) (held, error) {
	c := r.newModern(name, url)
	key, id, err := c.begins(ctx, "task over a reload")
	return func(ctx context.Context) {
		defer c.close()
		text, err := c.fetch(ctx, id)
		r.ledger.end(key, "", text, err)
	}, err
}

// holdQuestion is a modern client's call that asked something: before a legacy
// server it is parked in the proxy, a modern server sees it anew.
func (r *rehearsal) holdQuestion(ctx context.Context, name, url string) (held, error) {
	c := r.newModern(name, url)
	key := r.ledger.begin(c.name, "modern question over a reload")
	c.key.Store(key)
	params := map[string]any{"name": "ask_name", "arguments": map[string]any{"key": key}}
	reply, err := c.call.Call(ctx, "tools/call", params)
	var asked struct {
		ResultType    string
		InputRequests map[string]json.RawMessage
		RequestState  json.RawMessage
	}
	if err = ok(reply, err); err == nil {
		if err = reply.Decode(&asked); err == nil && asked.ResultType != "input_required" {
			err = fmt.Errorf("no question: %s", reply.Raw)
		}
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return func(ctx context.Context) {
		defer c.close()
		answers := map[string]any{}
		for name := range asked.InputRequests {
			answers[name], _ = c.answer("", nil)
		}
		params["inputResponses"] = answers
		if asked.RequestState != nil {
			params["requestState"] = asked.RequestState
		}
		reply, err := c.call.Call(ctx, "tools/call", params)
		r.ledger.end(key, "", reply.Text(), ok(reply, err))
	}, nil
}
