//go:build unix

package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary plays all parts: asVar says which.
const asVar = "CHILD_TEST_AS"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		RunGuard(os.Stdin)
		os.Exit(0)
	}
	part, arg, _ := strings.Cut(os.Getenv(asVar), " ")
	if part == "" {
		os.Exit(m.Run())
	}
	parts[part](arg)
	os.Exit(0)
}

var parts = map[string]func(arg string){
	// cat until the input ends.
	"cat": func(string) { _, _ = io.Copy(os.Stdout, os.Stdin) },
	"exit": func(arg string) {
		fmt.Fprintf(os.Stderr, "about to fail\n%s\nlast words", strings.Repeat("x", 5000))
		code, _ := strconv.Atoi(arg)
		os.Exit(code)
	},
	// stubborn ignores everything that can be ignored.
	"stubborn": func(string) {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Println("ready")
		time.Sleep(time.Minute)
	},
	"env": func(string) {
		for _, kv := range os.Environ() {
			fmt.Println(kv)
		}
	},
	// family leaves a stubborn grandchild in a session of its own, without our
	// environment's mark for the second one, and writes their numbers to a file.
	"family": func(file string) {
		var pids []string
		for _, scrub := range []bool{false, true} {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), asVar+"=stubborn")
			if scrub {
				cmd.Env = []string{asVar + "=stubborn"}
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				panic(err)
			}
			pids = append(pids, strconv.Itoa(cmd.Process.Pid))
		}
		pids = append(pids, strconv.Itoa(os.Getpid()))
		writeWhole(file, strings.Join(pids, " "))
		_, _ = io.Copy(io.Discard, os.Stdin)
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Minute)
	},
	// keeper runs a family under a guard until it is killed.
	"keeper": func(file string) {
		p, err := Start(Spec{Path: os.Args[0], Env: []string{asVar + "=family " + file}, Guard: NewGuard(os.Args[0], "guard")})
		if err != nil {
			panic(err)
		}
		<-p.Done()
	},
}

func writeWhole(file, text string) {
	tmp := file + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(tmp, file); err != nil {
		panic(err)
	}
}

func start(t *testing.T, as string, change ...func(*Spec)) *Process {
	t.Helper()
	spec := Spec{Path: os.Args[0], Env: []string{asVar + "=" + as}, CloseGrace: 10 * time.Second, TermGrace: 10 * time.Second}
	for _, f := range change {
		f(&spec)
	}
	p, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(); <-p.Done() })
	return p
}

func shortGraces(s *Spec) { s.CloseGrace, s.TermGrace = 50*time.Millisecond, 50*time.Millisecond }

func TestStop_ClosingTheInputIsEnough(t *testing.T) {
	p := start(t, "cat")
	fmt.Fprintln(p.Stdin(), "hello")
	line, _ := bufio.NewReader(p.Stdout()).ReadString('\n')
	if line != "hello\n" {
		t.Errorf("got %q", line)
	}
	p.Stop()
	if e := p.Exit(); e.Code != 0 || e.Text != "exit code 0" {
		t.Errorf("%+v", e)
	}
}

func TestStop_Stubborn(t *testing.T) {
	p := start(t, "stubborn", shortGraces)
	if line, _ := bufio.NewReader(p.Stdout()).ReadString('\n'); line != "ready\n" {
		t.Fatalf("got %q", line)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(p.Stop)
	}
	all.Wait()
	if e := p.Exit(); e.Code != -1 || !strings.Contains(e.Text, "killed") {
		t.Errorf("%+v", e)
	}
}

func TestExit(t *testing.T) {
	var mu sync.Mutex
	var logged []string
	p := start(t, "exit 3", func(s *Spec) {
		s.Log = func(line string) { mu.Lock(); defer mu.Unlock(); logged = append(logged, line) }
	})
	<-p.Done()
	e := p.Exit()
	if e.Code != 3 || e.Text != "exit code 3" {
		t.Errorf("%+v", e)
	}
	if len(e.Tail) != 3 || e.Tail[0] != "about to fail" || len(e.Tail[1]) > maxLine || e.Tail[2] != "last words" {
		t.Errorf("tail %q", e.Tail)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(logged) != 3 {
		t.Errorf("logged %q", logged)
	}
	if raw, err := io.ReadAll(p.Stdout()); len(raw) > 0 {
		t.Errorf("output %q %v", raw, err)
	}
}

func TestStart_NotThere(t *testing.T) {
	_, err := Start(Spec{Path: "no-such-program-here"})
	if err == nil || !strings.Contains(err.Error(), "no-such-program-here") || !strings.Contains(err.Error(), "PATH") {
		t.Errorf("%v", err)
	}
	if _, err = Start(Spec{Path: os.Args[0], Dir: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("started in a directory that is not there")
	}
}

func TestStart_RelativeToItsDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "say.sh"), []byte("#!/bin/sh\npwd\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := start(t, "", func(s *Spec) { s.Path, s.Dir = "./say.sh", dir })
	raw, _ := io.ReadAll(p.Stdout())
	want, _ := filepath.EvalSymlinks(dir)
	if strings.TrimSpace(string(raw)) != want {
		t.Errorf("%q, want %q", raw, want)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("SHELL", "() { :; }; echo")
	t.Setenv(markVar, "outermark")
	p := start(t, "env", func(s *Spec) { s.Env = append(s.Env, "GIVEN=1", "HOME=/elsewhere") })
	raw, _ := io.ReadAll(p.Stdout())
	got := "\n" + string(raw)
	for _, want := range []string{"\nGIVEN=1\n", "\nHOME=/elsewhere\n", "\nPATH=", "\nLC_ALL=C.UTF-8\n", "\n" + markVar + "=outermark."} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	for _, bad := range []string{"hunter2", "() {"} {
		if strings.Contains(got, bad) {
			t.Errorf("%q in %s", bad, got)
		}
	}
}

// familyOf waits for the numbers of a family.
func familyOf(t *testing.T, file string) (pids []int) {
	t.Helper()
	eventually(t, "family is there", func() bool { _, err := os.Stat(file); return err == nil })
	raw, _ := os.ReadFile(file)
	for f := range strings.FieldsSeq(string(raw)) {
		pid, _ := strconv.Atoi(f)
		pids = append(pids, pid)
	}
	t.Cleanup(func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return pids
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

func TestStop_GrandchildrenInOwnSessions(t *testing.T) {
	if !sweeps {
		t.Skip("only Linux finds processes in sessions of their own")
	}
	file := filepath.Join(t.TempDir(), "pids")
	p := start(t, "family "+file, shortGraces)
	pids := familyOf(t, file)
	p.Stop()
	for _, pid := range pids {
		if running(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// TestGuard: our own end by SIGKILL leaves nothing.
func TestGuard(t *testing.T) {
	if !sweeps {
		t.Skip("only Linux finds processes in sessions of their own")
	}
	file := filepath.Join(t.TempDir(), "pids")
	keeper := exec.Command(os.Args[0])
	keeper.Env = append(os.Environ(), asVar+"=keeper "+file)
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	pids := familyOf(t, file)
	_ = keeper.Process.Kill()
	_ = keeper.Wait()
	eventually(t, "nothing is left", func() bool {
		return !slices.ContainsFunc(pids, running)
	})
}
