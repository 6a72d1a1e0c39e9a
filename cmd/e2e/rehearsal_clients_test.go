package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"taskbridge/cmd/peers"
)

// The clients of the rehearsal: what they do, and how the ledger hears of it.

// rehearser is one client of either era, one operation at a time. Callers are
// told apart by its name.
type rehearser struct {
	r         *rehearsal
	name, url string
	counts    string // the client its operations count for
	call      loadCaller
	legacy    *peers.LegacyClient // nil in the modern era
	key       atomic.Value        // string: of the operation at hand
	// session is where a legacy client's operations belong, since its server must
	// not change.
	session string
}

// answer answers every question with the key of the operation at hand.
func (c *rehearser) answer(string, json.RawMessage) (any, any) {
	return map[string]any{"action": "accept", "content": map[string]any{"confirm": true, "name": c.key.Load(), "colour": "green"}}, nil
}

// newLegacy opens a session.
func (r *rehearsal) newLegacy(ctx context.Context, name, url string) (*rehearser, error) {
	c := &rehearser{r: r, name: name, url: url, counts: name}
	c.key.Store("")
	c.legacy = &peers.LegacyClient{URL: url, Name: clientName("legacy", name), OnRequest: c.answer, Header: http.Header{"Authorization": {"Bearer " + name}}}
	c.call = c.legacy
	before := r.phase.Load()
	if _, err := c.legacy.Initialize(ctx); err != nil {
		c.close()
		return nil, err
	}
	if r.phase.Load() != before {
		before = 0 // it may have been bound by either file
	}
	c.session = fmt.Sprintf("session of %s%s", name, begun(before))
	return c, nil
}

func (r *rehearsal) newModern(name, url string) *rehearser {
	c := &rehearser{r: r, name: name, url: url, counts: name}
	c.key.Store("")
	c.call = &peers.ModernClient{URL: url, Name: clientName("modern", name), Tasks: true, Header: http.Header{"Authorization": {"Bearer " + name}}}
	return c
}

// clientName is what a client calls itself. Those whose names begin with
// pinnedClient are all called that.
func clientName(era, name string) string {
	if strings.HasPrefix(name, pinnedClient) {
		return pinnedClient
	}
	return "rehearsal-" + era
}

// pinnedClient is pinned to the modern server of the route that moves.
const pinnedClient = "early"

func (c *rehearser) close() {
	if err := c.call.(interface{ Close() error }).Close(); err != nil && c.r.ctx.Err() == nil {
		c.r.ledger.fail("%s closes: %v", c.name, err)
	}
}

// begun is how a place says in which phase it began; 0 is between two.
func begun(phase int64) string {
	if phase == 0 {
		return ""
	}
	return fmt.Sprintf(", begun in phase %d", phase)
}

// play does each kind of operation once, in any order, until its era ends.
func (c *rehearser) play(rng *rand.Rand) {
	for _, i := range rng.Perm(len(acts)) {
		if c.r.ended(c.counts) {
			return
		}
		c.do(acts[i])
	}
}

// do carries out one operation.
func (c *rehearser) do(a act) {
	ctx, cancel := context.WithTimeout(c.r.ctx, rehearsalPatience)
	defer cancel()
	key := c.r.ledger.begin(c.counts, c.what(a.name))
	c.key.Store(key)
	before := c.r.phase.Load()
	text, err := a.do(ctx, c, key)
	if c.r.ctx.Err() != nil {
		return // the test has failed, and says why itself
	}
	place := c.session
	if phase := c.r.phase.Load(); c.legacy == nil && phase == before && phase != 0 {
		place = c.name + begun(phase)
	}
	c.r.ledger.end(key, place, text, err)
}

func (c *rehearser) what(act string) string {
	if c.legacy != nil {
		return "legacy " + act
	}
	return "modern " + act
}

// act is one kind of operation. It gives the text of the result.
type act struct {
	name string
	do   func(ctx context.Context, c *rehearser, key string) (string, error)
}

// acts are what clients of either era do under load.
var acts = []act{
	{"call", func(ctx context.Context, c *rehearser, key string) (string, error) {
		return c.tool(ctx, "greet", map[string]any{"name": key, "key": key})
	}},
	{"question in a call", func(ctx context.Context, c *rehearser, key string) (string, error) {
		if c.legacy != nil {
			return c.tool(ctx, "ask_name", map[string]any{"key": key})
		}
		return c.task(ctx, "ask_name", map[string]any{"key": key})
	}},
	{"task", func(ctx context.Context, c *rehearser, key string) (string, error) {
		return c.task(ctx, "slow_compute", map[string]any{"seconds": 0.1, "label": key, "key": key})
	}},
	{"task that asks", func(ctx context.Context, c *rehearser, key string) (string, error) {
		return c.task(ctx, "confirm_delete", map[string]any{"filename": key, "key": key})
	}},
	{"task that asks twice at once", func(ctx context.Context, c *rehearser, key string) (string, error) {
		return c.task(ctx, "multi_input", map[string]any{"key": key})
	}},
	{"cancelled task", cancelledTask},
	{"cancelled call", cancelledCall},
	{"task begun and fetched", func(ctx context.Context, c *rehearser, key string) (string, error) {
		id, err := c.create(ctx, "confirm_delete", map[string]any{"filename": key, "key": key})
		if err != nil {
			return "", err
		}
		if err := c.lists(ctx, id); err != nil {
			return "", err
		}
		return c.fetch(ctx, id)
	}},
}

