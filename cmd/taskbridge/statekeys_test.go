package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session"
)

// keptTask is a task some client made, and is to find again.
type keptTask struct {
	client caller
	legacy bool
	id     string
	label  string
}

func makeTask(t *testing.T, c caller, label string) keptTask {
	t.Helper()
	call := map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 0.02, "label": label}}
	_, legacy := c.(*peers.LegacyClient)
	if legacy {
		call["task"] = map[string]any{}
	}
	r, err := c.Call(t.Context(), "tools/call", call)
	var made struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	if err != nil || r.Decode(&made) != nil || made.TaskID+made.Task.TaskID == "" {
		t.Fatalf("%s: no task: %v %s", label, err, r.Raw)
	}
	return keptTask{c, legacy, made.TaskID + made.Task.TaskID, label}
}

// read asks for the task until it is over, by its id as it was given, and wants
// its result and that id.
func (k keptTask) read(t *testing.T) {
	t.Helper()
	var raw string
	eventually(t, k.label+" is over", func() bool {
		var got struct{ TaskID, Status string }
		r, err := k.client.Call(t.Context(), "tasks/get", map[string]any{"taskId": k.id})
		if err != nil || r.Err() != nil || r.Decode(&got) != nil {
			t.Fatalf("%s: tasks/get: %v %s", k.label, err, r.Raw)
		}
		if raw = string(r.Raw); got.TaskID != k.id {
			t.Fatalf("%s: the task has another id: %s", k.label, raw)
		}
		return got.Status == "completed"
	})
	if k.legacy {
		r, err := k.client.Call(t.Context(), "tasks/result", map[string]any{"taskId": k.id})
		if raw = string(r.Raw); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(raw, "Computed "+k.label+" for ") {
		t.Errorf("%s: %s", k.label, raw)
	}
}

// listed are the tasks a legacy client is told of.
func listed(t *testing.T, c caller) string {
	t.Helper()
	var all strings.Builder
	params := map[string]any{}
	for range 50 {
		var page struct{ NextCursor string }
		r, err := c.Call(t.Context(), "tasks/list", params)
		if err != nil || r.Decode(&page) != nil {
			t.Fatalf("tasks/list: %v %s", err, r.Raw)
		}
		all.WriteString(string(r.Raw))
		if page.NextCursor == "" {
			break
		}
		params["cursor"] = page.NextCursor
	}
	return all.String()
}

func writeKey(t *testing.T, dir, file, word string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, file), []byte(strings.Repeat(word, session.MinStateKey)), 0o600))
}

// TestReload_StateKeys: while clients of both eras call and run tasks, state keys
// change twice, by the content of their files alone. What was made before is
// found after it, by the same ids; nobody's work is disturbed.
func TestReload_StateKeys(t *testing.T) {
	legacy := peer(t, peers.NewLegacyServer(peers.ServerOptions{PollInterval: 10 * time.Millisecond}))
	modern := peer(t, peers.NewModernServer(peers.ServerOptions{PollInterval: 10 * time.Millisecond}))
	dir := t.TempDir()
	writeKey(t, dir, "first", "a")
	writeKey(t, dir, "second", "-")
	f := startFile(t, fmt.Sprintf("listen: 127.0.0.1:0\nstate-keys: [%q, %q]\nroutes:\n"+
		"  - {name: old, path: /old, upstream: %q}\n  - {name: new, path: /new, upstream: %q}\n"+
		"  - {name: mixed, path: /mixed, upstreams: [{name: a, url: %q, weight: 1}, {name: b, url: %q, weight: 1}]}\n",
		filepath.Join(dir, "first"), filepath.Join(dir, "second"), legacy, modern, legacy, modern))
	clients := map[string]caller{}
	for _, path := range []string{"/old", "/new", "/mixed"} {
		clients["legacy"+path], clients["modern"+path] = legacyClient(t, f.root+path), modernClient(t, f.root+path)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for name, c := range clients {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if err := oneRound(t.Context(), c, fmt.Sprintf("%s %d", name, i)); err != nil {
					t.Errorf("%s, round %d: %v", name, i, err)
					return
				}
			}
		})
	}
	var kept []keptTask
	for i, first := range []string{"a", "b", "c"} {
		if i > 0 {
			old := []string{"a", "b", "c"}[i-1]
			writeKey(t, dir, "first", first)
			writeKey(t, dir, "second", old)
			must(t, f.reload(t.Context(), "a test"))
		}
		mark := session.HandleKey(keyed(t, first).SealTask(session.TaskRef{ID: "x"}))
		for name, c := range clients {
			k := makeTask(t, c, fmt.Sprintf("%s with key %s", name, first))
			if got := session.HandleKey(k.id); got != "" && got != mark {
				t.Errorf("%s: the handle is sealed with another key", k.label)
			}
			kept = append(kept, k)
		}
		for _, k := range kept {
			k.read(t)
		}
	}
	stop.Store(true)
	wg.Wait()
	for _, k := range kept {
		if k.read(t); k.legacy && !strings.Contains(listed(t, k.client), `"`+k.id+`"`) {
			t.Errorf("%s: the task is not listed", k.label)
		}
	}
}

