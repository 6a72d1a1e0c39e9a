package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"taskbridge/cmd/peers"
)

// seen collects the headers a server got.
type seen struct {
	mu  sync.Mutex // protects all
	all []http.Header
}

func (s *seen) trace(e peers.TraceEntry) {
	if !e.Out {
		s.mu.Lock()
		s.all = append(s.all, e.Header)
		s.mu.Unlock()
	}
}

func (s *seen) headers() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]http.Header(nil), s.all...)
}

func ask(t *testing.T, method, url string, header http.Header, body string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	if host := header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

func TestSafetyS6_AdminByBrowser(t *testing.T) {
	upstream := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	s := serve(t, "--upstream", upstream, "--admin", "127.0.0.1:0", "--header", "X-Key: hunter2")
	legacyClient(t, s.url)
	jsonType := http.Header{"Content-Type": {"application/json"}}
	with := func(h http.Header, name, value string) http.Header {
		h = h.Clone()
		h.Set(name, value)
		return h
	}
	for _, tt := range []struct {
		name, method, path string
		header             http.Header
		status             int
	}{
		{"a page's drain", "POST", "/drain", with(jsonType, "Origin", "http://evil.example"), 403},
		{"our own origin", "POST", "/drain", with(jsonType, "Origin", s.admin), 403},
		{"null origin", "GET", "/metrics", http.Header{"Origin": {"null"}}, 403},
		{"rebound host", "POST", "/drain", with(jsonType, "Host", "evil.example"), 403},
		{"rebound host reads", "GET", "/metrics", http.Header{"Host": {"evil.example"}}, 403},
		{"a form", "POST", "/drain", http.Header{"Content-Type": {"text/plain"}}, 415},
		{"nothing there", "POST", "/drop", jsonType, 404},
		{"a drain of nothing", "POST", "/drain", jsonType, 400},
		{"wrong verb", "POST", "/healthz", jsonType, 405},
		{"health", "GET", "/healthz", nil, 200},
		{"ready", "GET", "/readyz", nil, 200},
		{"metrics", "GET", "/metrics", nil, 200},
	} {
		status, header, body := ask(t, tt.method, s.admin+tt.path, tt.header, "{}")
		if status != tt.status {
			t.Errorf("%s: %d, want %d: %s", tt.name, status, tt.status, body)
		}
		if header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: a page may read it", tt.name)
		}
		for _, secret := range []string{strings.TrimPrefix(upstream, "http://"), upstreamName, "hunter2", "X-Key"} {
			if tt.status == 200 && tt.path != "/metrics" && strings.Contains(body, secret) {
				t.Errorf("%s tells %q", tt.name, secret)
			}
		}
	}
	if _, _, body := ask(t, "GET", s.admin+"/healthz", nil, ""); body != "ok\n" {
		t.Errorf("health: %q", body)
	}
	_, _, body := ask(t, "GET", s.admin+"/metrics", nil, "")
	for _, want := range []string{
		"taskbridge_build_info{", `taskbridge_requests_total{era="legacy",status="200",verb="POST"} 1`, "taskbridge_open_streams 0",
		`taskbridge_translation_loss_total{route="default",what="requested_ttl"} 0`, "go_goroutines", "taskbridge_principals 1",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	for _, secret := range []string{"hunter2", strings.TrimPrefix(upstream, "http://")} {
		if strings.Contains(body, secret) {
			t.Errorf("metrics tell %q", secret)
		}
	}
}

func TestSafetyS14_OpenDoor(t *testing.T) {
	upstream := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	const words = "is open to other machines and every caller would use the server credential given to it"
	open := []string{"serve", "--listen", "0.0.0.0:0", "--upstream", upstream}
	withUser := strings.Replace(upstream, "http://", "http://user:hunter2@", 1)
	for name, args := range map[string][]string{
		"authorization": append(open, "--header", "Authorization: Bearer hunter2"),
		"any header":    append(open, "--header", "X-Api-Key: hunter2", "--principal", "token"),
		"all addresses": append(open, "--header", "X-Api-Key: hunter2", "--listen", ":0"),
		"IPv6":          append(open, "--header", "X-Api-Key: hunter2", "--listen", "[::]:0"),
		"a name":        append(open, "--header", "X-Api-Key: hunter2", "--listen", "localhost.example:0"),
		"user in URL":   {"serve", "--listen", "0.0.0.0:0", "--upstream", withUser},
	} {
		code, _, stderr := runArgs(t, args...)
		if code != exitUsage || !strings.Contains(stderr, words) || !strings.Contains(stderr, "--allow-open") {
			t.Errorf("%s: exit %d: %s", name, code, stderr)
		}
		if strings.Contains(stderr, "hunter2") || strings.Contains(stderr, "listening") {
			t.Errorf("%s: %s", name, stderr)
		}
	}
	for name, args := range map[string][]string{
		"no credential": {"--listen", "0.0.0.0:0"},
		"no secret":     {"--listen", "0.0.0.0:0", "--header", "User-Agent: mine/1"},
		"loopback":      {"--header", "Authorization: Bearer hunter2"},
		"verified":      {"--listen", "0.0.0.0:0", "--header", "X-Api-Key: hunter2", "--principal", "header:X-User", "--trusted-proxy", "10.0.0.0/8"},
		"said so":       {"--listen", "0.0.0.0:0", "--header", "X-Api-Key: hunter2", "--allow-open"},
	} {
		s := serve(t, append([]string{"--upstream", upstream}, args...)...)
		if code := s.end(); code != exitOK || strings.Contains(s.stderr.String(), "hunter2") {
			t.Errorf("%s: exit %d: %s", name, code, s.stderr)
		}
	}
}

// TestSafetyS13_PrincipalHeader: the header counts from the trusted front end
// only, and never goes up.
func TestSafetyS13_PrincipalHeader(t *testing.T) {
	var got seen
	upstream := peer(t, peers.NewModernServer(peers.ServerOptions{Trace: got.trace}))
	s := serve(t, "--upstream", upstream, "--principal", "header:X-User", "--trusted-proxy", "127.0.0.1/32")
	ada, bob := modernClient(t, s.url), modernClient(t, s.url)
	ada.Header, bob.Header = http.Header{"X-User": {"ada"}}, http.Header{"X-User": {"bob"}}
	run, err := ada.RunTask(t.Context(), "confirm_delete", map[string]string{"filename": "x"}, peers.Accept(map[string]any{"confirm": true}))
	wantDeleted(t, run, err)
	get := map[string]string{"taskId": run.TaskID}
	if r, err := ada.Call(t.Context(), "tasks/get", get); err != nil || r.Err() != nil {
		t.Errorf("its owner: %v %s", err, r.Raw)
	}
	foreign, err := bob.Call(t.Context(), "tasks/get", get)
	if err != nil || foreign.Code() != peers.CodeInvalidParams {
		t.Errorf("a stranger: %v %s", err, foreign.Raw)
	}
	nobody := modernClient(t, s.url)
	if r, err := nobody.Call(t.Context(), "tasks/get", get); err != nil || r.Code() != peers.CodeInvalidParams {
		t.Errorf("nobody: %v %s", err, r.Raw)
	}
	for name, h := range map[string]http.Header{"two": {"X-User": {"ada", "bob"}}, "empty": {"X-User": {""}}} {
		bad := modernClient(t, s.url)
		bad.Header = h
		if r, err := bad.Call(t.Context(), "tasks/get", get); err != nil || r.Status != 400 {
			t.Errorf("%s: %v %d %s", name, err, r.Status, r.Raw)
		}
	}
	for _, h := range got.headers() {
		if h.Get("X-User") != "" {
			t.Fatal("the header went up")
		}
	}
}

// TestSafetyS13_Unverified: where the server credential is ours, who does not
// come through the front end does not get in.
func TestSafetyS13_Unverified(t *testing.T) {
	var got seen
	upstream := peer(t, peers.NewModernServer(peers.ServerOptions{Trace: got.trace}))
	s := serve(t, "--upstream", upstream, "--header", "X-Api-Key: k", "--principal", "header:X-User", "--trusted-proxy", "10.0.0.0/8")
	c := modernClient(t, s.url)
	c.Header = http.Header{"X-User": {"ada"}, "Authorization": {"Bearer made-up"}}
	r, err := c.Call(t.Context(), "tools/list", nil)
	if err != nil || r.Status != http.StatusForbidden || r.Error == nil {
		t.Errorf("%v %d %s", err, r.Status, r.Raw)
	}
	old := &peers.LegacyClient{URL: s.url, Header: c.Header}
	t.Cleanup(func() { _ = old.Close() })
	if _, err := old.Initialize(t.Context()); err == nil {
		t.Error("initialize was answered")
	}
	if n := len(got.headers()); n != 0 {
		t.Errorf("the server heard of it %d times", n)
	}
}

// TestSafetyS15_TokenPassthrough: exactly one Authorization goes up, the
// route's own; what the server says about it is no caller's business.
func TestSafetyS15_TokenPassthrough(t *testing.T) {
	var got seen
	upstream := peer(t, peers.NewModernServer(peers.ServerOptions{Trace: got.trace}))
	s := serve(t, "--upstream", upstream, "--header", "Authorization: Bearer ours")
	c := modernClient(t, s.url)
	c.Header = http.Header{"Authorization": {"Bearer theirs"}}
	if r, err := c.Call(t.Context(), "tools/list", nil); err != nil || r.Err() != nil {
		t.Fatalf("%v %s", err, r.Raw)
	}
	for _, h := range got.headers() {
		if auth := h["Authorization"]; len(auth) != 1 || auth[0] != "Bearer ours" {
			t.Errorf("Authorization %q", auth)
		}
	}
	deny := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://upstream.example/meta"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(deny.Close)
	for _, tt := range []struct {
		args   []string
		status int
	}{
		{[]string{"--header", "Authorization: Bearer ours"}, http.StatusBadGateway},
		{[]string{"--header", "Authorization: Bearer ours", "--upstream-era", "modern"}, http.StatusBadGateway},
		{nil, http.StatusUnauthorized},
	} {
		s := serve(t, append([]string{"--upstream", deny.URL}, tt.args...)...)
		c := modernClient(t, s.url)
		c.Header = http.Header{"Authorization": {"Bearer theirs"}}
		r, err := c.Call(t.Context(), "tools/call", map[string]any{"name": "greet"})
		if err != nil || r.Status != tt.status {
			t.Errorf("%q: %v %d %s", tt.args, err, r.Status, r.Raw)
		}
		if passed := r.Header.Get("WWW-Authenticate") != ""; passed != (tt.status == http.StatusUnauthorized) {
			t.Errorf("%q: WWW-Authenticate %q", tt.args, r.Header.Get("WWW-Authenticate"))
		}
	}
}

func TestSafetyS58_ProbeOutput(t *testing.T) {
	const nasty = "\x1b[2J\u202eevil\u0001</script>\u009b"
	name, err := json.Marshal(nasty)
	if err != nil {
		t.Fatal(err)
	}
	// As a server may write it: raw, but for what JSON forbids.
	raw := bytes.ReplaceAll(name, []byte(`\u003c`), []byte("<"))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28",`+
			string(raw)+`],"serverInfo":{"name":`+string(raw)+`,"version":"1"},"instructions":`+string(raw)+`,"capabilities":{`+string(raw)+`:{}}}}`)
	}))
	t.Cleanup(srv.Close)
	unsafe := func(r rune) bool { return r != '\n' && (r < ' ' || r == '\u202e' || r == '\u009b' || r == 0x7f) }
	code, stdout, stderr := runArgs(t, "probe", srv.URL)
	if code != exitOK || strings.ContainsFunc(stdout, unsafe) || !strings.Contains(stdout, `\x1b[2J\u202eevil\x01`) {
		t.Errorf("exit %d, stderr %q\n%q", code, stderr, stdout)
	}
	code, stdout, _ = runArgs(t, "probe", "--json", srv.URL)
	var p struct{ ServerInfo struct{ Name string } }
	if err := json.Unmarshal([]byte(stdout), &p); code != exitOK || err != nil || p.ServerInfo.Name != nasty {
		t.Errorf("exit %d, %v, name %q", code, err, p.ServerInfo.Name)
	}
	if strings.ContainsFunc(stdout, unsafe) || strings.Contains(stdout, "</script>") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("%q", stdout)
	}
	for _, format := range []string{"text", "json"} {
		var log bytes.Buffer
		newLogger(&log, "info", format).Info("x", "peer", nasty, slog.Group("g", "name", nasty))
		if strings.ContainsFunc(strings.TrimSpace(log.String()), unsafe) {
			t.Errorf("%s log: %q", format, log.String())
		}
	}
}

