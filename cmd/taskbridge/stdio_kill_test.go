//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Variables of a peer process: pidsVar names a file it appends its number to,
// familyVar makes it start a process in a session of its own that ignores what
// can be ignored.
const (
	pidsVar   = "TASKBRIDGE_TEST_PIDS"
	familyVar = "TASKBRIDGE_TEST_FAMILY"
)

func init() {
	if os.Getenv(asPeer) == "stubborn" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		notePID()
		time.Sleep(2 * time.Minute)
		os.Exit(0)
	}
	if os.Getenv(asPeer) == "" {
		return
	}
	if os.Getenv(familyVar) != "" {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asPeer+"=stubborn")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
	}
	notePID()
	if os.Getenv(asPeer) == "half" {
		halfPeer()
	}
}

func notePID() {
	name := os.Getenv(pidsVar)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, os.Getpid())
	f.Close()
}

// pids are the processes that noted themselves.
func pids(t *testing.T, file string) (out []int) {
	t.Helper()
	raw, _ := os.ReadFile(file)
	for line := range strings.Lines(string(raw)) {
		if n, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && strings.HasSuffix(line, "\n") {
			out = append(out, n)
		}
	}
	return out
}

// living says whether a process runs; a zombie does not.
func living(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if _, noProc := os.Stat("/proc/self/stat"); noProc != nil {
			return syscall.Kill(pid, 0) == nil
		}
		return false
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	return len(fields) > 0 && fields[0][0] != 'Z'
}

func noneLeft(t *testing.T, file string) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for {
		var left []int
		for _, pid := range pids(t, file) {
			if living(pid) {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			t.Fatalf("processes %v are left after 10 s", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// killChild kills the newest child.
func killChild(t *testing.T, file string) {
	t.Helper()
	all := pids(t, file)
	if len(all) == 0 {
		t.Fatal("no child")
	}
	if err := syscall.Kill(all[len(all)-1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// TestKill_Child: the server's process is killed in the middle of a call, a
// task and a question. Each caller gets one answer, which says what happened;
// the task has failed; the next call is served by a new process.
func TestKill_Child(t *testing.T) {
	for _, clientModern := range []bool{false, true} {
		for _, serverModern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s client, %s server", eraName(clientModern), eraName(serverModern)), func(t *testing.T) {
				before := runtime.NumGoroutine()
				file := filepath.Join(t.TempDir(), "pids")
				c := startStdio(t, clientModern, append([]string{"-e", pidsVar + "=" + file}, peerArgs(t, serverModern, true)...)...)
				c.hold = true
				if !clientModern {
					c.initialize()
				}
				killedInCall(t, c, file)
				killedInTask(t, c, file)
				killedInQuestion(t, c, file, serverModern)
				if code := c.end(); code != exitOK {
					t.Errorf("exit %d", code)
				}
				noneLeft(t, file)
				eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+1 })
			})
		}
	}
}

// TestCaseB39_Readiness: /readyz is red from the end of the server's process
// until one answers again, and asks for that itself: where it is red, nobody
// else would.
func TestCaseB39_Readiness(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(eraName(modern)+" server", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pids")
			s := serve(t, append([]string{"-e", pidsVar + "=" + file, "--admin", "127.0.0.1:0"}, peerArgs(t, modern, true)...)...)
			ready := func() int {
				status, _, _ := ask(t, "GET", s.admin+"/readyz", nil, "")
				return status
			}
			if got := ready(); got != 200 {
				t.Errorf("before any call: %d", got)
			}
			m := modernClient(t, s.url)
			greet := func() {
				t.Helper()
				r, err := m.Call(t.Context(), "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}})
				if err != nil || r.Text() != "Hello, Ada!" {
					t.Errorf("%v %s", err, r.Raw)
				}
			}
			greet()
			if got := ready(); got != 200 {
				t.Errorf("while it runs: %d", got)
			}
			killChild(t, file)
			eventually(t, "red", func() bool { return ready() == 503 })
			if status, _, body := ask(t, "GET", s.admin+"/healthz", nil, ""); status != 200 {
				t.Errorf("the proxy itself is well: %d %s", status, body)
			}
			eventually(t, "green again, without a call", func() bool { return ready() == 200 })
			greet()
		})
	}
	t.Run("a command that never runs", func(t *testing.T) {
		s := serve(t, "--admin", "127.0.0.1:0", "--", "sh", "-c", "exit 7")
		if r, err := modernClient(t, s.url).Call(t.Context(), "tools/list", nil); err == nil && r.Status == 200 {
			t.Errorf("%s", r.Raw)
		}
		for range 50 {
			if status, _, body := ask(t, "GET", s.admin+"/readyz", nil, ""); status != 503 || body != "the server is down\n" {
				t.Fatalf("%d %q", status, body)
			}
		}
	})
}

// TestCaseB39_Listen: a modern client's listen outlives the server's process: it
// goes on with the next one, and the client is told of what may have changed.
func TestCaseB39_Listen(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(eraName(modern)+" server", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pids")
			s := serve(t, append([]string{"-e", pidsVar + "=" + file}, peerArgs(t, modern, true)...)...)
			heard := make(chan string, 64)
			sub, err := modernClient(t, s.url).Listen(t.Context(), map[string]any{"toolsListChanged": true}, func(method string, _ json.RawMessage) { heard <- method })
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				killChild(t, file)
				eventually(t, "told of what may have changed", func() bool {
					select {
					case method := <-heard:
						return method == "notifications/tools/list_changed"
					case <-sub.Done():
						t.Fatal("the listen is over")
					default:
					}
					return false
				})
			}
		})
	}
}

