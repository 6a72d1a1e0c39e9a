package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
)

const aToken = "a-token-of-thirty-two-characters"

// tokenFile writes a token with a mode.
func tokenFile(t *testing.T, token string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(token), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

// anAdmin is an admin API at a place, with something to look at and something to
// change.
func anAdmin(t *testing.T, p *adminPlace) (shown string) {
	t.Helper()
	m := newAdmin(adminOptions{unready: func() string { return "" }, metrics: newMetrics(), log: slog.New(slog.DiscardHandler)}.at(p))
	m.get("/status", func(r *http.Request) (any, error) {
		if why := r.URL.Query().Get("fail"); why != "" {
			return nil, adminErrorf(http.StatusConflict, "cannot: %s", why)
		}
		return map[string]string{"state": "ready"}, nil
	})
	m.post("/drain", func(_ *http.Request, body []byte) (any, error) {
		var in struct{ Name string }
		if json.Unmarshal(body, &in) != nil || in.Name == "" {
			return nil, adminErrorf(http.StatusNotFound, "there is no upstream %q", in.Name)
		}
		return map[string]string{"draining": in.Name}, nil
	})
	var said buffer
	stop, err := (&app{stderr: &said}).startAdmin(t.Context(), p, (&app{}).serveCommand().Flags(), nil, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return strings.TrimSpace(strings.TrimPrefix(said.String(), "admin on "))
}

// withVerb has the admin command ask one verb.
func withVerb(c *adminClient, v adminVerb, names ...string) (string, error) {
	var out buffer
	a := &app{stdout: &out, stderr: io.Discard}
	cmd := a.verbCommand(c, v)
	cmd.SetArgs(names)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	c.timeout = 1e10
	cmd.Flags().StringVar(&c.address, "admin", c.address, "")
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

var (
	statusVerb = adminVerb{use: "status", method: "GET", path: "/status"}
	drainVerb  = adminVerb{use: "drain NAME", args: 1, method: "POST", path: "/drain", body: func(names []string) any { return map[string]string{"name": names[0]} }}
)

// TestAdminToken: with a token everything but health and readiness needs it.
func TestAdminToken(t *testing.T) {
	at := anAdmin(t, &adminPlace{address: "127.0.0.1:0", local: true, token: aToken})
	jsonType := func(auth ...string) http.Header {
		return http.Header{"Content-Type": {"application/json"}, "Authorization": auth}
	}
	for _, tt := range []struct {
		method, path string
		header       http.Header
		status       int
	}{
		{"GET", "/healthz", nil, 200},
		{"GET", "/readyz", nil, 200},
		{"GET", "/metrics", nil, 401},
		{"GET", "/status", nil, 401},
		{"GET", "/nothing", nil, 401},
		{"GET", "/healthz/../metrics", nil, 401},
		{"GET", "//healthz", nil, 401},
		{"POST", "/drain", jsonType(), 401},
		{"POST", "/drain", jsonType("Bearer " + aToken[1:]), 401},
		{"POST", "/drain", jsonType("Bearer " + aToken + "x"), 401},
		{"POST", "/drain", jsonType("Bearer"), 401},
		{"POST", "/drain", jsonType("Basic " + aToken), 401},
		{"POST", "/drain", jsonType(aToken), 401},
		{"POST", "/drain", jsonType("Bearer "+aToken, "Bearer "+aToken), 401},
		{"POST", "/drain", jsonType("Bearer " + aToken), 200},
		{"GET", "/metrics", http.Header{"Authorization": {"bearer  " + aToken}}, 200},
		{"GET", "/status", http.Header{"Authorization": {"Bearer " + aToken}, "Origin": {at}}, 403},
		{"GET", "/status", http.Header{"Authorization": {"Bearer " + aToken}, "Host": {"evil.example"}}, 403},
		{"POST", "/drain", http.Header{"Authorization": {"Bearer " + aToken}, "Content-Type": {"text/plain"}}, 415},
		{"PUT", "/drain", jsonType("Bearer " + aToken), 405},
		{"OPTIONS", "/drain", jsonType("Bearer " + aToken), 405},
		{"GET", "/nothing", jsonType("Bearer " + aToken), 404},
		{"GET", "/drain", jsonType("Bearer " + aToken), 405},
	} {
		status, header, body := ask(t, tt.method, at+tt.path, tt.header, `{"name":"blue"}`)
		if status != tt.status {
			t.Errorf("%s %s %v: %d, want %d: %s", tt.method, tt.path, tt.header, status, tt.status, body)
		}
		if status >= 400 {
			var said struct {
				Error struct{ Code, Message string }
			}
			if err := json.Unmarshal([]byte(body), &said); err != nil || said.Error.Code == "" || said.Error.Code == "failed" || said.Error.Message == "" {
				t.Errorf("%s %s: %d says %s", tt.method, tt.path, status, body)
			}
			if (status == 405) != (header.Get("Allow") != "") {
				t.Errorf("%s %s: %d with Allow %q", tt.method, tt.path, status, header.Get("Allow"))
			}
		}
		if status == 401 && header.Get("Www-Authenticate") != "Bearer" || strings.Contains(body, aToken) {
			t.Errorf("%s %s: %v %s", tt.method, tt.path, header, body)
		}
	}
}

// TestAdminBodies: what is no JSON, or too much of it, changes nothing.
func TestAdminBodies(t *testing.T) {
	at := anAdmin(t, &adminPlace{address: "127.0.0.1:0", local: true})
	for body, want := range map[string]int{`{"name":"b"}`: 200, `{`: 400, ``: 404, `"` + strings.Repeat("x", maxAdminBody) + `"`: 413} {
		status, _, said := ask(t, "POST", at+"/drain", http.Header{"Content-Type": {"application/json"}}, body)
		if status != want || !json.Valid([]byte(said)) {
			t.Errorf("%.20q: %d, want %d: %s", body, status, want, said)
		}
	}
}

// TestAdminSocket: a socket is its owner's alone; one left behind is replaced,
// one somebody listens at, or a file, is not.
func TestAdminSocket(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "admin.sock")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(t.Context(), filepath.Join(dir, "file")); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := listenUnix(t.Context(), filepath.Join(dir, strings.Repeat("x", 120))); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a long path: %v", err)
	}
	// A process that was killed leaves its socket.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	if shown := anAdmin(t, &adminPlace{socket: path, local: true}); shown != "unix:"+path {
		t.Errorf("shown as %q", shown)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := listenUnix(t.Context(), path); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("where somebody listens: %v", err)
	}
	out, err := withVerb(&adminClient{address: "unix:" + path}, statusVerb)
	if err != nil || out != `{"state":"ready"}`+"\n" {
		t.Errorf("status: %v %s", err, out)
	}
}

