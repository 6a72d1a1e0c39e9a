package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session"
)

// Load: many legacy sessions and modern clients at once before a legacy and a
// modern server, with questions, subscriptions, tasks and cancels mixed. No
// error may come but those asked for, and nothing may be left.

// loadSize is how many clients of each era there are, for how long, and how long
// one may think before its next step: those the full run wants, or few for a
// short time without a pause.
func loadSize() (clients int, long, think time.Duration) {
	switch {
	case fullE2E() && raceEnabled: // which makes everything ten times slower
		return 200, time.Minute, 12 * time.Second
	case fullE2E():
		return 200, time.Minute, 4 * time.Second
	case testing.Short():
		return 8, 2 * time.Second, 0
	}
	return 24, 5 * time.Second, 0
}

// load is one run.
type load struct {
	t      *testing.T
	life   time.Duration   // of tasks, and of sessions nobody uses
	think  time.Duration   // at most, between two steps
	ctx    context.Context // ends when the load is over; a step then ends itself
	legacy *peers.LegacyServer
	modern *peers.ModernServer

	mu     sync.Mutex // protects the fields below
	done   map[string]int
	failed map[string]int
}

// step counts one thing a client did.
func (l *load) step(name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[name]++
	if err == nil {
		return
	}
	key := name + ": " + err.Error()
	if l.failed[key]++; l.failed[key] == 1 && len(l.failed) < 20 {
		l.t.Errorf("%s", key)
	}
}

func TestLoad(t *testing.T) {
	clients, long, think := loadSize()
	before := runtime.NumGoroutine()
	t.Run("clients", func(t *testing.T) { runLoad(t, clients, long, think) })
	if left := goroutinesOver(before); left != "" {
		t.Errorf("goroutines left:\n%s", left)
	}
}

