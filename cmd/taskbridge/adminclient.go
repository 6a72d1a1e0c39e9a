package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// adminVerb is one thing the admin command does: a request to the admin API
// and how its answer is shown. The functions left out are not needed.
type adminVerb struct {
	use, short string
	args       int    // how many names it takes
	method     string // GET, or POST for a change of state
	path       string
	// flags adds flags of its own.
	flags func(fs *pflag.FlagSet)
	// check is for what flags cannot be together.
	check func(fs *pflag.FlagSet) error
	// query and body are what is asked, from the flags and the names given.
	query func() url.Values
	body  func(names []string) any
	// after, which may be nil, goes on once there is an answer, and may give
	// another in its place.
	after func(ctx context.Context, ask askAdmin, answer []byte) ([]byte, error)
	// show writes the answer for people; without it, or with --json, the JSON is
	// shown.
	show func(w io.Writer, answer []byte) error
	// judge, after that, says whether what was asked came out as wished.
	judge func(answer []byte) error
}

// adminVerbs are the verbs of the admin command; each is made anew for a
// command line, so that its functions share what its flags set.
func adminVerbs() []adminVerb {
	named := func(names []string) any { return map[string]string{"name": names[0]} }
	wait := &drainWait{}
	return []adminVerb{
		reportVerb(),
		{use: "status", short: "Routes and servers, and what is under way", method: http.MethodGet, path: "/status", show: showStatus},
		{use: "drain NAME", short: "Give a server no new work", args: 1, method: http.MethodPost, path: "/drain", body: named, flags: wait.register, after: wait.after, show: showServer},
		{use: "undrain NAME", short: "Give it work again", args: 1, method: http.MethodPost, path: "/undrain", body: named, show: showServer},
		{use: "reload", short: "Read the configuration file again", method: http.MethodPost, path: "/reload", show: showReload},
	}
}

// askAdmin looks at something of the admin API.
type askAdmin func(path string) ([]byte, error)

// adminClient asks an admin API.
type adminClient struct {
	address, token, ca string
	timeout            time.Duration
	asJSON             bool
}

func (a *app) adminCommand() *cobra.Command {
	c := &adminClient{}
	cmd := &cobra.Command{
		Use:   "admin VERB",
		Short: "Ask a running proxy, or tell it something, over its admin address",
		Long: "Talks to the admin address of a running serve (--admin there).\n" +
			"Exit codes: 0 fine, 1 it could not be done, 2 usage, 3 nobody answers at the address, 4 the token is missing or wrong.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				hint = "; did you mean " + strings.Join(like, " or ") + "?"
			}
			return usagef("admin has no verb %q%s", args[0], hint)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usagef("admin wants a verb: %s", strings.Join(verbNames(cmd), ", "))
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	fs := cmd.PersistentFlags()
	fs.StringVar(&c.address, "admin", "127.0.0.1:9464", "`ADDRESS:PORT`, unix:PATH or URL of the admin address")
	fs.StringVar(&c.token, "token", "", "`FILE` with the admin token, where it wants one")
	fs.StringVar(&c.ca, "ca", "", "PEM `FILE` with the authorities to trust for an https:// address instead of the system's")
	durationVar(fs, &c.timeout, "timeout", 30*time.Second, "how long an answer may take")
	fs.BoolVar(&c.asJSON, "json", false, "print the answer as JSON; a failure is one line of JSON on standard error")
	for _, v := range adminVerbs() {
		cmd.AddCommand(a.verbCommand(c, v))
	}
	return cmd
}

func verbNames(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return names
}

func (a *app) verbCommand(c *adminClient, v adminVerb) *cobra.Command {
	name, _, _ := strings.Cut(v.use, " ")
	cmd := &cobra.Command{
		Use: v.use, Short: v.short,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == v.args:
				return nil
			case v.args == 0:
				return usagef("admin %s takes no arguments, but got %q", name, args[0])
			}
			return usagef("use it as: taskbridge admin %s", v.use)
		},
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			if v.check != nil {
				if err := v.check(cmd.Flags()); err != nil {
					return err
				}
			}
			return a.adminAsk(cmd.Context(), c, v, cmd.Flags(), args)
		}),
	}
	if v.flags != nil {
		v.flags(cmd.Flags())
	}
	return cmd
}

