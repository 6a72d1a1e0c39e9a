package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/session"
)

// adminFlags say where the admin API is and who may use it.
type adminFlags struct{ admin, adminToken string }

func (f *adminFlags) registerAdmin(fs *pflag.FlagSet) {
	fs.StringVar(&f.admin, "admin", "", "`ADDRESS:PORT` or unix:PATH for /healthz, /readyz, /metrics and the admin command; off unless given")
	fs.StringVar(&f.adminToken, "admin-token", "", "`FILE` with the token that the admin address wants; needed where it is no loopback address or socket")
}

// adminPlace is a checked --admin.
type adminPlace struct {
	socket  string // path of a Unix socket, or
	address string // host and port
	local   bool   // nobody from another machine gets there
	token   string // "": none is wanted
	file    string // that holds it
}

// like says whether p is the same place, whose token is in the same file: only
// what that holds may be another.
func (p *adminPlace) like(o *adminPlace) bool {
	if p == nil || o == nil {
		return p == o
	}
	a, b := *p, *o
	a.token, b.token = "", ""
	return a == b
}

const unixPrefix = "unix:"

// checkAdmin settles where the admin API listens; nil: nowhere.
func (f *adminFlags) checkAdmin(fs *pflag.FlagSet) (*adminPlace, error) {
	if f.admin == "" {
		if f.adminToken != "" {
			return nil, usagef("%s is for the admin address; give one with --admin", where(fs, "admin-token"))
		}
		return nil, nil
	}
	p := &adminPlace{}
	var err error
	if path, ok := strings.CutPrefix(f.admin, unixPrefix); ok {
		if p.socket, p.local = path, true; path == "" {
			return nil, usagef("%s %q: want a path after unix:, as in unix:/run/taskbridge/admin.sock", where(fs, "admin"), f.admin)
		}
	} else if p.address = f.admin; true {
		if p.local, err = listenAddress(f.admin); err != nil {
			return nil, usagef("%s %q: %w", where(fs, "admin"), f.admin, err)
		}
	}
	if f.adminToken != "" {
		p.file = f.adminToken
		if p.token, err = readToken(f.adminToken); err != nil {
			return nil, usagef("%s: %w", where(fs, "admin-token"), err)
		}
	}
	if !p.local && p.token == "" {
		return nil, usagef("%s %q is open to other machines; give it a token with --admin-token FILE, or take a loopback address such as 127.0.0.1:9090, or unix:PATH", where(fs, "admin"), f.admin)
	}
	return p, nil
}

// Bounds of a token: below the first it could be guessed.
const minToken, maxToken = 16, 4096

// readToken reads the token from a file that only its owner may read.
func readToken(path string) (string, error) {
	raw, err := session.ReadSecretFile(path, maxToken)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(raw))
	if len(token) < minToken {
		return "", fmt.Errorf("%s has %d characters, at least %d are needed; make one with: openssl rand -hex 32", path, len(token), minToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: a token is one word of ASCII characters", path)
	}
	return token, nil
}

// listen opens the listener. Off this machine it is encrypted where clients are,
// with the same certificate.
func (p *adminPlace) listen(ctx context.Context, current func() *keyPair) (ln net.Listener, shown string, err error) {
	if p.socket != "" {
		ln, err := listenUnix(ctx, p.socket)
		return ln, unixPrefix + p.socket, err
	}
	if ln, err = listen(ctx, p.address, p.local); err != nil {
		return nil, "", err
	}
	if p.local || current == nil {
		return ln, "http://" + ln.Addr().String(), nil
	}
	return encrypted(ln, current), "https://" + ln.Addr().String(), nil
}

// maxSocketPath: longer names do not fit into an address.
const maxSocketPath = 103

// listenUnix listens on a socket that its owner alone may connect to. One that
// was left by a process that ended is replaced; where somebody listens, or
// something else is, it is not.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%s: the path of a socket may have %d bytes at most", path, maxSocketPath)
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket && runtime.GOOS != "windows":
		return nil, fmt.Errorf("%s is there already and is no socket", path)
	default:
		if err := removeStale(ctx, path); err != nil {
			return nil, err
		}
	}
	var ln net.Listener
	var err error
	ownerOnly(func() { ln, err = new(net.ListenConfig).Listen(ctx, "unix", path) })
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

func removeStale(ctx context.Context, path string) error {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("listen unix %s: %w", path, syscall.EADDRINUSE)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
	default:
		return fmt.Errorf("%s: whether another program listens there cannot be told: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// listen listens on addr; with local set, on nothing but this machine.
func listen(ctx context.Context, addr string, local bool) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := ln.Addr().(*net.TCPAddr); local && (!ok || !tcp.IP.IsLoopback()) {
		// A name that should mean this machine does not.
		ln.Close()
		return nil, &net.AddrError{Err: "is not a loopback address", Addr: ln.Addr().String()}
	}
	return ln, nil
}

// startAdmin starts the admin server where one is wanted. It goes on answering
// while work drains, and ends with the returned function.
func (a *app) startAdmin(ctx context.Context, p *adminPlace, fs *pflag.FlagSet, secure func() *keyPair, m *adminServer) (func(), error) {
	if p == nil {
		return func() {}, nil
	}
	srv, err := m.server()
	if err != nil {
		return nil, err
	}
	ln, shown, err := p.listen(ctx, secure)
	if err != nil {
		return nil, listenError(where(fs, "admin"), err)
	}
	if !p.local && secure == nil {
		m.o.log.Warn("the admin token is sent unencrypted; put a front end with TLS before the admin address, or give --tls-cert", "address", ln.Addr().String())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			m.o.log.Error("admin listener", "err", err)
		}
	}()
	fmt.Fprintf(a.stderr, "admin on %s\n", shown)
	return func() { srv.Close(); <-done }, nil
}
