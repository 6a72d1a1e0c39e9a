package e2e

import (
	"bufio"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that runs until the test ends or end is called.
type process struct {
	name string
	cmd  *exec.Cmd
	said lockedBuffer // its messages, shown where the test fails
	done chan struct{}
	once sync.Once
	stop func() error  // asks it to end
	wait time.Duration // how long it may take over that
	must bool          // not to do so fails the test
}

// startPeerProcess runs a peer, which says on its standard output that it is ready and
// ends with its input. ready gets each line until it returns true.
func startPeerProcess(t testing.TB, name string, cmd *exec.Cmd, ready func(line string) bool) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, cmd: cmd, stop: in.Close, wait: 5 * time.Second}
	cmd.Stderr = &p.said
	p.start(t, out, ready)
}

// startProxy runs the built command, which says on its standard error that it
// is ready and ends in order when it is told to. ready gets each line until it
// returns true.
func startProxy(t testing.TB, args []string, ready func(line string) bool) *process {
	t.Helper()
	p := &process{name: "the proxy", cmd: exec.Command(builtBridge(t), args...), wait: rehearsalPatience, must: true}
	p.stop = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	lines, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.start(t, lines, ready)
	return p
}

func (p *process) start(t testing.TB, from io.Reader, ready func(line string) bool) {
	t.Helper()
	p.done = make(chan struct{})
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	isReady := make(chan struct{})
	go p.follow(from, func(line string) bool {
		if !ready(line) {
			return false
		}
		close(isReady)
		return true
	})
	t.Cleanup(func() {
		p.end(t)
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, p.said.String())
		}
	})
	select {
	case <-isReady:
	case <-p.done:
		t.Fatalf("%s ended before it was ready:\n%s", p.name, p.said.String())
	case <-time.After(startPatience):
		t.Fatalf("%s was not ready:\n%s", p.name, p.said.String())
	}
}

// follow reads all it says, so that it never waits for a reader.
func (p *process) follow(from io.Reader, ready func(line string) bool) {
	defer close(p.done)
	waits := true
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		_, _ = io.WriteString(&p.said, line)
		waits = waits && !ready(strings.TrimSpace(line))
	}
	_ = p.cmd.Wait()
}

// freeAddress is one on loopback for a program that takes no port 0.
func freeAddress(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	return ln.Addr().String()
}

// end ends it in order.
func (p *process) end(t testing.TB) {
	t.Helper()
	p.once.Do(func() { _ = p.stop() })
	select {
	case <-p.done:
	case <-time.After(p.wait):
		if p.must {
			t.Errorf("%s did not end when it was told to", p.name)
		}
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