func (a *app) adminAsk(ctx context.Context, c *adminClient, v adminVerb, fs *pflag.FlagSet, names []string) error {
	all := ctx
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	path := v.path
	if v.query != nil {
		if q := v.query().Encode(); q != "" {
			path += "?" + q
		}
	}
	var body any
	if v.body != nil {
		body = v.body(names)
	}
	raw, err := c.ask(ctx, fs, v.method, path, body)
	if err == nil && v.after != nil {
		raw, err = v.after(all, func(path string) ([]byte, error) {
			ctx, cancel := context.WithTimeout(all, c.timeout)
			defer cancel()
			return c.ask(ctx, fs, http.MethodGet, path, nil)
		}, raw)
	}
	if err != nil {
		return err
	}
	if v.show != nil && !c.asJSON {
		err = v.show(a.stdout, raw)
	} else {
		_, err = a.stdout.Write(asciiControls(raw)) // it may be a terminal
	}
	if err == nil && v.judge != nil {
		err = v.judge(raw)
	}
	return err
}

// maxAdminAnswer bounds an answer: a report has a bounded number of lines.
const maxAdminAnswer = 256 << 20

// ask sends one request. body is for POST, nil: an empty object. Errors are
// failures with their exit code.
func (c *adminClient) ask(ctx context.Context, fs *pflag.FlagSet, method, path string, body any) ([]byte, error) {
	base, client, err := c.target(fs)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	var sent io.Reader
	if method == http.MethodPost {
		raw := []byte("{}")
		if body != nil {
			if raw, err = json.Marshal(body); err != nil {
				return nil, err
			}
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, sent)
	if err != nil {
		return nil, usagef("%s %q: want ADDRESS:PORT, unix:PATH or a URL such as https://HOST:PORT", where(fs, "admin"), c.address)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		token, err := readToken(c.token)
		if err != nil {
			return nil, usagef("%s: %w", where(fs, "token"), err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, &failure{code: exitUnreachable, name: "admin_unreachable", url: base, err: fmt.Errorf("nobody answers at the admin address %s: %w; serve has one with --admin", c.address, err)}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminAnswer))
	if err != nil {
		return nil, &failure{code: exitUnreachable, name: "admin_unreachable", url: base, err: fmt.Errorf("the answer of %s broke off: %w", c.address, err)}
	}
	if resp.StatusCode/100 == 2 {
		return raw, nil
	}
	return nil, adminFailure(base, c.address, resp.StatusCode, raw)
}

// adminFailure is the exit code and name of what the admin API refused.
func adminFailure(base, address string, status int, raw []byte) error {
	var said struct {
		Error struct{ Code, Message string }
	}
	f := &failure{code: exitFailed, name: "failed", status: status, url: base}
	if json.Unmarshal(raw, &said) == nil && said.Error.Message != "" {
		f.name, f.err = said.Error.Code, problems(said.Error.Message)
	}
	switch {
	case status == http.StatusForbidden && f.err != nil:
		// Nothing about the token: whom it is spoken to as, or by whom.
		f.code, f.name, f.err = exitRefused, "admin_refused", fmt.Errorf("%s refuses: %w; address it as 127.0.0.1, localhost or unix:PATH", address, f.err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		f.code, f.name, f.err = exitRefused, "admin_refused", fmt.Errorf("%s refuses: the admin token is missing or wrong; name its file with --token", address)
	case status == http.StatusNotFound && (f.err == nil || f.name == noSuchPath):
		f.name, f.err = "not_found", fmt.Errorf("%s knows no such thing; is it the admin address of a taskbridge of this version?", address)
	case f.err == nil:
		f.err = fmt.Errorf("%s answered with status %d", address, status)
	case status == http.StatusBadRequest || status == http.StatusNotFound:
		f.code = exitUsage
	}
	return f
}

// target is the URL before a path, and a client that gets there. It follows no
// redirects: the token is for this address alone.
func (c *adminClient) target(fs *pflag.FlagSet) (base string, client *http.Client, err error) {
	t := &http.Transport{}
	client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	switch path, socket := strings.CutPrefix(c.address, unixPrefix); {
	case socket:
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		base = "http://localhost"
	case strings.HasPrefix(c.address, "http://"), strings.HasPrefix(c.address, "https://"):
		base = strings.TrimSuffix(c.address, "/")
	default:
		if _, err := listenAddress(c.address); err != nil {
			return "", nil, usagef("%s %q: want ADDRESS:PORT, unix:PATH or a URL such as https://HOST:PORT", where(fs, "admin"), c.address)
		}
		base = "http://" + c.address
	}
	if c.ca != "" {
		pem, err := os.ReadFile(c.ca)
		if err != nil {
			return "", nil, usagef("%s: %w", where(fs, "ca"), err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return "", nil, usagef("%s %s: holds no certificate", where(fs, "ca"), c.ca)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	return base, client, nil
}