func runLoad(t *testing.T, clients int, long, think time.Duration) {
	// Long enough for a busy machine, short enough to see the end of all.
	life := max(long/6, 3*time.Second, think*3)
	options := peers.ServerOptions{PollInterval: 100 * time.Millisecond, TTL: 2 * life, TasksPerSession: true}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	l := &load{t: t, ctx: ctx, life: life, think: think, legacy: peers.NewLegacyServer(options), modern: peers.NewModernServer(options), done: map[string]int{}, failed: map[string]int{}}
	policy := session.Policy{
		SessionIdle: life, TaskGrace: life / 4, TaskKeep: life, ParkFor: life, PollRate: 1e6,
		Upstreams: session.Limit{Each: 10_000, All: 10_000},
	}
	bridges := map[string]*bridge{
		"legacy server": newBridge(t, startPeer(t, l.legacy), bridgeOptions{Policy: policy}),
		"modern server": newBridge(t, startPeer(t, l.modern), bridgeOptions{Policy: policy}),
	}
	var wg sync.WaitGroup
	for i := range clients {
		for _, name := range slices.Sorted(maps.Keys(bridges)) {
			if i%2 == 0 == (name == "legacy server") { // half of the clients before each server
				wg.Go(func() { l.legacyClient(i, bridges[name].URL) })
				wg.Go(func() { l.modernClient(i, bridges[name].URL) })
			}
		}
	}
	wg.Go(l.changes)
	wg.Wait()
	l.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(l.done)) {
		t.Logf("%6d %s", l.done[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(l.failed)) {
		t.Errorf("%d times %s", l.failed[name], name)
	}
	l.mu.Unlock()
	for name, b := range bridges {
		if left := storeLeft(b.Store); left != "" {
			t.Errorf("before the %s the store keeps %s", name, left)
		}
	}
	if !loadEnds(func() bool { return l.legacy.Sessions() == 0 && l.modern.Listeners() == 0 }) {
		t.Errorf("%d sessions at the legacy server, %d listen streams at the modern one", l.legacy.Sessions(), l.modern.Listeners())
	}
}

// changes: the servers change what clients watch.
func (l *load) changes() {
	tick := time.NewTicker(max(l.think/2, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
			l.legacy.ToolsChanged()
			l.modern.ToolsChanged()
			l.legacy.ResourceUpdated("demo://readme")
			l.modern.ResourceUpdated("demo://readme")
		}
	}
}

// loadEnds waits as long as what ends late may take.
func loadEnds(holds func() bool) bool {
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
}

// storeLeft lists what a store keeps by kind once all that may end has ended.
// Request ids toward a server are never used again, so their counter stays.
func storeLeft(store session.Store) string {
	kinds := map[string]int{}
	var last session.Entry
	loadEnds(func() bool {
		clear(kinds)
		for after := ""; ; {
			entries, err := store.List(context.Background(), "", after, 1000)
			if err != nil {
				kinds[err.Error()]++
				return true
			}
			for _, e := range entries {
				kind, rest, _ := strings.Cut(e.Key, "/")
				if kind == "op" {
					name, _, _ := strings.Cut(rest, ":")
					kind += "/" + name
				}
				if e.Key != "seq/up/default" {
					kinds[kind]++
					last = e
				}
				after = e.Key
			}
			if len(entries) == 0 {
				return len(kinds) == 0
			}
		}
	})
	var list []string
	for kind, n := range kinds {
		list = append(list, fmt.Sprintf("%s×%d", kind, n))
	}
	if slices.Sort(list); len(list) > 0 {
		list = append(list, fmt.Sprintf("the last %s = %.2000s", last.Key, last.Value))
	}
	return strings.Join(list, " ")
}

// goroutinesOver waits until there are as few goroutines as before; gives
// their stacks if there are not.
func goroutinesOver(before int) string {
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if loadEnds(func() bool { return runtime.NumGoroutine() <= before }) {
		return ""
	}
	stacks := make([]byte, 1<<20)
	return string(stacks[:runtime.Stack(stacks, true)])
}

// caller is what both kinds of client have.
type loadCaller interface {
	Call(ctx context.Context, method string, params any) (peers.Reply, error)
	RunTask(ctx context.Context, tool string, args any, answer peers.Answer) (peers.TaskRun, error)
}

// loadStep is one thing a client may do. It is given time of its own, so that
// the end of the load interrupts nothing.
type loadStep struct {
	name string
	run  func(ctx context.Context) error
}

var accept = peers.Accept(map[string]any{"confirm": true, "name": "Ada", "colour": "green"})

// common are the steps of either era.
func common(c loadCaller) []loadStep {
	return []loadStep{
		{"call", func(ctx context.Context) error {
			return says(ctx, c, "greet", map[string]any{"name": "Ada"}, "Hello, Ada!")
		}},
		{"tools/list", func(ctx context.Context) error { return ok(c.Call(ctx, "tools/list", map[string]any{})) }},
		{"prompts/get", func(ctx context.Context) error {
			return ok(c.Call(ctx, "prompts/get", map[string]any{"name": "hello", "arguments": map[string]any{"name": "Ada"}}))
		}},
		{"resources/read", func(ctx context.Context) error {
			return ok(c.Call(ctx, "resources/read", map[string]any{"uri": "demo://readme"}))
		}},
		{"progress", func(ctx context.Context) error {
			return ok(c.Call(ctx, "tools/call", map[string]any{"name": "progress", "arguments": map[string]any{"steps": 3}, "_meta": map[string]any{"progressToken": "p"}}))
		}},
		{"unknown tool", func(ctx context.Context) error {
			r, err := c.Call(ctx, "tools/call", map[string]any{"name": "no_such_tool", "arguments": map[string]any{}})
			if err == nil && r.Code() != -32602 {
				err = fmt.Errorf("want -32602: %s", r.Raw)
			}
			return err
		}},
		{"task", func(ctx context.Context) error {
			return task(ctx, c, "slow_compute", map[string]any{"seconds": 0.2, "label": "l"}, "")
		}},
		{"task that asks", func(ctx context.Context) error {
			return task(ctx, c, "confirm_delete", map[string]any{"filename": "f"}, "Deleted f.")
		}},
		{"task that asks twice at once", func(ctx context.Context) error { return task(ctx, c, "multi_input", map[string]any{}, "") }},
		{"cancelled call", func(ctx context.Context) error {
			short, cancel := context.WithTimeout(ctx, time.Duration(5+rand.IntN(60))*time.Millisecond)
			defer cancel()
			_, err := c.Call(short, "tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": 20}})
			if err == nil || !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("want the call's own end: %v", err)
			}
			return nil
		}},
	}
}

func ok(r peers.Reply, err error) error {
	if err != nil {
		return err
	}
	return r.Err()
}

// says calls a tool that gives this text.
func says(ctx context.Context, c loadCaller, tool string, args any, text string) error {
	r, err := c.Call(ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
	if err = ok(r, err); err == nil && r.Text() != text {
		err = fmt.Errorf("want %q: %s", text, r.Raw)
	}
	return err
}

// task runs a tool as a task to its end.
func task(ctx context.Context, c loadCaller, tool string, args any, text string) error {
	run, err := c.RunTask(ctx, tool, args, accept)
	switch {
	case err != nil:
		return err
	case run.Status() != "completed" && run.TaskID != "" || run.Error != nil:
		return fmt.Errorf("ended %s: %s", run.Status(), run.Error)
	case text != "" && run.Text() != text:
		return fmt.Errorf("want %q: %s", text, run.Result)
	}
	return nil
}

// play does steps by chance, up to most, until the load is over.
func (l *load) play(seed, most int, steps []loadStep) {
	rng := rand.New(rand.NewPCG(uint64(seed), 7))
	for n := 0; n < most && l.ctx.Err() == nil; n++ {
		if l.think > 0 { // as users do
			select {
			case <-time.After(time.Duration(rng.Int64N(int64(l.think)))):
			case <-l.ctx.Done():
			}
		}
		l.one(steps[rng.IntN(len(steps))])
	}
}

func (l *load) one(s loadStep) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 30*time.Second+4*l.life)
	defer cancel()
	began := time.Now()
	err := s.run(ctx)
	if took := time.Since(began); err != nil && took > time.Second {
		err = fmt.Errorf("after %s: %w", took.Truncate(time.Second), err)
	}
	l.step(s.name, err)
	return err == nil
}

