package child

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxLine  = 2 << 10 // of a line of standard error
	tailRows = 10      // lines kept for errors
	// lingering is how long a child's output may stay open after it has exited:
	// processes it started may hold it.
	lingering = 500 * time.Millisecond
)

// Spec says what to run.
type Spec struct {
	Path string   // found along PATH unless it has a separator
	Args []string // without the program's own name
	Env  []string // KEY=VALUE, over the base environment (env.go)
	Dir  string   // empty: ours
	// Log takes each line of standard error, at most 2 KiB of it, unsafe to print
	// as it is. It must not block. May be nil.
	Log func(line string)
	// CloseGrace is how long the process may take to exit after its input was
	// closed, TermGrace after the signal to terminate (1.5 s each).
	CloseGrace, TermGrace time.Duration
	// Guard, if set, is told of the process and ends it when we are killed.
	Guard *Guard
}

// Process is a running child, or one that has exited. Safe for concurrent use.
type Process struct {
	spec   Spec
	cmd    *exec.Cmd
	mark   string
	pid    int
	stdin  *os.File
	stdout *os.File
	sys    system

	exited chan struct{} // the process itself is over
	said   chan struct{} // and its standard error was read, unless somebody holds it
	done   chan struct{} // and all it has started, and its standard error was read

	mu    sync.Mutex // protects the fields below
	kin   []kin      // as known when it was to be ended
	tail  []string
	state string
	code  int
}

// Exit says how a child ended.
type Exit struct {
	Code int    // -1: by a signal
	Text string // "exit code 1", "signal: killed"
	// Tail are the last lines of standard error, at most 10 of at most 2 KiB.
	// They may hold secrets.
	Tail []string
}

// Start runs spec. The error says what to do; it never shows Env.
func Start(spec Spec) (*Process, error) {
	p := &Process{
		spec: spec, mark: rand.Text(),
		exited: make(chan struct{}), said: make(chan struct{}), done: make(chan struct{}),
	}
	p.spec.CloseGrace = cmp.Or(spec.CloseGrace, 1500*time.Millisecond)
	p.spec.TermGrace = cmp.Or(spec.TermGrace, 1500*time.Millisecond)
	program := spec.Path
	if spec.Dir != "" && strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) {
		program = filepath.Join(spec.Dir, program)
	}
	path, err := exec.LookPath(program)
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, fmt.Errorf("start %q: %w; is it installed, and on the PATH?", spec.Path, bare(err))
	}
	p.cmd = exec.Command(path, spec.Args...)
	p.cmd.Err = nil // a program beside us by its name alone: we were told to
	p.cmd.Dir = spec.Dir
	p.cmd.Env = environ(spec.Env, p.mark)
	var theirs []*os.File
	closeAll := func(files ...*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	err = nil
	inR, inW := pipe()
	outR, outW := pipe()
	errR, errW := pipe()
	if err != nil {
		closeAll(inR, inW, outR, outW, errR, errW)
		return nil, fmt.Errorf("start %q: %w", spec.Path, err)
	}
	theirs = []*os.File{inR, outW, errW}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errW
	p.sys.prepare(p.cmd)
	spec.Guard.expect(p.mark)
	err = p.cmd.Start()
	closeAll(theirs...)
	if err != nil {
		spec.Guard.forget(p.mark)
		closeAll(inW, outR, errR)
		return nil, fmt.Errorf("start %q: %w; can it be run, and does its directory exist?", spec.Path, bare(err))
	}
	p.pid, p.stdin, p.stdout = p.cmd.Process.Pid, inW, outR
	p.sys.started(p.cmd)
	spec.Guard.watch(p.mark, p.pid)
	read := make(chan struct{})
	go p.readErrors(errR, read)
	go p.reap(errR, read)
	return p, nil
}