// TestAdminCommand: what it shows and how it ends.
func TestAdminCommand(t *testing.T) {
	at := anAdmin(t, &adminPlace{address: "127.0.0.1:0", local: true, token: aToken})
	token, address := tokenFile(t, aToken+"\n", 0o600), strings.TrimPrefix(at, "http://")
	_, port, _ := net.SplitHostPort(address)
	failing := statusVerb
	failing.query = func() url.Values { return url.Values{"fail": {"not now"}} }
	people := statusVerb
	people.show = func(w io.Writer, raw []byte) error { _, err := io.WriteString(w, "for people\n"); return err }
	unknown := adminVerb{use: "x", method: "GET", path: "/x"}
	redirect := peer(t, closer{http.RedirectHandler("http://"+address+"/status", http.StatusTemporaryRedirect)})
	for _, tt := range []struct {
		name  string
		c     adminClient
		v     adminVerb
		names []string
		out   string
		code  int
		err   string
	}{
		{"status", adminClient{address: address, token: token}, statusVerb, nil, "{\"state\":\"ready\"}\n", 0, ""},
		{"a URL", adminClient{address: at + "/", token: token}, statusVerb, nil, "{\"state\":\"ready\"}\n", 0, ""},
		{"for people", adminClient{address: address, token: token}, people, nil, "for people\n", 0, ""},
		{"as JSON", adminClient{address: address, token: token, asJSON: true}, people, nil, "{\"state\":\"ready\"}\n", 0, ""},
		{"drain", adminClient{address: address, token: token}, drainVerb, []string{"blue"}, "{\"draining\":\"blue\"}\n", 0, ""},
		{"no such name", adminClient{address: address, token: token}, drainVerb, []string{""}, "", exitUsage, `there is no upstream ""`},
		{"not now", adminClient{address: address, token: token}, failing, nil, "", exitFailed, "cannot: not now"},
		{"no name", adminClient{address: address, token: token}, drainVerb, nil, "", exitUsage, "use it as: taskbridge admin drain NAME"},
		{"too many", adminClient{address: address, token: token}, statusVerb, []string{"x"}, "", exitUsage, `admin status takes no arguments, but got "x"`},
		{"unknown there", adminClient{address: address, token: token}, unknown, nil, "", exitFailed, "knows no such thing"},
		{"no token", adminClient{address: address}, statusVerb, nil, "", exitRefused, "the admin token is missing or wrong"},
		{"no name of it", adminClient{address: "http://0.0.0.0:" + port, token: token}, statusVerb, nil, "", exitRefused, "refuses: host not allowed; address it as 127.0.0.1"},
		{"open token", adminClient{address: address, token: tokenFile(t, aToken, 0o644)}, statusVerb, nil, "", exitUsage, "chmod 600 it"},
		{"short token", adminClient{address: address, token: tokenFile(t, "short", 0o600)}, statusVerb, nil, "", exitUsage, "at least 16 are needed"},
		{"nobody there", adminClient{address: "127.0.0.1:1"}, statusVerb, nil, "", exitUnreachable, "nobody answers at the admin address 127.0.0.1:1"},
		{"no address", adminClient{address: "here"}, statusVerb, nil, "", exitUsage, "want ADDRESS:PORT, unix:PATH or a URL"},
		{"sent elsewhere", adminClient{address: redirect, token: token}, statusVerb, nil, "", exitFailed, "answered with status 307"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := withVerb(&tt.c, tt.v, tt.names...)
			code := exitOK
			if err != nil {
				code = exitFailed
				if f, ok := err.(*failure); ok {
					code = f.code
				}
				if !strings.Contains(err.Error(), tt.err) || tt.err == "" || strings.Contains(err.Error(), aToken) {
					t.Errorf("said %v", err)
				}
			}
			if out != tt.out || code != tt.code {
				t.Errorf("%d %q, want %d %q", code, out, tt.code, tt.out)
			}
		})
	}
}

