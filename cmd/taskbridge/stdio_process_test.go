//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stdioProcess is taskbridge stdio in a process of its own, before a legacy
// server with a family.
func stdioProcess(t *testing.T) (cmd *exec.Cmd, in io.WriteCloser, out *os.File, file string, done chan error) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "pids")
	cmd = exec.Command(os.Args[0], "stdio", "--drain-timeout", "200ms",
		"-e", pidsVar+"="+file, "-e", familyVar+"=1", "-e", asPeer+"=legacy", "--upstream-era", "legacy", "--", os.Args[0])
	cmd.Env = append(os.Environ(), asCommand+"=1", "GORACE=atexit_sleep_ms=0")
	stderr := new(buffer)
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	done = make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		r.Close()
		if t.Failed() {
			t.Log(stderr)
		}
	})
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if n, err := r.Read(make([]byte, 4096)); n == 0 {
		t.Fatalf("no answer: %v", err)
	}
	eventually(t, "the family is there", func() bool { return len(pids(t, file)) >= 2 })
	return cmd, in, r, file, done
}

// hangupIgnored: at the start, before a test asks for the signal itself.
var hangupIgnored = signal.Ignored(syscall.SIGHUP)

func ended(t *testing.T, done chan error) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("taskbridge still runs after 10 s")
	}
}

// TestSafetyS54_ClientDies: whatever ends the client or the proxy, no process
// is left after 10 s, not even a stubborn one in a session of its own.
func TestSafetyS54_ClientDies(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("processes in sessions of their own are found on Linux only")
	}
	for name, end := range map[string]func(cmd *exec.Cmd, in io.WriteCloser, out *os.File){
		"standard input ends": func(_ *exec.Cmd, in io.WriteCloser, _ *os.File) { in.Close() },
		"standard output closed in the middle of a write": func(_ *exec.Cmd, in io.WriteCloser, out *os.File) {
			fmt.Fprintln(in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"big","arguments":{"bytes":4000000}}}`)
			_, _ = io.ReadFull(out, make([]byte, 100_000))
			out.Close()
		},
		"SIGHUP":  func(cmd *exec.Cmd, _ io.WriteCloser, _ *os.File) { _ = cmd.Process.Signal(syscall.SIGHUP) },
		"SIGTERM": func(cmd *exec.Cmd, _ io.WriteCloser, _ *os.File) { _ = cmd.Process.Signal(syscall.SIGTERM) },
		"SIGKILL": func(cmd *exec.Cmd, _ io.WriteCloser, _ *os.File) { _ = cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "SIGHUP" && hangupIgnored {
				t.Skip("the tests run under nohup, which processes started here inherit and taskbridge respects")
			}
			cmd, in, out, file, done := stdioProcess(t)
			end(cmd, in, out)
			ended(t, done)
			noneLeft(t, file)
		})
	}
}

// memoryOf is what a process has in memory, and had at most, in bytes.
func memoryOf(t *testing.T, pid int) (now, most int64) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("reads /proc")
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmRSS:":
			now = n << 10
		case "VmHWM:":
			most = n << 10
		}
	}
	return now, most
}

// TestCaseB59_StdioMemory: a message of 12 MiB takes at most four times its
// size on its way through.
func TestCaseB59_StdioMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own memory is no word about ours")
	}
	cmd, in, out, _, done := stdioProcess(t)
	before, _ := memoryOf(t, cmd.Process.Pid)
	const size = 12 << 20
	fmt.Fprintf(in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"big","arguments":{"bytes":%d}}}`+"\n", size)
	if _, err := io.CopyN(io.Discard, out, size); err != nil {
		t.Fatal(err)
	}
	_, most := memoryOf(t, cmd.Process.Pid)
	if grown := most - before; grown > 4*size {
		t.Errorf("it took %d MiB for a message of %d MiB", grown>>20, size>>20)
	} else {
		t.Logf("it took %d MiB for a message of %d MiB", grown>>20, size>>20)
	}
	in.Close()
	ended(t, done)
}