// tool calls a tool plainly.
func (c *rehearser) tool(ctx context.Context, tool string, args map[string]any) (string, error) {
	r, err := c.call.Call(ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
	return r.Text(), ok(r, err)
}

// task runs a tool as a task to its end.
func (c *rehearser) task(ctx context.Context, tool string, args map[string]any) (string, error) {
	run, err := c.call.RunTask(ctx, tool, args, c.answer)
	switch {
	case err != nil:
		return "", err
	case run.Error != nil:
		return "", fmt.Errorf("error %s", run.Error)
	case run.TaskID != "" && run.Status() != "completed":
		return "", fmt.Errorf("the task ended %s: %s", run.Status(), run.Last)
	}
	return run.Text(), nil
}

// create makes a task and leaves it.
func (c *rehearser) create(ctx context.Context, tool string, args map[string]any) (id string, err error) {
	params := map[string]any{"name": tool, "arguments": args}
	if c.legacy != nil {
		params["task"] = map[string]any{"ttl": (5 * time.Minute).Milliseconds()}
	}
	r, err := c.call.Call(ctx, "tools/call", params)
	if err := ok(r, err); err != nil {
		return "", err
	}
	var created struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	if err := r.Decode(&created); err != nil {
		return "", err
	}
	if id = created.TaskID + created.Task.TaskID; id == "" {
		return "", fmt.Errorf("no task: %s", r.Raw)
	}
	return id, nil
}

// lists looks for a task of this client in its list, where its era has one.
func (c *rehearser) lists(ctx context.Context, id string) error {
	cursor := ""
	for c.legacy != nil {
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		r, err := c.call.Call(ctx, "tasks/list", params)
		var page struct {
			Tasks      []struct{ TaskID string }
			NextCursor string
		}
		if err := ok(r, err); err != nil {
			return fmt.Errorf("tasks/list: %w", err)
		}
		if err := r.Decode(&page); err != nil {
			return err
		}
		for _, t := range page.Tasks {
			if t.TaskID == id {
				return nil
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return fmt.Errorf("tasks/list lacks %s: %.500s", id, r.Raw)
		}
	}
	return nil
}

// fetch drives a task that may have begun long ago to its end.
func (c *rehearser) fetch(ctx context.Context, id string) (string, error) {
	if c.legacy != nil {
		if _, err := c.state(ctx, id); err != nil {
			return "", err
		}
		r, err := c.call.Call(ctx, "tasks/result", map[string]any{"taskId": id})
		if err := ok(r, err); err != nil {
			return "", fmt.Errorf("tasks/result: %w", err)
		}
		return r.Text(), nil
	}
	for answered := false; ; {
		s, err := c.state(ctx, id)
		switch {
		case err != nil:
			return "", err
		case s.Status == "completed":
			return peers.Reply{Result: s.Result}.Text(), nil
		case s.Status == "input_required" && !answered:
			answered = true
			answers := map[string]any{}
			for name := range s.InputRequests {
				answers[name], _ = c.answer("", nil)
			}
			if err := ok(c.call.Call(ctx, "tasks/update", map[string]any{"taskId": id, "inputResponses": answers})); err != nil {
				return "", fmt.Errorf("tasks/update: %w", err)
			}
		case s.Status != "working" && s.Status != "input_required":
			return "", fmt.Errorf("the task ended %s: %s", s.Status, s.Error)
		}
		select {
		case <-time.After(rehearsalPoll):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

type rehearsedState struct {
	Status        string
	InputRequests map[string]json.RawMessage
	Result, Error json.RawMessage
}

func (c *rehearser) state(ctx context.Context, id string) (s rehearsedState, err error) {
	r, err := c.call.Call(ctx, "tasks/get", map[string]any{"taskId": id})
	if err = ok(r, err); err == nil {
		err = r.Decode(&s)
	}
	if err != nil {
		err = fmt.Errorf("tasks/get: %w", err)
	}
	return s, err
}

func cancelledTask(ctx context.Context, c *rehearser, key string) (string, error) {
	id, err := c.create(ctx, "slow_compute", map[string]any{"seconds": 600, "label": key, "key": key})
	if err != nil {
		return "", err
	}
	c.r.ledger.takeBack(key)
	if err := ok(c.call.Call(ctx, "tasks/cancel", map[string]any{"taskId": id})); err != nil {
		return "", fmt.Errorf("tasks/cancel: %w", err)
	}
	s, err := c.state(ctx, id)
	if err == nil && s.Status != "cancelled" {
		err = fmt.Errorf("the cancelled task is %s", s.Status)
	}
	return "", err
}

func cancelledCall(ctx context.Context, c *rehearser, key string) (string, error) {
	c.r.ledger.takeBack(key)
	short, cancel := context.WithTimeout(ctx, time.Duration(5+rand.IntN(60))*time.Millisecond)
	defer cancel()
	r, err := c.call.Call(short, "tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": 600, "key": key}})
	if !errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("want the call's own end: %v %s", err, r.Raw)
	}
	return "", nil
}