type closer struct{ http.Handler }

func (closer) Close() error { return nil }

// TestAdminOfServe: the token, and the truth about readiness, from the command
// line.
func TestAdminOfServe(t *testing.T) {
	upstream := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	token := tokenFile(t, aToken, 0o600)
	s := serve(t, "--upstream", upstream, "--admin", "127.0.0.1:0", "--admin-token", token)
	if status, _, _ := ask(t, "GET", s.admin+"/metrics", nil, ""); status != 401 {
		t.Errorf("metrics without a token: %d", status)
	}
	if status, _, body := ask(t, "GET", s.admin+"/metrics", http.Header{"Authorization": {"Bearer " + aToken}}, ""); status != 200 || strings.Contains(body, aToken) {
		t.Errorf("metrics with it: %d", status)
	}
	if code, _, stderr := runArgs(t, "admin", "--admin", s.admin, "--token", token, "--json", "statsu"); code != exitUsage || !strings.Contains(stderr, "no verb") {
		t.Errorf("%d %s", code, stderr)
	}
	sock := filepath.Join(t.TempDir(), "s")
	s = serve(t, "--upstream", upstream, "--admin", "unix:"+sock)
	if !strings.Contains(s.stderr.String(), "admin on unix:"+sock+"\n") {
		t.Errorf("said %s", s.stderr)
	}
	s.end()
	if _, err := os.Stat(sock); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}