func bearer(kind string, i int) http.Header {
	return http.Header{"Authorization": {fmt.Sprintf("Bearer %s-%d", kind, i)}}
}

// legacyClient opens sessions one after the other and plays in them.
func (l *load) legacyClient(i int, url string) {
	for life := 0; l.ctx.Err() == nil; life++ {
		c := &peers.LegacyClient{URL: url, Header: bearer("legacy", i), OnRequest: accept, TaskTTL: 2 * l.life}
		if !l.one(loadStep{"initialize", func(ctx context.Context) error {
			_, err := c.Initialize(ctx)
			return err
		}}) || !l.one(loadStep{"GET", c.OpenGET}) {
			c.Close()
			continue
		}
		steps := append(common(c),
			loadStep{"ping", func(ctx context.Context) error { return ok(c.Call(ctx, "ping", nil)) }},
			loadStep{"subscribe", func(ctx context.Context) error {
				return ok(c.Call(ctx, "resources/subscribe", map[string]any{"uri": "demo://readme"}))
			}},
			loadStep{"unsubscribe", func(ctx context.Context) error {
				return ok(c.Call(ctx, "resources/unsubscribe", map[string]any{"uri": "demo://readme"}))
			}},
			loadStep{"question", func(ctx context.Context) error { return says(ctx, c, "ask_name", map[string]any{}, "Hello, Ada!") }},
			loadStep{"tasks/list", func(ctx context.Context) error { return ok(c.Call(ctx, "tasks/list", map[string]any{})) }},
			loadStep{"cancelled task", func(ctx context.Context) error { return cancelTask(ctx, c, 2*l.life) }},
		)
		l.play(1000*i+life, 20, steps)
		l.step("close", c.Close())
	}
}

// modernClient plays with requests and listen streams.
func (l *load) modernClient(i int, url string) {
	c := &peers.ModernClient{URL: url, Header: bearer("modern", i), Tasks: true}
	defer func() { l.step("close", c.Close()) }()
	steps := append(common(c),
		loadStep{"discover", func(ctx context.Context) error {
			_, err := c.Discover(ctx)
			return err
		}},
		loadStep{"listen", func(ctx context.Context) error { return l.listen(ctx, c) }},
		loadStep{"question", func(ctx context.Context) error { return task(ctx, c, "ask_name", map[string]any{}, "Hello, Ada!") }},
		loadStep{"question left alone", func(ctx context.Context) error {
			r, err := c.Call(ctx, "tools/call", map[string]any{"name": "ask_name", "arguments": map[string]any{}})
			var a asked
			if err = ok(r, err); err == nil && (json.Unmarshal(r.Result, &a) != nil || a.ResultType != "input_required") {
				err = fmt.Errorf("no question: %s", r.Raw)
			}
			return err
		}},
		loadStep{"cancelled task", func(ctx context.Context) error { return cancelTask(ctx, c, 0) }},
	)
	l.play(1000*i+500, math.MaxInt, steps)
}

// cancelTask makes a task and cancels it. Legacy calls ask for a ttl.
func cancelTask(ctx context.Context, c loadCaller, ttl time.Duration) error {
	params := map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 600}}
	if ttl > 0 {
		params["task"] = map[string]any{"ttl": ttl.Milliseconds()}
	}
	r, err := c.Call(ctx, "tools/call", params)
	if err := ok(r, err); err != nil {
		return err
	}
	var created struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	if err := r.Decode(&created); err != nil {
		return err
	}
	return ok(c.Call(ctx, "tasks/cancel", map[string]any{"taskId": created.TaskID + created.Task.TaskID}))
}

// listen waits for one change of each kind; once the load is over there are none.
func (l *load) listen(ctx context.Context, c *peers.ModernClient) error {
	seen := make(chan string, 1024)
	sub, err := c.Listen(ctx, map[string]any{"toolsListChanged": true, "resourceSubscriptions": []string{"demo://readme"}}, func(method string, _ json.RawMessage) {
		select {
		case seen <- method:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer sub.Close()
	want := map[string]bool{"notifications/tools/list_changed": true, "notifications/resources/updated": true}
	for end := time.After(15*time.Second + l.life); len(want) > 0; {
		select {
		case method := <-seen:
			delete(want, method)
		case <-sub.Done():
			return errors.New("the stream ended")
		case <-l.ctx.Done():
			return nil
		case <-end:
			return fmt.Errorf("not told of %v", slices.Sorted(maps.Keys(want)))
		}
	}
	return nil
}
