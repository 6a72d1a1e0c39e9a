package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"taskbridge/cmd/peers"
	"taskbridge/session"
	"taskbridge/session/throttle"
)

// TestLimitFlags: every limit has a flag and a variable, and says what is wrong.
func TestLimitFlags(t *testing.T) {
	f := &serveFlags{}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.register(fs)
	t.Setenv("TASKBRIDGE_MAX_TASKS_TOTAL", "12")
	t.Setenv("TASKBRIDGE_MAX_BYTES_PER_SECOND", "3MiB")
	err := fs.Parse([]string{
		"--max-tasks", "11", "--max-sessions", "21", "--max-sessions-total", "22", "--max-server-sessions", "31", "--max-server-sessions-total", "32",
		"--max-streams", "41", "--max-streams-total", "42", "--max-requests-per-second", "0.5", "--max-requests-per-second-total", "1000",
		"--max-requests-burst", "7", "--max-bytes-in-flight", "1024",
	})
	if err == nil {
		err = applyEnv(fs)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.url = "http://127.0.0.1/mcp"
	c, err := f.check(&app{}, fs)
	if err != nil {
		t.Fatal(err)
	}
	p := c.routes[0].policy
	for name, pair := range map[string][2]session.Limit{
		"tasks": {p.Tasks, {Each: 11, All: 12}}, "sessions": {p.Sessions, {Each: 21, All: 22}},
		"server sessions": {p.Upstreams, {Each: 31, All: 32}}, "streams": {p.Streams, {Each: 41, All: 42}},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %+v, want %+v", name, pair[0], pair[1])
		}
	}
	if want := (throttle.Limits{Rate: 0.5, RateTotal: 1000, Burst: 7, Bytes: 3 << 20, InFlight: 1024}); c.rates != want {
		t.Errorf("rates: %+v, want %+v", c.rates, want)
	}
	for _, tt := range []struct{ flag, value, want string }{
		{"max-tasks", "-1", "want a whole number"},
		{"max-tasks", "1.5", "want a whole number"},
		{"max-tasks", "9999999999", "want a whole number"},
		{"max-requests-per-second", "-1", "want a number of times a second"},
		{"max-requests-per-second", "0.000001", "want a number of times a second"},
		{"max-requests-per-second", "NaN", "want a number of times a second"},
		{"max-requests-per-second", "Inf", "want a number of times a second"},
		{"max-bytes-per-second", "1MB", "want a size"},
	} {
		code, _, stderr := runArgs(t, "serve", "--upstream", "http://127.0.0.1/mcp", "--"+tt.flag+"="+tt.value)
		if code != exitUsage || !strings.Contains(stderr, tt.flag) || !strings.Contains(stderr, tt.want) {
			t.Errorf("--%s %s: exit %d: %s", tt.flag, tt.value, code, stderr)
		}
	}
}

// TestLimitFlags_Reach: the flags reach the work, of both kinds.
func TestLimitFlags_Reach(t *testing.T) {
	server := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	for _, tt := range []struct {
		flag, value, limit string
		call               string
		calls              int
	}{
		{"--max-tasks", "2", "tasks", "tools/call", 3},
		{"--max-requests-burst", "4", "rate", "tools/list", 5},
	} {
		args := []string{tt.flag, tt.value, server}
		if tt.limit == "rate" {
			args = append([]string{"--max-requests-per-second", "0.001"}, args...)
		}
		c := startStdio(t, false, args...)
		c.initialize()
		refused := ""
		for range tt.calls {
			params := map[string]any{}
			if tt.call == "tools/call" {
				params = map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 600}, "task": map[string]any{}}
			}
			if m := c.call(tt.call, params); m.Error != nil {
				refused = fmt.Sprintf("%+v %s", m.Error, m.Error.Data)
			}
		}
		if !strings.Contains(refused, `"limit":"`+tt.limit+`"`) || !strings.Contains(refused, "retryAfterMs") {
			t.Errorf("%s: the last of %d calls: %s", tt.flag, tt.calls, refused)
		}
		c.end()
	}
}

func TestMetrics_Limited(t *testing.T) {
	m := newMetrics()
	for range 3 {
		m.Limited("tasks")
		m.Limited("made up by a peer")
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			if f.GetName() == "taskbridge_limited_total" {
				got[s.GetLabel()[0].GetValue()] = s.GetCounter().GetValue()
			}
		}
	}
	if len(got) != 2 || got["tasks"] != 3 || got[other] != 3 {
		t.Errorf("counted %v", got)
	}
}

// TestLimits_EndedTasks: the limit is of tasks at a time. Those of a legacy server
// that were seen to end, or were cancelled, make room for others, and can be
// fetched all the same, however many there have been.
func TestLimits_EndedTasks(t *testing.T) {
	s := serve(t, "--upstream", peer(t, peers.NewLegacyServer(peers.ServerOptions{})), "--max-tasks", "2")
	c := modernClient(t, s.url)
	call := func(method string, params map[string]any) (peers.Reply, map[string]any) {
		t.Helper()
		r, err := c.Call(t.Context(), method, params)
		if err != nil {
			t.Fatal(err)
		}
		var task map[string]any
		if r.Err() == nil {
			if err := json.Unmarshal(r.Result, &task); err != nil {
				t.Fatal(err)
			}
		}
		return r, task
	}
	begin := func() (string, error) {
		t.Helper()
		r, task := call("tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 600}})
		id, _ := task["taskId"].(string)
		return id, r.Err()
	}
	for round := range 4 {
		var ids []string
		for range 2 {
			id, err := begin()
			if err != nil || id == "" {
				t.Fatalf("round %d: %q %v", round, id, err)
			}
			ids = append(ids, id)
		}
		if _, err := begin(); err == nil {
			t.Fatalf("round %d: a third task at a time", round)
		}
		for _, id := range ids {
			for _, method := range []string{"tasks/cancel", "tasks/get", "tasks/get"} {
				r, task := call(method, map[string]any{"taskId": id})
				if r.Err() != nil || method == "tasks/get" && task["status"] != "cancelled" {
					t.Errorf("round %d: %s: %v %v", round, method, r.Err(), task["status"])
				}
			}
		}
	}
}