func TestSafetyS59_StateKeyFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", strings.Repeat("ab", 32)+"\n", 0o600)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file("empty", "", 0o600):                      "is empty",
		file("short", "8 bytes.", 0o600):              "has 8 bytes, at least 32 are needed",
		file("open", strings.Repeat("ab", 32), 0o644): "chmod 600",
		link:                          "symbolic link",
		filepath.Join(dir, "missing"): "no such file",
	} {
		code, _, stderr := runArgs(t, "serve", "--upstream", "http://127.0.0.1:1/", "--state-key", good, "--state-key", path)
		if code != exitUsage || !strings.Contains(stderr, want) || !strings.Contains(stderr, path) {
			t.Errorf("%s: exit %d: %s", path, code, stderr)
		}
	}
	upstream := peer(t, peers.NewLegacyServer(peers.ServerOptions{}))
	s := serve(t, "--upstream", upstream, "--state-key", good)
	if strings.Contains(s.stderr.String(), "random key") {
		t.Errorf("a key was given: %s", s.stderr)
	}
	if s := serve(t, "--upstream", upstream); !strings.Contains(s.stderr.String(), "random key") || !strings.Contains(s.stderr.String(), "a refreshed token is a new principal") {
		t.Errorf("startup: %s", s.stderr)
	}
}
