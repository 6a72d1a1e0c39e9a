package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/record"
	"taskbridge/upstream"
)

// roleArg as the first argument makes a process one of the three below.
const roleArg = "role"

const (
	roleServer  = "server"
	roleBridge  = "bridge"
	roleReverse = "reverse"
)

// What the parent says to a role, one word a line. It answers each with one
// line of JSON, and ends with its input.
const (
	sayUsage = "usage"
	sayReset = "reset" // forget the peak of memory so far
)

// usage is what a process has taken so far.
type usage struct {
	CPU            time.Duration
	Mallocs, Bytes uint64
	RSS, Peak      int64  // 0 where the system does not say
	Served         uint64 // requests, of the server
	Dropped        uint64 // frames that were not recorded
}

// serveRole is a child process.
func serveRole(args []string) error {
	fs := flag.NewFlagSet(roleArg, flag.ContinueOnError)
	target := fs.String("target", "", "URL of the server behind")
	large := fs.Int("large", 0, "bytes of a large message")
	pool := fs.Bool("pool", false, "reverse: use a buffer pool")
	forget := fs.Bool("no-snapshots", false, "bridge: keep no snapshots of tasks")
	file := fs.String("record", "", "bridge: file to record to")
	cpu := fs.String("cpuprofile", "", "file")
	mem := fs.String("memprofile", "", "file")
	if len(args) == 0 {
		return errors.New("no role")
	}
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var serve func(net.Listener) error
	switch args[0] {
	case roleServer:
		serve = (&http.Server{Handler: newServer(*large)}).Serve
	case roleReverse:
		h, err := newReverse(*target, *pool)
		if err != nil {
			return err
		}
		serve = (&http.Server{Handler: h}).Serve
	case roleBridge:
		var stop func() error
		if serve, stop, err = newBridge(*target, *forget, *file); err != nil {
			return err
		}
		defer stop()
	default:
		return fmt.Errorf("unknown role %q", args[0])
	}
	stop, err := profileCPU(*cpu)
	if err != nil {
		return err
	}
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- serve(ln) }()
	done := make(chan error, 1)
	go func() { done <- obey(os.Stdin, os.Stdout, ln.Addr().String()) }()
	select {
	case err = <-failed:
	case err = <-done:
	}
	if *mem != "" && err == nil {
		err = writeAllocs(*mem)
	}
	return err
}

// profileCPU writes a profile to file, if one is named, until stop is called.
func profileCPU(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

func writeAllocs(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("allocs").WriteTo(f, 0)
}

// obey says where the role listens, then answers its parent until it is gone.
func obey(in io.Reader, out io.Writer, addr string) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(addr); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if lines.Text() == sayReset {
			resetPeak()
		}
		if err := enc.Encode(usageNow()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func usageNow() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{CPU: cpuTime(), Mallocs: m.Mallocs, Bytes: m.TotalAlloc, RSS: statusBytes("VmRSS:"), Peak: statusBytes("VmHWM:"), Served: served.Load(), Dropped: dropped.Load()}
}

// statusBytes is a line of Linux's /proc/self/status.
func statusBytes(key string) int64 {
	raw, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// resetPeak sets VmHWM to VmRSS (proc(5), clear_refs).
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// dropped counts the frames the bridge did not record.
var dropped atomic.Uint64

// newBridge is the bridge as a front end of one server serves it; with file it
// records until stop.
func newBridge(target string, forget bool, file string) (serve func(net.Listener) error, stop func() error, err error) {
	handles, err := session.NewHandles([][]byte{[]byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		return nil, nil, err
	}
	var tap session.Tap
	stop = func() error { return nil }
	if file != "" {
		r, err := record.New(record.Options{File: file, Mask: handles.MaskText, Dropped: func() { dropped.Add(1) }})
		if err != nil {
			return nil, nil, err
		}
		tap, stop = r, r.Close
	}
	budget := session.NewBudget(0)
	dialer, err := upstream.NewHTTP(upstream.HTTPOptions{
		Upstreams: map[string]upstream.HTTPUpstream{"default": {URL: target}},
		Budget:    budget,
		Tap:       tap,
	})
	if err != nil {
		return nil, nil, err
	}
	snapshots := session.NewSnapshots(0, 0)
	if forget {
		snapshots = session.NewSnapshots(1, 1)
	}
	runner, err := session.New(session.Options{
		Store: memory.New(), Dialer: dialer, Handles: handles, Snapshots: snapshots,
		Faces: upstream.NewEras(upstream.EraOptions{Dialer: dialer}),
	})
	if err != nil {
		return nil, nil, err
	}
	srv, err := downstream.New(downstream.Options{Hub: runner, Loopback: true, Budget: budget, Tap: tap})
	if err != nil {
		return nil, nil, err
	}
	return func(ln net.Listener) error { return srv.Serve(context.Background(), ln) }, stop, nil
}

// newReverse is what the bridge is measured against.
func newReverse(target string, pool bool) (http.Handler, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	to.Path = ""
	rp := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		// Its default keeps two idle sockets a server, which would make it dial
		// for most requests.
		Transport: &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
	if pool {
		rp.BufferPool = new(bufferPool)
	}
	path := strings.TrimPrefix(target, to.String())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.URL.Path = path
		rp.ServeHTTP(w, r)
	}), nil
}

type bufferPool struct{ p sync.Pool }

func (b *bufferPool) Get() []byte {
	if p, ok := b.p.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *bufferPool) Put(p []byte) { b.p.Put(&p) }

// child is a role as its parent holds it.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	addr string
}

func start(role string, args ...string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(exe, append([]string{roleArg, role}, args...)...)}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = json.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if err := c.out.Decode(&c.addr); err != nil {
		c.stop()
		return nil, fmt.Errorf("%s does not start: %w", role, err)
	}
	return c, nil
}

func (c *child) ask(word string) (usage, error) {
	var u usage
	if _, err := io.WriteString(c.in, word+"\n"); err != nil {
		return u, err
	}
	err := c.out.Decode(&u)
	return u, err
}

func (c *child) stop() error {
	if c == nil {
		return nil
	}
	c.in.Close()
	late := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	return c.cmd.Wait()
}