func killedInCall(t *testing.T, c *lineClient, file string) {
	t.Helper()
	if got := c.tool("greet", map[string]any{"name": "Ada"}); got != "Hello, Ada!" {
		t.Fatalf("greet: %s", got)
	}
	_, answer := c.begin("tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": 60}})
	_, other := c.begin("tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": 60}})
	time.Sleep(50 * time.Millisecond) // so that they are in the child, mostly
	killChild(t, file)
	for _, ch := range []chan lineMessage{answer, other} {
		if m := c.wait("killed", ch); m.Error == nil || !strings.Contains(m.Error.Message, "killed") {
			t.Errorf("the caller got %s %+v", m.Result, m.Error)
		}
	}
	if got := c.tool("greet", map[string]any{"name": "Bob"}); got != "Hello, Bob!" {
		t.Errorf("after the restart: %s", got)
	}
}

func killedInTask(t *testing.T, c *lineClient, file string) {
	t.Helper()
	var created struct {
		TaskID string
		Task   struct{ TaskID string }
	}
	c.must("tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 60}, "task": map[string]any{}}, &created)
	id := created.TaskID + created.Task.TaskID
	if id == "" {
		t.Fatal("no task")
	}
	var wait chan lineMessage
	if !c.modern {
		_, wait = c.begin("tasks/result", map[string]any{"taskId": id})
		time.Sleep(50 * time.Millisecond)
	}
	killChild(t, file)
	var task struct {
		Status, StatusMessage string
		Error                 json.RawMessage
	}
	eventually(t, "task failed", func() bool {
		c.must("tasks/get", map[string]any{"taskId": id}, &task)
		return task.Status == "failed"
	})
	if !strings.Contains(task.StatusMessage, "killed") || c.modern && task.Error == nil {
		t.Errorf("task: %+v", task)
	}
	if wait != nil {
		if m := c.wait("tasks/result", wait); m.Error == nil {
			t.Errorf("tasks/result: %s", m.Result)
		}
	}
}

// TestKill_ChildInALine: the process is killed in the middle of a line of 12 MiB,
// its own or ours. The call gets one error, half a message nobody, and the next
// call is served by a new process.
func TestKill_ChildInALine(t *testing.T) {
	for _, clientModern := range []bool{false, true} {
		for _, way := range []string{"up", "down"} {
			t.Run(eraName(clientModern)+" client, "+way, func(t *testing.T) {
				before := runtime.NumGoroutine()
				file := filepath.Join(t.TempDir(), "pids")
				c := startStdio(t, clientModern, "-e", pidsVar+"="+file, "-e", asPeer+"=half", "--", os.Args[0])
				if !clientModern {
					c.initialize()
				}
				whole := func() { c.must("tools/call", map[string]any{"name": "whole", "arguments": map[string]any{}}, nil) }
				whole()
				arguments := map[string]any{}
				if way == "up" {
					arguments["text"] = strings.Repeat("x", 12<<20)
				}
				_, answer := c.begin("tools/call", map[string]any{"name": way, "arguments": arguments})
				eventually(t, "half a line has passed", func() bool { _, err := os.Stat(file + ".half"); return err == nil })
				killChild(t, file)
				if m := c.wait("killed", answer); m.Error == nil || !strings.Contains(m.Error.Message, "killed") {
					t.Errorf("the caller got %.200s %+v", m.Result, m.Error)
				}
				if !clientModern { // its session has ended with the process
					c.initialize()
				}
				whole()
				if code := c.end(); code != exitOK {
					t.Errorf("exit %d", code)
				}
				noneLeft(t, file)
				eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+1 })
			})
		}
	}
}