// bare drops the path from an error: the caller names the program.
func bare(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// PID is the operating system's number for it.
func (p *Process) PID() int { return p.pid }

// Stdin is the process's standard input; Close may be called twice. A write
// blocks while the process does not read; Stop ends it.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is its standard output. It ends soon after the process has.
func (p *Process) Stdout() io.Reader { return p.stdout }

// Exited is closed once the process itself is over.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Said is closed soon after Exited, once Exit has all the process said.
func (p *Process) Said() <-chan struct{} { return p.said }

// Done is closed once everything is over: the process, what it has started,
// its standard error.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exit says how the process ended; valid once Exited is closed. The tail is
// whole once Said is.
func (p *Process) Exit() Exit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Exit{Code: p.code, Text: p.state, Tail: append([]string(nil), p.tail...)}
}

// Stop ends the process in order: its input is closed; if that is not enough it
// is told to terminate; then it is killed, with all it has started (2025-11-25
// basic/lifecycle, Shutdown). It returns when nothing is left and may be called
// by several at once.
func (p *Process) Stop() {
	p.remember()
	p.stdin.Close()
	if !p.within(p.spec.CloseGrace) {
		p.sys.terminate(p.pid)
		if !p.within(p.spec.TermGrace) {
			p.sys.kill(p.pid)
		}
	}
	<-p.done
}

// Kill ends it at once; it does not wait.
func (p *Process) Kill() {
	select {
	case <-p.exited: // its number may be another's by now
	default:
		p.remember()
		p.sys.kill(p.pid)
	}
}

// remember notes who belongs to the process while it lives.
func (p *Process) remember() {
	select {
	case <-p.exited:
		return
	default:
	}
	all := family(p.pid, p.mark)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(all) > 0 {
		p.kin = all
	}
}

func (p *Process) within(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.exited:
		return true
	case <-t.C:
		return false
	}
}

// reap waits for the process and ends what it leaves behind.
func (p *Process) reap(errR *os.File, read <-chan struct{}) {
	err := p.cmd.Wait()
	p.mu.Lock()
	p.state, p.code = "exit code 0", 0
	if ps := p.cmd.ProcessState; ps != nil {
		p.code = ps.ExitCode()
		p.state = fmt.Sprintf("exit code %d", p.code)
		if p.code < 0 {
			p.state = ps.String()
		}
	} else if err != nil {
		p.code, p.state = -1, err.Error()
	}
	p.mu.Unlock()
	close(p.exited)
	t := time.NewTimer(lingering)
	defer t.Stop()
	select {
	case <-read:
	case <-t.C: // somebody it started holds it
	}
	close(p.said)
	p.mu.Lock()
	known := p.kin
	p.mu.Unlock()
	sweep(p.pid, p.mark, known, p.spec.TermGrace)
	p.sys.close()
	errR.Close()
	<-read
	// Whoever reads the output has had time to read what was written.
	_ = p.stdout.SetReadDeadline(time.Now().Add(lingering))
	p.stdin.Close()
	p.spec.Guard.forget(p.mark)
	close(p.done)
}

// readErrors reads standard error to its end.
func (p *Process) readErrors(r io.Reader, read chan<- struct{}) {
	defer close(read)
	br := bufio.NewReaderSize(r, maxLine)
	for {
		raw, err := br.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if line := strings.TrimRight(string(raw), "\r\n"); line != "" {
			p.line(strings.ToValidUTF8(line, string(utf8.RuneError)))
		}
		for cut { // the rest of the line goes
			_, err = br.ReadSlice('\n')
			cut = errors.Is(err, bufio.ErrBufferFull)
		}
		if err != nil {
			return
		}
	}
}

func (p *Process) line(s string) {
	p.mu.Lock()
	if len(p.tail) == tailRows {
		p.tail = append(p.tail[:0], p.tail[1:]...)
	}
	p.tail = append(p.tail, s)
	p.mu.Unlock()
	if p.spec.Log != nil {
		p.spec.Log(s)
	}
}
