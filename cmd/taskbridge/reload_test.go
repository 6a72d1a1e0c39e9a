package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/cmd/peers"
)

// fileBridge is serve --config without a process around it and without a watch.
type fileBridge struct {
	*reloader
	t    *testing.T
	name string
	root string // URL of its first listener
}

func startFile(t *testing.T, text string, args ...string) *fileBridge {
	t.Helper()
	name := writeConfig(t, "", text)
	f := &serveFlags{}
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.register(fs)
	if err := fs.Parse(append([]string{"--config", name}, args...)); err != nil {
		t.Fatal(err)
	}
	a := &app{stdin: strings.NewReader("")}
	c, err := f.load(a, fs)
	if err != nil {
		t.Fatal(err)
	}
	c.log, c.metrics = slog.New(slog.DiscardHandler), newMetrics()
	b, err := newBridge(t.Context(), c.bridgeConfig)
	if err != nil {
		t.Fatal(err)
	}
	lns, err := b.listen(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i, d := range b.doors {
		wg.Go(func() { _ = d.serve(lns[i]) })
	}
	t.Cleanup(func() {
		b.drain(5 * time.Second)
		wg.Wait()
	})
	return &fileBridge{newReloader(a, f, fs, c, b, notifier{}), t, name, "http://" + lns[0].Addr().String()}
}

// put writes another configuration and reloads.
func (f *fileBridge) put(text string) error {
	f.t.Helper()
	writeConfig(f.t, f.name, text)
	return f.reload(context.Background(), "a test")
}

func greet(name string) map[string]any {
	return map[string]any{"name": "greet", "arguments": map[string]any{"name": name}}
}

// TestReload_Refusals: what is wrong, or cannot change while the proxy runs, is
// said with its place, and nothing changes.
func TestReload_Refusals(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	const head = "listeners: [{name: a, address: \"127.0.0.1:0\"}]\n"
	routes := fmt.Sprintf("routes:\n  - {name: one, path: /mcp, upstream: %q}\n", up)
	f := startFile(t, head+routes)
	c := legacyClient(t, f.root+"/mcp")
	ours := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(ours, []byte("Mcp-Session-Id: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const fixed = "while the proxy runs; restart it, or put back what was there"
	for _, tt := range []struct{ text, want string }{
		{head + "routes:\n  - {name: one, path: /mcp, upstrem: x}\n", "FILE:3:29: routes[0].upstrem: "},
		{"", "FILE:"},
		{"listeners: [{name: a, address: \"127.0.0.1:9\"}]\n" + routes, "FILE:1:32: listeners[0].address: 127.0.0.1:9: it was 127.0.0.1:0 and cannot change " + fixed},
		{"listeners: [{name: b, address: \"127.0.0.1:0\"}]\n" + routes, "FILE:1:12: listeners: their names and order cannot change " + fixed},
		{"listeners: [{name: a, address: \"127.0.0.1:0\"}, {name: b, address: \"127.0.0.1:0\"}]\n" + routes, "FILE:1:12: listeners: there were 1, and none can come or go " + fixed},
		{head + "max-message: 1MiB\n" + routes, "FILE:2:14: max-message: cannot change " + fixed},
		{head + "admin: {address: \"127.0.0.1:0\"}\n" + routes, "FILE:2:18: admin.address: cannot change " + fixed},
		{head + "telemetry: {audit: \"file:.\"}\n" + routes, "FILE:2:20: telemetry.audit: open "},
		{head + "record: {file: x.jsonl}\n" + routes, "record: cannot change " + fixed},
		{head + fmt.Sprintf("routes:\n  - {name: two, path: /two, upstream: %q}\n  - {name: one, path: /mcp, upstream: {url: %q, header-files: [/none]}}\n", up, up), "header-files"},
		{head + fmt.Sprintf("routes:\n  - {name: two, path: /two, upstream: %q}\n  - {name: one, path: /mcp, upstream: {url: %q, header-files: [%q]}}\n", up, up, ours), "is set by the proxy itself"},
	} {
		err := f.put(tt.text)
		if want := strings.ReplaceAll(tt.want, "FILE", f.name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", tt.text, err, want)
		}
		if ok, _ := f.last(); ok {
			t.Errorf("%s: the metric says that it is at work", tt.text)
		}
		if r, err := c.Call(t.Context(), "tools/call", greet("Ada")); err != nil || r.Text() != "Hello, Ada!" {
			t.Fatalf("%s: what ran does not any more: %v %s", tt.text, err, r.Raw)
		}
		if status, _, _ := ask(t, http.MethodPost, f.root+"/two", modernHeader, discoverCall); status != 404 {
			t.Errorf("%s: half of it is at work", tt.text)
		}
	}
	if err := f.put(head + routes); err != nil {
		t.Error(err)
	}
	if ok, _ := f.last(); !ok {
		t.Error("the metric does not say that it is at work again")
	}
}

// TestReload_Routes: a route that comes is there, one that goes is not, and what
// it had under way ends as it would have; one that comes back knows its sessions.
func TestReload_Routes(t *testing.T) {
	srv := peers.NewLegacyServer(peers.ServerOptions{})
	up := peer(t, srv)
	route := func(name string) string {
		return fmt.Sprintf("  - {name: %s, path: /%s, upstream: %q}\n", name, name, up)
	}
	const head = "listen: 127.0.0.1:0\nroutes:\n"
	f := startFile(t, head+route("a"))
	c := legacyClient(t, f.root+"/a")
	answered := slowCall(t, srv, f.root+"/a", 1)
	if err := f.put(head + route("b")); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := ask(t, http.MethodPost, f.root+"/a", modernHeader, discoverCall); status != 404 {
		t.Errorf("the route that went: %d", status)
	}
	if r, err := modernClient(t, f.root+"/b").Call(t.Context(), "tools/call", greet("Ada")); err != nil || r.Text() != "Hello, Ada!" {
		t.Errorf("the route that came: %v %s", err, r.Raw)
	}
	if r := <-answered; r.Text() != "Answered after 1s." {
		t.Errorf("the call in flight: %d %s", r.Status, r.Raw)
	}
	if err := f.put(head + route("a") + route("b")); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Call(t.Context(), "tools/call", greet("Ada")); err != nil || r.Text() != "Hello, Ada!" {
		t.Errorf("a session of the route that came back: %v %s", err, r.Raw)
	}
}

// TestReload_Server: a server whose URL changes is another one. What the old one
// has begun stays with it: sessions, and tasks of clients without one.
func TestReload_Server(t *testing.T) {
	old, next := peers.NewLegacyServer(peers.ServerOptions{}), peers.NewLegacyServer(peers.ServerOptions{})
	text := func(url string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - {name: r, path: /r, upstream: %q}\n", url)
	}
	f := startFile(t, text(peer(t, old)))
	legacy, modern := legacyClient(t, f.root+"/r"), modernClient(t, f.root+"/r")
	call := map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 1, "label": "old"}}
	r, err := modern.Call(t.Context(), "tools/call", call)
	var task struct{ TaskID, Status string }
	if err != nil || r.Decode(&task) != nil || task.TaskID == "" {
		t.Fatalf("a task: %v %s", err, r.Raw)
	}
	if err := f.put(text(peer(t, next))); err != nil {
		t.Fatal(err)
	}
	if r, err := legacy.Call(t.Context(), "tools/call", greet("Ada")); err != nil || r.Text() != "Hello, Ada!" || old.Calls("greet") != 1 {
		t.Errorf("a session that was there: %v %s, %d calls at its server", err, r.Raw, old.Calls("greet"))
	}
	for _, c := range []caller{legacyClient(t, f.root+"/r"), modernClient(t, f.root+"/r")} {
		if r, err := c.Call(t.Context(), "tools/call", greet("Ada")); err != nil || r.Text() != "Hello, Ada!" {
			t.Errorf("new work: %v %s", err, r.Raw)
		}
	}
	if n, m := old.Calls("greet"), next.Calls("greet"); n != 1 || m != 2 {
		t.Errorf("%d calls at the old server, %d at the new one, want 1 and 2", n, m)
	}
	id := task.TaskID
	eventually(t, "the task's end", func() bool {
		r, err := modern.Call(t.Context(), "tasks/get", map[string]any{"taskId": id})
		if err != nil || r.Err() != nil || r.Decode(&task) != nil {
			t.Fatalf("tasks/get: %v %s", err, r.Raw)
		}
		return task.Status == "completed"
	})
}

// reloads: how often TestReload_UnderLoad does it.
const reloads = 100

// TestReload_UnderLoad: while clients of both eras call and run tasks, the
// configuration is changed again and again: weights, policies, routes that come
// and go. No request is dropped, none answered wrongly.
func TestReload_UnderLoad(t *testing.T) {
	legacy := peers.NewLegacyServer(peers.ServerOptions{PollInterval: 10 * time.Millisecond})
	modern := peers.NewModernServer(peers.ServerOptions{PollInterval: 10 * time.Millisecond})
	old, next := peer(t, legacy), peer(t, modern)
	text := func(i int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "listen: 127.0.0.1:0\nroutes:\n")
		fmt.Fprintf(&b, "  - name: mixed\n    path: /mixed\n    tool-errors: %s\n    upstreams:\n", []string{"failed", "completed"}[i%2])
		fmt.Fprintf(&b, "      - {name: old, url: %q, weight: %d}\n      - {name: new, url: %q, weight: %d}\n", old, 1+i%3*50, next, i%3*50)
		fmt.Fprintf(&b, "  - {name: plain, path: /plain, upstream: %q}\n", old)
		if i%2 == 1 {
			fmt.Fprintf(&b, "  - {name: now-and-then, path: /then, upstream: %q}\n", next)
		}
		return b.String()
	}
	f := startFile(t, text(0))
	var done atomic.Bool
	var ops atomic.Int64
	var wg sync.WaitGroup
	for _, path := range []string{"/mixed", "/plain"} {
		for era, client := range map[string]caller{"legacy": legacyClient(t, f.root+path), "modern": modernClient(t, f.root+path)} {
			wg.Go(func() {
				for i := 0; !done.Load() || i < 3; i++ {
					if err := oneRound(t.Context(), client, fmt.Sprintf("%s %d", era, i)); err != nil {
						t.Errorf("%s at %s, round %d: %v", era, path, i, err)
						return
					}
					ops.Add(1)
				}
			})
		}
	}
	for i := range reloads {
		if err := f.put(text(i + 1)); err != nil {
			t.Errorf("reload %d: %v", i, err)
		}
		before := ops.Load()
		for end := time.Now().Add(time.Second); ops.Load() == before && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
	}
	done.Store(true)
	wg.Wait()
	t.Logf("%d rounds", ops.Load())
	if ran := int64(legacy.Calls("slow_compute") + modern.Calls("slow_compute")); ran != ops.Load() {
		t.Errorf("servers ran %d tasks, clients have the results of %d", ran, ops.Load())
	}
}

