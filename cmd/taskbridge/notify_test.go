//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// managed listens as a service manager does.
func managed(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func told(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// TestNotify: READY=1 comes once clients can come, STOPPING=1 when draining
// begins.
func TestNotify(t *testing.T) {
	dir, err := os.MkdirTemp("", "tb") // short: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{filepath.Join(dir, "n"), fmt.Sprintf("@taskbridge-test-%d", os.Getpid())} {
		c := managed(t, name)
		t.Setenv("NOTIFY_SOCKET", name)
		p := startProcess(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})))
		if got := told(t, c); got != "READY=1" {
			t.Errorf("%s: told %q", name, got)
		}
		if r, err := modernClient(t, p.url).Call(t.Context(), "tools/list", nil); err != nil || r.Err() != nil {
			t.Errorf("ready, but %v %s", err, r.Raw)
		}
		p.signal(t, syscall.SIGTERM)
		if got := told(t, c); got != "STOPPING=1" {
			t.Errorf("%s: told %q", name, got)
		}
		if err := p.wait(t, 20*time.Second); err != nil {
			t.Errorf("%v: %s", err, p.stderr)
		}
	}
}

// A manager that is not there holds nobody up, and server processes hear
// nothing of one.
func TestNotifyNobody(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})))
	if code := s.end(); code != exitOK || !strings.Contains(s.stderr.String(), "the service manager was not told") {
		t.Errorf("exit %d: %s", code, s.stderr)
	}
	if v, ok := os.LookupEnv("NOTIFY_SOCKET"); ok {
		t.Errorf("children would inherit %q", v)
	}
	for _, path := range []string{"relative", "vsock:2:1"} {
		if err := (notifier{path: path}).send("READY=1"); err == nil {
			t.Errorf("%s: was told", path)
		}
	}
}

// TestNotify_Reload: a manager that asks by SIGHUP hears when it begins and ends
// (systemd.service(5), Type=notify-reload).
func TestNotify_Reload(t *testing.T) {
	dir, err := os.MkdirTemp("", "tb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := managed(t, filepath.Join(dir, "n"))
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "n"))
	p := startProcess(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})))
	if got := told(t, c); got != "READY=1" {
		t.Fatalf("told %q", got)
	}
	p.signal(t, syscall.SIGHUP)
	if got := told(t, c); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("told %q", got)
	}
	if got := told(t, c); got != "READY=1" {
		t.Errorf("told %q", got)
	}
}
