package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// asCommand makes the test binary the command itself, for tests of signals.
const asCommand = "TASKBRIDGE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" || len(os.Args) == 2 && os.Args[1] == guardArg {
		main()
	}
	in, out := io.Reader(os.Stdin), io.Writer(os.Stdout)
	if name := os.Getenv(peerLog); name != "" {
		in, out = loggedLines(name, in, out)
	}
	switch os.Getenv(asPeer) {
	case "legacy":
		_ = peers.ServeStdio(peers.NewLegacyServer(peers.ServerOptions{PollInterval: 20 * time.Millisecond}), in, out)
		os.Exit(0)
	case "modern":
		_ = peers.ServeStdio(peers.NewModernServer(peers.ServerOptions{PollInterval: 20 * time.Millisecond}), in, out)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// asPeer makes the test binary a server on stdio, peerLog has it keep what it
// reads and writes in two files beside each other.
const (
	asPeer  = "TASKBRIDGE_TEST_AS_PEER"
	peerLog = "TASKBRIDGE_TEST_PEER_LOG"
)

// loggedLines copies a process's streams to NAME.in and NAME.out, which all
// processes share.
func loggedLines(name string, in io.Reader, out io.Writer) (io.Reader, io.Writer) {
	open := func(ext string) *os.File {
		f, err := os.OpenFile(name+ext, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		return f
	}
	return io.TeeReader(in, open(".in")), io.MultiWriter(open(".out"), out)
}

// process is a serve command in a process of its own.
type process struct {
	cmd        *exec.Cmd
	url, admin string
	stderr     *buffer
	done       chan error
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{stderr: new(buffer), done: make(chan error, 1)}
	p.cmd = exec.Command(os.Args[0], append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	// The race detector would sleep a second at exit.
	p.cmd.Env = append(os.Environ(), asCommand+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	eventually(t, "listening", func() bool {
		m := listenLine.FindStringSubmatch(p.stderr.String())
		if m != nil {
			p.url = m[1]
		}
		return m != nil
	})
	p.admin = adminLine.FindStringSubmatch(p.stderr.String())[1]
	return p
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (p *process) wait(t *testing.T, within time.Duration) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(within):
		t.Fatalf("still running after %v: %s", within, p.stderr)
		return nil
	}
}

// slowCall starts a call and returns once the server has it.
func slowCall(t *testing.T, srv *peers.LegacyServer, url string, seconds int) chan peers.Reply {
	t.Helper()
	c := modernClient(t, url)
	answered := make(chan peers.Reply, 1)
	go func() {
		r, _ := c.Call(context.Background(), "tools/call", map[string]any{"name": "slow_plain", "arguments": map[string]any{"seconds": seconds}})
		answered <- r
	}()
	eventually(t, "call in flight", func() bool { return srv.Calls("slow_plain") == 1 })
	return answered
}

// TestDrain: SIGTERM ends readiness and new work, lets the call in flight
// finish, and leaves the server's tasks alone.
func TestDrain(t *testing.T) {
	var deletes atomic.Int64
	srv := peers.NewLegacyServer(peers.ServerOptions{TasksPerSession: true, Trace: func(e peers.TraceEntry) {
		if e.HTTP == http.MethodDelete && !e.Out {
			deletes.Add(1)
		}
	}})
	p := startProcess(t, "--upstream", peer(t, srv))
	task, err := modernClient(t, p.url).Call(t.Context(), "tools/call", map[string]any{"name": "slow_compute", "arguments": map[string]any{"seconds": 3}})
	if err != nil || task.Err() != nil {
		t.Fatalf("%v %s", err, task.Raw)
	}
	if status, _, _ := ask(t, "GET", p.admin+"/readyz", nil, ""); status != 200 {
		t.Errorf("ready: %d", status)
	}
	answered := slowCall(t, srv, p.url, 1)
	before := deletes.Load() // the probe ends its own session
	p.signal(t, syscall.SIGTERM)
	eventually(t, "unready", func() bool {
		status, _, _ := ask(t, "GET", p.admin+"/readyz", nil, "")
		return status == http.StatusServiceUnavailable
	})
	if r := <-answered; r.Text() != "Answered after 1s." {
		t.Errorf("the call in flight: %d %s", r.Status, r.Raw)
	}
	if err := p.wait(t, 5*time.Second); err != nil {
		t.Errorf("%v: %s", err, p.stderr)
	}
	if n := deletes.Load(); n != before {
		t.Errorf("%d sessions were deleted, and their tasks with them", n-before)
	}
	if s := p.stderr.String(); !strings.Contains(s, "draining") || !strings.Contains(s, "stopped") {
		t.Errorf("log: %s", s)
	}
}

func TestDrainTimeout(t *testing.T) {
	srv := peers.NewLegacyServer(peers.ServerOptions{})
	p := startProcess(t, "--upstream", peer(t, srv), "--drain-timeout", "100ms")
	answered := slowCall(t, srv, p.url, 60)
	p.signal(t, os.Interrupt)
	if err := p.wait(t, 10*time.Second); err != nil {
		t.Errorf("%v: %s", err, p.stderr)
	}
	if r := <-answered; r.Text() != "" || !strings.Contains(p.stderr.String(), "cut off") {
		t.Errorf("%s\n%s", r.Raw, p.stderr)
	}
}

func TestSecondSignal(t *testing.T) {
	srv := peers.NewLegacyServer(peers.ServerOptions{})
	p := startProcess(t, "--upstream", peer(t, srv), "--drain-timeout", "1m")
	slowCall(t, srv, p.url, 60)
	p.signal(t, syscall.SIGTERM)
	eventually(t, "draining", func() bool { return strings.Contains(p.stderr.String(), "draining") })
	p.signal(t, syscall.SIGTERM)
	if err := p.wait(t, 10*time.Second); err == nil {
		t.Error("the second signal let it finish")
	}
}

// TestSafetyS54_ServeHangup: SIGHUP does not end serve, nor the call in flight,
// before and while it drains.
func TestSafetyS54_ServeHangup(t *testing.T) {
	srv := peers.NewLegacyServer(peers.ServerOptions{})
	p := startProcess(t, "--upstream", peer(t, srv))
	answered := slowCall(t, srv, p.url, 1)
	said := func() int { return strings.Count(p.stderr.String(), "nothing is reloaded") }
	p.signal(t, syscall.SIGHUP)
	eventually(t, "heard", func() bool { return said() == 1 })
	p.signal(t, syscall.SIGHUP)
	eventually(t, "heard again", func() bool { return said() == 2 })
	if r := <-answered; r.Text() != "Answered after 1s." {
		t.Errorf("the call in flight: %d %s", r.Status, r.Raw)
	}
	r, err := modernClient(t, p.url).Call(t.Context(), "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}})
	if err != nil || r.Text() != "Hello, Ada!" {
		t.Errorf("afterwards: %v %s", err, r.Raw)
	}
	p.signal(t, syscall.SIGTERM)
	if err := p.wait(t, 10*time.Second); err != nil {
		t.Errorf("%v: %s", err, p.stderr)
	}
}
