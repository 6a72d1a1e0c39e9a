package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/cmd/peers"
	"taskbridge/session"
)

// TestPolicyFlags: serve and stdio take the same words and mean the same.
func TestPolicyFlags(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--tool-errors", "completed", "--undeclared-tasks", "refuse", "--park", "task", "--task-handle-after", "3s", "--inline-wait", "4s",
		"--state-key", key, "--state-key", key,
	}
	want := session.Policy{ToolErrorsCompleted: true, RefuseUndeclared: true, ParkTask: true, TaskHandleAfter: 3 * time.Second, InlineWait: 4 * time.Second}
	flags := func(register func(*pflag.FlagSet)) *pflag.FlagSet {
		t.Helper()
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		register(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		return fs
	}
	p := &stdioFlags{}
	fs := flags(p.register)
	c := bridgeConfig{routes: oneRoute(server{}, 0, 0)}
	if err := p.policyFlags.apply(fs, &c); err != nil || c.routes[0].policy != want || len(c.stateKeys) != 2 {
		t.Errorf("stdio: %v, %+v, %d keys", err, c.routes[0].policy, len(c.stateKeys))
	}
	s := &serveFlags{}
	fs = flags(s.register)
	s.url = "http://127.0.0.1/mcp"
	got, err := s.check(&app{}, fs)
	if err != nil || got.routes[0].policy != want || len(got.stateKeys) != 2 {
		t.Errorf("serve: %v, %+v, %d keys", err, got.routes[0].policy, len(got.stateKeys))
	}
	for _, cmd := range [][]string{{"serve", "--upstream", "http://127.0.0.1/mcp"}, {"stdio", "http://127.0.0.1/mcp"}} {
		code, _, stderr := runArgs(t, append(cmd, "--state-key", key+".none")...)
		if code != exitUsage || !strings.Contains(stderr, "--state-key") {
			t.Errorf("%s: exit %d: %s", cmd[0], code, stderr)
		}
	}
}

// TestStdio_Policy: the flags reach the work.
func TestStdio_Policy(t *testing.T) {
	server := peer(t, peers.NewModernServer(peers.ServerOptions{PollInterval: 20 * time.Millisecond}))
	for flag, want := range map[string]string{"failed": "failed", "completed": "completed"} {
		c := startStdio(t, false, "--tool-errors", flag, server)
		c.initialize()
		var created struct{ Task struct{ TaskID string } }
		c.must("tools/call", map[string]any{"name": "failing_job", "arguments": map[string]any{}, "task": map[string]any{}}, &created)
		c.call("tasks/result", map[string]any{"taskId": created.Task.TaskID})
		var task struct{ Status string }
		c.must("tasks/get", map[string]any{"taskId": created.Task.TaskID}, &task)
		if task.Status != want {
			t.Errorf("%s: the task is %s", flag, task.Status)
		}
		c.end()
	}
}