func keyed(t *testing.T, word string) *session.Handles {
	t.Helper()
	h, err := session.NewHandles([][]byte{[]byte(strings.Repeat(word, session.MinStateKey))})
	must(t, err)
	return h
}

// TestReload_StateKeyTakenOut: a key that is taken out while a task has a handle
// of it seals no more, which is said; the task stays. It is forgotten once nothing
// needs it, and one that nothing needs after the least time.
func TestReload_StateKeyTakenOut(t *testing.T) {
	up := peer(t, peers.NewLegacyServer(peers.ServerOptions{PollInterval: 10 * time.Millisecond}))
	dir := t.TempDir()
	text := func(keys ...string) string {
		line := ""
		if len(keys) > 0 {
			for i, k := range keys {
				writeKey(t, dir, k, k)
				keys[i] = fmt.Sprintf("%q", filepath.Join(dir, k))
			}
			line = "state-keys: [" + strings.Join(keys, ", ") + "]\n"
		}
		return "listen: 127.0.0.1:0\n" + line + fmt.Sprintf("routes:\n  - {name: r, path: /r, upstream: %q}\n", up)
	}
	f := startFile(t, text())
	logged := new(buffer)
	f.bridge.log = slog.New(slog.NewTextHandler(logged, nil))
	c := modernClient(t, f.root+"/r")
	tasks := []keptTask{makeTask(t, c, "random")}
	must(t, f.put(text("a")))
	if got := logged.String(); !strings.Contains(got, "a state key was taken out of the configuration") || !strings.Contains(got, "tasks=1 at_least=24h10m0s") {
		t.Errorf("nothing was said of the random key:\n%s", got)
	}
	tasks = append(tasks, makeTask(t, c, "with a"))
	must(t, f.put(text("b"))) // unused
	must(t, f.put(text("c")))
	read := func() {
		t.Helper()
		for _, k := range tasks {
			k.read(t)
		}
	}
	read()
	left := func(want int) {
		t.Helper()
		if got := len(f.bridge.handles.Retired()); got != want {
			t.Errorf("%d keys open only, want %d", got, want)
		}
	}
	left(3)
	f.bridge.forgetUnused(time.Now().Add(24 * time.Hour))
	left(3)
	f.bridge.forgetUnused(time.Now().Add(25 * time.Hour))
	left(2)
	read()
	must(t, f.put(text("c", "a")))
	left(1)
	f.bridge.forgetUnused(time.Now().Add(25 * time.Hour))
	left(1)
	read()
	must(t, f.put(text())) // the random one again
	left(2)
	read()
}

// TestReload_StateKeyRefused: a key file that is no good changes nothing.
func TestReload_StateKeyRefused(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{PollInterval: 10 * time.Millisecond}))
	dir := t.TempDir()
	writeKey(t, dir, "key", "a")
	text := fmt.Sprintf("listen: 127.0.0.1:0\nstate-keys: [%q]\nroutes:\n  - {name: r, path: /r, upstream: %q}\n", filepath.Join(dir, "key"), up)
	f := startFile(t, text)
	c := legacyClient(t, f.root+"/r")
	k := makeTask(t, c, "before")
	must(t, os.WriteFile(filepath.Join(dir, "key"), []byte("short"), 0o600))
	if err := f.put(text); err == nil || !strings.Contains(err.Error(), ":2:14: state-keys[0]: state key "+filepath.Join(dir, "key")+": has 5 bytes") {
		t.Errorf("a key that could be guessed: %v", err)
	}
	k.read(t)
	k = makeTask(t, c, "after")
	if got, want := session.HandleKey(k.id), session.HandleKey(keyed(t, "a").SealTask(session.TaskRef{})); got != want {
		t.Errorf("sealed with %s, want %s", got, want)
	}
	k.read(t)
}
