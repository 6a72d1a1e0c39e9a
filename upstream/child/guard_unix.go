//go:build unix

package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// guardGrace is how long processes may take to terminate once we are gone.
const guardGrace = 2 * time.Second

// Guard is a second process that ends our children when we are killed
// (SIGKILL leaves us no time to). It is started with the first child, knows
// children by their marks and numbers, and ends with us. A nil *Guard guards
// nothing. Safe for concurrent use.
type Guard struct {
	command []string

	mu    sync.Mutex // protects the fields below
	cmd   *exec.Cmd
	pipe  *os.File
	tried bool
}

// NewGuard returns a guard that runs command, which must call RunGuard with
// its standard input: usually our own binary with an argument it knows.
func NewGuard(command ...string) *Guard { return &Guard{command: command} }

// expect says that a process of this mark is about to be started.
func (g *Guard) expect(mark string) { g.say("? " + mark) }

// watch says its number; forget that nothing of it is left.
func (g *Guard) watch(mark string, pid int) { g.say("+ " + mark + " " + strconv.Itoa(pid)) }
func (g *Guard) forget(mark string)         { g.say("- " + mark) }

func (g *Guard) say(line string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.tried {
		g.tried = true
		g.start()
	}
	if g.pipe != nil {
		if _, err := fmt.Fprintln(g.pipe, line); err != nil {
			g.pipe.Close()
			g.pipe = nil
		}
	}
}

// start runs the guard in a session of its own, so that what ends us does not
// end it. Without one, children still end with their input.
func (g *Guard) start() {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	cmd := exec.Command(g.command[0], g.command[1:]...)
	cmd.Stdin = r
	// Without a mark that a guard outside could take it for.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GOMAXPROCS=1"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		w.Close()
		return
	}
	g.cmd, g.pipe = cmd, w
}

// Close ends the guard, which ends what is left of our children, and waits for
// it.
func (g *Guard) Close() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tried = true
	if g.pipe != nil {
		g.pipe.Close()
		g.pipe = nil
	}
	if g.cmd == nil {
		return nil
	}
	cmd := g.cmd
	g.cmd = nil
	return cmd.Wait()
}

// RunGuard is the guard's own main: it reads what the program says and, when
// that ends, ends what is left.
func RunGuard(r io.Reader) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE)
	live := map[string]int{}
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		verb, rest, _ := strings.Cut(sc.Text(), " ")
		mark, number, _ := strings.Cut(rest, " ")
		switch verb {
		case "?":
			live[mark] = 0
		case "+":
			live[mark], _ = strconv.Atoi(number)
		case "-":
			delete(live, mark)
		}
	}
	var all sync.WaitGroup
	for mark, pid := range live {
		all.Go(func() { sweep(pid, mark, family(pid, mark), guardGrace) })
	}
	all.Wait()
}