type caller interface {
	Call(ctx context.Context, method string, params any) (peers.Reply, error)
	RunTask(ctx context.Context, tool string, args any, answer peers.Answer) (peers.TaskRun, error)
}

// oneRound is a call and a task.
func oneRound(ctx context.Context, c caller, label string) error {
	r, err := c.Call(ctx, "tools/call", greet(label))
	if err != nil || r.Text() != "Hello, "+label+"!" {
		return fmt.Errorf("greet: %w, HTTP %d %s", err, r.Status, r.Raw)
	}
	run, err := c.RunTask(ctx, "slow_compute", map[string]any{"seconds": 0.02, "label": label}, nil)
	if err != nil || run.Status() != "completed" || !strings.Contains(string(run.Result), "Computed "+label+" for ") {
		return fmt.Errorf("task: %w, %+v", err, run)
	}
	return nil
}

// TestReload_File: a file that is replaced as Kubernetes does it, by moving the
// symbolic link of a folder above it, is read again by itself.
func TestReload_File(t *testing.T) {
	dir := t.TempDir()
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	version := func(name, path string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		writeConfig(t, filepath.Join(dir, name, "taskbridge.yaml"), fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - {path: %s, upstream: %q}\n", path, up))
		if err := os.Symlink(name, filepath.Join(dir, "..new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "/one")
	if err := os.Symlink(filepath.Join("..data", "taskbridge.yaml"), filepath.Join(dir, "taskbridge.yaml")); err != nil {
		t.Fatal(err)
	}
	s := listening(t, "serve", "--config", filepath.Join(dir, "taskbridge.yaml"))
	root := strings.TrimSuffix(s.url, "/one")
	for i, path := range []string{"/two", "/three"} {
		version(fmt.Sprintf("..%d", i+2), path)
		eventually(t, path, func() bool {
			status, _, _ := ask(t, http.MethodPost, root+path, modernHeader, discoverCall)
			return status == 200
		})
	}
	writeConfig(t, filepath.Join(dir, "..data", "taskbridge.yaml"), "routes: [")
	eventually(t, "a refusal", func() bool { return strings.Contains(s.stderr.String(), "the configuration was not reloaded") })
	if status, _, _ := ask(t, http.MethodPost, root+"/three", modernHeader, discoverCall); status != 200 {
		t.Errorf("after a bad file: %d", status)
	}
}

// TestReload_BusyFolder: a change is seen although another file of the folder, a
// log for one, never rests.
func TestReload_BusyFolder(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	text := func(path string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - {path: %s, upstream: %q}\n", path, up)
	}
	f := startFile(t, text("/one"))
	defer f.watch()()
	log, err := os.Create(filepath.Join(filepath.Dir(f.name), "taskbridge.log"))
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer log.Close()
		often := time.NewTicker(5 * time.Millisecond)
		defer often.Stop()
		for {
			select {
			case <-often.C:
				_, _ = log.WriteString("a line\n")
			case <-stop:
				return
			}
		}
	}()
	defer func() { close(stop); <-ended }()
	for _, path := range []string{"/two", "/three"} {
		writeConfig(t, f.name, text(path))
		eventually(t, path, func() bool {
			status, _, _ := ask(t, http.MethodPost, f.root+path, modernHeader, discoverCall)
			return status == 200
		})
	}
}

// TestReload_PutBack: a mistake that was read by command, and put right before
// the watch had looked, is over: what is on disk runs.
func TestReload_PutBack(t *testing.T) {
	good := fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - upstream: %q\n", peer(t, peers.NewModernServer(peers.ServerOptions{})))
	f := startFile(t, good)
	defer f.watch()()
	if err := f.put("routes: ["); err == nil {
		t.Fatal("a bad file was put to work")
	}
	writeConfig(t, f.name, good)
	eventually(t, "the file is read again", func() bool { ok, _ := f.last(); return ok })
}

// TestReload_FileGone: a change between the first reading and the watch is seen;
// a file that stays away, or is something else, is said to be no good, and good
// again once it is back as it was.
func TestReload_FileGone(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	text := func(path string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nroutes:\n  - {path: %s, upstream: %q}\n", path, up)
	}
	f := startFile(t, text("/one"))
	writeConfig(t, f.name, text("/two"))
	defer f.watch()()
	there := func() bool {
		status, _, _ := ask(t, http.MethodPost, f.root+"/two", modernHeader, discoverCall)
		return status == 200
	}
	good := func(want bool) func() bool {
		return func() bool { ok, _ := f.last(); return ok == want }
	}
	eventually(t, "the file as it was when the watch began", there)
	for what, spoil := range map[string]func() error{
		"a directory": func() error { return os.Mkdir(f.name, 0o700) },
		"nothing":     func() error { return nil },
	} {
		if err := os.Remove(f.name); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a word on "+what, good(false))
		if !there() {
			t.Errorf("%s: what ran does not any more", what)
		}
		_ = os.Remove(f.name)
		writeConfig(t, f.name, text("/two"))
		eventually(t, "good again after "+what, good(true))
	}
}

// TestAdmin_Fleet: routes and servers seen and changed from the admin address.
func TestAdmin_Fleet(t *testing.T) {
	old, next := peers.NewLegacyServer(peers.ServerOptions{}), peers.NewModernServer(peers.ServerOptions{})
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {address: \"127.0.0.1:0\"}\nroutes:\n  - name: r\n    path: /r\n    upstreams:\n      - {name: old, url: %q, weight: 1}\n      - {name: new, url: %q, weight: 0}\n", peer(t, old), peer(t, next))
	file := writeConfig(t, "", text)
	s := listening(t, "serve", "--config", file)
	eventually(t, "an admin address", func() bool {
		m := adminLine.FindStringSubmatch(s.stderr.String())
		if m != nil {
			s.admin = m[1]
		}
		return m != nil
	})
	admin := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := runArgs(t, append([]string{"admin", "--admin", s.admin}, args...)...)
		if code != want {
			t.Fatalf("%v: exit %d, %s%s", args, code, out, errs)
		}
		return out + errs
	}
	c := legacyClient(t, s.url)
	if got := admin(exitOK, "status"); !strings.Contains(got, "r      /r    old       active  1       1         0      0\n") {
		t.Errorf("status:\n%s", got)
	}
	if got := admin(exitOK, "drain", "old"); got != "r/old: draining; 1 session, 0 tasks, 0 calls\n" {
		t.Errorf("drain: %q", got)
	}
	if r, err := c.Call(t.Context(), "tools/call", greet("Ada")); err != nil || r.Text() != "Hello, Ada!" {
		t.Errorf("a session that was there: %v %s", err, r.Raw)
	}
	if got := admin(exitFailed, "drain", "--wait", "1ms", "r/old"); !strings.Contains(got, "r/old is not empty yet: 1 session,") {
		t.Errorf("drain that waits: %q", got)
	}
	_ = c.Close()
	if got := admin(exitOK, "drain", "--wait", "20s", "old"); got != "r/old: draining, empty; 0 sessions, 0 tasks, 0 calls\n" {
		t.Errorf("drain that waits: %q", got)
	}
	if got := admin(exitOK, "status"); !strings.Contains(got, "draining, empty") {
		t.Errorf("status:\n%s", got)
	}
	if got := admin(exitUsage, "drain", "none"); !strings.Contains(got, `no upstream is called "none"; there is r/old, r/new`) {
		t.Errorf("drain of nothing: %q", got)
	}
	if got := admin(exitOK, "undrain", "r/old"); !strings.HasPrefix(got, "r/old: active; ") {
		t.Errorf("undrain: %q", got)
	}
	if got := admin(exitOK, "reload"); got != file+" is at work\n" {
		t.Errorf("reload: %q", got)
	}
	writeConfig(t, file, text+"nonsense: 1\nrubbish: 2\n")
	if got := admin(exitFailed, "reload"); !strings.Contains(got, "nothing has changed: "+file+":9:1: nonsense: ") || !strings.Contains(got, "\n  "+file+":10:1: rubbish: ") {
		t.Errorf("reload of a bad file: %q", got)
	}
	if got := admin(exitOK, "status"); !strings.Contains(got, "what is there now was refused") {
		t.Errorf("status after it:\n%s", got)
	}
}

// TestConfigCheck_Unusable: what serve would refuse in a file that reads well.
func TestConfigCheck_Unusable(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"short": "k", "headers": "no colon", "cert": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const routes = "routes:\n  - {path: /mcp, upstream: \"http://127.0.0.1:1/mcp\"}\n"
	for _, tt := range []struct{ text, want string }{
		{"state-keys: [short]\n" + routes, ":1:14: state-keys[0]: state key "},
		{"listeners: [{address: \"127.0.0.1:0\", tls: {cert: cert, key: cert}}]\n" + routes, ": listeners[0].tls: "},
		{"routes:\n  - {path: /mcp, upstream: {url: \"http://127.0.0.1:1/mcp\", header-files: [headers]}}\n", ": routes[0].upstream: header file "},
	} {
		file := writeConfig(t, filepath.Join(dir, "t.yaml"), tt.text)
		code, out, _ := runArgs(t, "config", "check", file)
		if code != exitUsage || !strings.Contains(out, file+tt.want) && !strings.Contains(out, tt.want) {
			t.Errorf("exit %d: %s\nwant %s", code, out, tt.want)
		}
	}
}