// halfPeer is a legacy server that stops in the middle of a line: one it writes
// in a call of down, one it reads in a call of up.
func halfPeer() {
	in := bufio.NewReader(os.Stdin)
	half := func() {
		_ = os.WriteFile(os.Getenv(pidsVar)+".half", nil, 0o600)
		time.Sleep(2 * time.Minute)
	}
	for {
		line, long, err := in.ReadLine()
		if err != nil {
			os.Exit(0)
		}
		if long {
			_, _ = io.CopyN(io.Discard, in, 6<<20)
			half()
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		_ = json.Unmarshal(line, &m)
		switch {
		case m.ID == nil:
		case m.Method == "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"half","version":"1"}}}`+"\n", m.ID)
		case m.Method == "tools/list":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`+"\n", m.ID)
		case m.Params.Name == "down":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s`, m.ID, strings.Repeat("x", 6<<20))
			half()
		case m.Method == "tools/call":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`+"\n", m.ID)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`+"\n", m.ID)
		}
	}
}

func killedInQuestion(t *testing.T, c *lineClient, file string, serverModern bool) {
	t.Helper()
	_, answer := c.begin("tools/call", map[string]any{"name": "ask_name"})
	if c.modern {
		// It is parked, so its answer has come; the retry hears of the end.
		var r struct {
			ResultType, RequestState string
			InputRequests            map[string]json.RawMessage
		}
		if m := c.wait("ask_name", answer); m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.ResultType != "input_required" {
			t.Fatalf("ask_name: %s %+v", m.Result, m.Error)
		}
		killChild(t, file)
		answers := map[string]any{}
		for key := range r.InputRequests {
			answers[key] = map[string]any{"action": "accept", "content": map[string]any{"name": "Ada"}}
		}
		c.call("tools/call", map[string]any{"name": "ask_name", "inputResponses": answers, "requestState": r.RequestState})
	} else {
		eventually(t, "question", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.asked) == 1 })
		killChild(t, file)
		if !serverModern { // a modern server has answered, and knows of nothing that waits
			if m := c.wait("ask_name", answer); m.Error == nil {
				t.Errorf("ask_name: %s", m.Result)
			}
		}
		c.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Ada"}}}`, c.asked[0].ID)
		if serverModern {
			c.wait("ask_name", answer)
		}
	}
	if got := c.tool("greet", map[string]any{"name": "Eve"}); got != "Hello, Eve!" {
		t.Errorf("after the question: %s", got)
	}
}
