package main

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/upstream"
)

// upstreamName is what the one server of a command is called inside.
const upstreamName = "default"

// upstreamFlags say how to reach a server.
type upstreamFlags struct {
	url            string
	transport      string
	messageURL     string
	headers, files []string
	connectTimeout time.Duration
	ca             string

	command      []string // what stands behind --
	env          []string
	cwd          string
	startTimeout time.Duration
	shareChild   bool
	maxChildren  int
}

func (u *upstreamFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&u.url, "upstream", "", "`URL` of the server's MCP endpoint: http://, https://, or for WebSocket ws://, wss://")
	enumVar(fs, &u.transport, "upstream-transport", "auto", []string{"auto", "http", "sse"}, "what an http:// or https:// URL speaks: Streamable HTTP (http), HTTP+SSE (sse, the URL of its stream); auto finds out")
	fs.StringVar(&u.messageURL, "upstream-message-url", "", "`URL` messages over HTTP+SSE go to, instead of the one the server announces")
	fs.StringArrayVar(&u.headers, "header", nil, "`'NAME: VALUE'` sent to the server with every request; ${VAR} is expanded")
	fs.StringArrayVar(&u.files, "header-file", nil, "`FILE` with one 'NAME: VALUE' a line, # comments; ${VAR} is expanded")
	durationVar(fs, &u.connectTimeout, "connect-timeout", upstream.DefaultConnectTimeout, "bound for connecting to the server")
	fs.StringVar(&u.ca, "upstream-ca", "", "PEM `FILE` with the authorities to trust instead of the system's")
	fs.StringArrayVarP(&u.env, "env", "e", nil, "`KEY=VALUE` for the server process, or KEY to hand ours on; ${VAR} is expanded")
	fs.StringVar(&u.cwd, "cwd", "", "`DIRECTORY` to run the server process in")
	durationVar(fs, &u.startTimeout, "start-timeout", upstream.DefaultStartLimit, "how long the server process may take to its first answer")
}

// registerSharing is for commands that serve several clients.
func (u *upstreamFlags) registerSharing(fs *pflag.FlagSet) {
	fs.BoolVar(&u.shareChild, "share-child", false, "let all sessions of legacy servers share one process, which then sees one client")
	fs.IntVar(&u.maxChildren, "max-children", upstream.DefaultMaxChildren, "most server processes at a time")
}

// server is a checked upstream.
type server struct {
	http  upstream.HTTPUpstream
	ws    bool                   // its URL is one of a WebSocket
	child *upstream.StdioOptions // instead: a process of ours
	roots *x509.CertPool
	// shared: requests of all callers carry a credential of ours.
	shared bool
	// ownAuth: so do their Authorization headers.
	ownAuth bool
	// shown is the URL without what may be secret in it.
	shown string
	// exposed: a credential would go to another machine in the clear.
	exposed bool
}

func (u *upstreamFlags) resolve(a *app, fs *pflag.FlagSet) (server, error) {
	if len(u.command) > 0 {
		return u.resolveChild(a, fs)
	}
	if u.url == "" {
		return server{}, usagef("no server given; name it with --upstream URL or, behind --, by its command")
	}
	if err := u.checkTransport(fs); err != nil {
		return server{}, err
	}
	for _, name := range []string{"env", "cwd"} {
		if f := fs.Lookup(name); f.Changed && len(f.Annotations[fromEnv]) == 0 {
			return server{}, usagef("--%s is for a server process; give its command behind --", name)
		}
	}
	at := where(fs, "upstream")
	// Errors about the URL never quote it: it may hold a secret.
	addr, err := url.Parse(u.url)
	switch {
	case err != nil:
		return server{}, usagef("%s: the URL cannot be parsed; give it as https://HOST/PATH", at)
	case !slices.Contains([]string{"http", "https", "ws", "wss"}, addr.Scheme) || addr.Hostname() == "":
		return server{}, usagef("%s: want an http://, https://, ws:// or wss:// URL such as https://HOST/PATH", at)
	}
	h, err := a.readHeaders(where(fs, "header"), u.headers, u.files)
	if err != nil {
		return server{}, err
	}
	s := newURLServer(addr, upstream.HTTPUpstream{URL: u.url, Header: h, Transport: transports[u.transport], MessageURL: u.messageURL})
	if u.ca != "" {
		if s.roots, err = readCA(u.ca); err != nil {
			return server{}, usagef("%s: %w", where(fs, "upstream-ca"), err)
		}
	}
	return s, nil
}

// newURLServer is a server behind a URL.
func newURLServer(addr *url.URL, to upstream.HTTPUpstream) server {
	s := server{
		http:    to,
		ws:      strings.HasPrefix(addr.Scheme, "ws"),
		ownAuth: addr.User != nil || to.Header.Get("Authorization") != "",
		shared:  addr.User != nil || ownCredential(to.Header),
		shown:   addr.Scheme + "://" + addr.Host + addr.EscapedPath(),
	}
	s.exposed = s.shared && (addr.Scheme == "http" || addr.Scheme == "ws") && !loopbackHost(addr.Hostname())
	return s
}

// transports by the words of --upstream-transport.
var transports = map[string]upstream.Transport{
	"auto": upstream.TransportAuto, "http": upstream.TransportHTTP, "sse": upstream.TransportSSE,
}

// checkTransport refuses what has no meaning together. Errors never quote a URL.
func (u *upstreamFlags) checkTransport(fs *pflag.FlagSet) error {
	scheme, _, _ := strings.Cut(u.url, ":")
	web := strings.HasPrefix(strings.ToLower(scheme), "ws")
	for _, name := range []string{"upstream-transport", "upstream-message-url"} {
		if f := fs.Lookup(name); web && f.Changed && f.Value.String() != "auto" {
			return usagef("%s is for http:// and https:// URLs", where(fs, name))
		}
	}
	if u.messageURL == "" {
		return nil
	}
	if u.transport == "http" {
		return usagef("%s is for HTTP+SSE; leave %s out or say sse", where(fs, "upstream-message-url"), where(fs, "upstream-transport"))
	}
	to, err := url.Parse(u.messageURL)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Hostname() == "" || to.User != nil {
		return usagef("%s: want an http:// or https:// URL such as https://HOST/PATH, without a user", where(fs, "upstream-message-url"))
	}
	return nil
}

// checkEra: HTTP+SSE carries legacy revisions only.
func (u *upstreamFlags) checkEra(fs *pflag.FlagSet, era string) error {
	if u.transport == "sse" && era == "modern" {
		return usagef("%s sse carries legacy revisions only, so %s modern cannot be", where(fs, "upstream-transport"), where(fs, "upstream-era"))
	}
	return nil
}

// ownCredential: any header of ours may be one; of these two we know better.
func ownCredential(h http.Header) bool {
	for name := range h {
		if name != "User-Agent" && name != "Host" {
			return true
		}
	}
	return false
}

func readCA(name string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bytes.TrimSpace(raw)) {
		return nil, fmt.Errorf("%s holds no PEM certificate", name)
	}
	return pool, nil
}

// loopbackHost: only what always means this machine.
func loopbackHost(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
