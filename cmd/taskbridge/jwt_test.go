package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session/bearer/bearertest"
)

const jwtAudience = "https://gw.example/mcp"

func keyFile(t *testing.T, keys ...bearertest.Key) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, bearertest.Set(t, keys...), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// tokenOf is a good token of a subject; it differs from others of the same by
// its end.
func tokenOf(t *testing.T, k bearertest.Key, sub string, life time.Duration) string {
	t.Helper()
	return k.Sign(t, "EdDSA", map[string]any{"iss": "https://issuer.example", "sub": sub, "aud": jwtAudience, "exp": time.Now().Add(life).Unix()}, nil)
}

func bearing(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func TestJWTFlags(t *testing.T) {
	k := bearertest.Ed(t, "k")
	file := keyFile(t, k)
	missing := filepath.Join(t.TempDir(), "none.json")
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(`{"error":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const need = "say whom tokens are for with --jwt-audience or --public-url"
	for _, c := range []struct {
		args []string
		fail string // empty: it starts
	}{
		{[]string{"--principal", "jwt:" + file}, need},
		{[]string{"--principal", "jwt:" + file, "--jwt-audience", jwtAudience}, ""},
		{[]string{"--principal", "jwt:" + file, "--public-url", jwtAudience}, ""},
		{[]string{"--principal", "jwt:" + file, "--jwt-audience", "a", "--jwt-audience", "b", "--jwt-issuer", "i", "--jwt-alg", "ES384,PS256"}, ""},
		{[]string{"--principal", "jwt:" + file, "--jwt-audience", ""}, "--jwt-audience: is empty"},
		{[]string{"--principal", "jwt:" + file, "--jwt-audience", "a", "--jwt-alg", "HS256"}, `algorithm "HS256": tokens are signed with a private key`},
		{[]string{"--principal", "jwt:" + file, "--jwt-audience", "a", "--jwt-alg", "RS256,none"}, `algorithm "none"`},
		{[]string{"--principal", "jwt:" + file, "--jwt-audience", "a", "--jwt-alg", "RS257"}, `algorithm "RS257": want RS256`},
		{[]string{"--principal", "jwt:" + file, "--jwt-audience", "a", "--jwt-alg", ""}, `algorithm ""`},
		{[]string{"--principal", "jwt:" + file, "--jwt-audience", "a", "--allow-open"}, "--allow-open: nobody comes in unverified"},
		{[]string{"--principal", "jwt:", "--jwt-audience", "a"}, "needs the file or URL of a key set"},
		{[]string{"--principal", "jwt:http://issuer.example/keys", "--jwt-audience", "a"}, "keys come over https://"},
		{[]string{"--principal", "jwt:https://u:hunter2@issuer.example/keys", "--jwt-audience", "a"}, "no user or password"},
		{[]string{"--principal", "jwt:" + missing, "--jwt-audience", "a"}, "read keys: open " + missing},
		{[]string{"--principal", "jwt:" + broken, "--jwt-audience", "a"}, "not a JWK set"},
		{[]string{"--jwt-audience", "a"}, "--jwt-audience: goes with --principal jwt:JWKS only"},
		{[]string{"--jwt-issuer", "a"}, "--jwt-issuer: goes with"},
		{[]string{"--jwt-alg", "RS256", "--principal", "token"}, "--jwt-alg: goes with"},
	} {
		args := append([]string{"--upstream", "http://127.0.0.1:1/"}, c.args...)
		if c.fail == "" {
			if s := serve(t, args...); s.end() != exitOK {
				t.Errorf("%q: %s", c.args, s.stderr)
			}
			continue
		}
		code, _, stderr := runArgs(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, c.fail) || strings.Contains(stderr, "hunter2@") {
			t.Errorf("%q: exit %d: %s\nwant %q", c.args, code, stderr, c.fail)
		}
	}
	t.Setenv("TASKBRIDGE_JWT_ALG", "ES256,EdDSA")
	if s := serve(t, "--upstream", "http://127.0.0.1:1/", "--principal", "jwt:"+file, "--jwt-audience", "a"); s.end() != exitOK {
		t.Errorf("a list in the environment: %s", s.stderr)
	}
}

// TestSafetyS14_Verified: who brings a good token may use the credential that is
// the operator's, on an open listener too; nobody else gets as far as the server.
func TestSafetyS14_Verified(t *testing.T) {
	k := bearertest.Ed(t, "k")
	var got seen
	upstream := peer(t, peers.NewModernServer(peers.ServerOptions{Trace: got.trace}))
	s := serve(t, "--listen", "0.0.0.0:0", "--upstream", upstream, "--header", "Authorization: Bearer ours", "--log-level", "debug",
		"--principal", "jwt:"+keyFile(t, k), "--jwt-audience", jwtAudience, "--admin", "127.0.0.1:0")
	url := strings.Replace(s.url, "[::]", "127.0.0.1", 1)
	forged := bearertest.Key{ID: "k", Private: bearertest.Ed(t, "").Private}
	bad := map[string]http.Header{
		"nothing": nil, "made up": bearing("made-up-hunter2"), "forged": bearing(tokenOf(t, forged, "hunter2", time.Hour)),
		"expired": bearing(tokenOf(t, k, "hunter2", -time.Hour)), "another scheme": {"Authorization": {"Basic aHVudGVyMg=="}},
	}
	for name, h := range bad {
		c := modernClient(t, url)
		c.Header = h
		r, err := c.Call(t.Context(), "tools/list", nil)
		if err != nil || r.Status != http.StatusUnauthorized || !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: %v %d %v", name, err, r.Status, r.Header)
		}
		old := &peers.LegacyClient{URL: url, Header: h}
		if _, err := old.Initialize(t.Context()); err == nil {
			t.Errorf("%s: initialize was answered", name)
		}
	}
	if n := len(got.headers()); n != 0 {
		t.Errorf("the server heard of it %d times", n)
	}
	good := tokenOf(t, k, "somebody-real", time.Hour)
	c := modernClient(t, url)
	c.Header = bearing(good)
	if r, err := c.Call(t.Context(), "tools/list", nil); err != nil || r.Err() != nil {
		t.Errorf("good: %v %d %s", err, r.Status, r.Raw)
	}
	for _, h := range got.headers() {
		if auth := h["Authorization"]; len(auth) != 1 || auth[0] != "Bearer ours" {
			t.Errorf("Authorization %q went up", auth)
		}
	}
	_, _, metrics := ask(t, "GET", s.admin+"/metrics", nil, "")
	if !strings.Contains(metrics, "taskbridge_jwks_last_success_timestamp_seconds 1") || !strings.Contains(metrics, `taskbridge_refused_total{condition="not authorized"} `) {
		t.Error("metrics do not tell of keys and refusals")
	}
	told := s.stderr.String() + metrics
	words := []string{"hunter2", good, "somebody-real"}
	for _, h := range bad {
		if v := strings.TrimPrefix(h.Get("Authorization"), "Bearer "); v != "" {
			words = append(words, v)
			words = append(words, strings.Split(v, ".")...)
		}
	}
	for _, w := range words {
		if strings.Contains(told, w) {
			t.Errorf("logs or metrics tell %q", w)
		}
	}
}

// TestTenancyJWT: tasks belong to issuer and subject. A refreshed token finds
// them, another subject's finds nothing, in the words for tasks that never were.
func TestTenancyJWT(t *testing.T) {
	k := bearertest.Ed(t, "k")
	file := keyFile(t, k)
	for name, server := range map[string]func(peers.ServerOptions) interface {
		http.Handler
		Close() error
	}{
		"modern server": func(o peers.ServerOptions) interface {
			http.Handler
			Close() error
		} {
			return peers.NewModernServer(o)
		},
		"legacy server": func(o peers.ServerOptions) interface {
			http.Handler
			Close() error
		} {
			return peers.NewLegacyServer(o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "--upstream", peer(t, server(peers.ServerOptions{})), "--header", "X-Api-Key: k",
				"--principal", "jwt:"+file, "--jwt-audience", jwtAudience)
			t.Run("modern client", func(t *testing.T) { tenancyModern(t, s.url, k) })
			t.Run("legacy client", func(t *testing.T) { tenancyLegacy(t, s.url, k) })
		})
	}
}

func tenancyModern(t *testing.T, url string, k bearertest.Key) {
	ada, bob := modernClient(t, url), modernClient(t, url)
	ada.Header, bob.Header = bearing(tokenOf(t, k, "ada", time.Hour)), bearing(tokenOf(t, k, "bob", time.Hour))
	run, err := ada.RunTask(t.Context(), "confirm_delete", map[string]string{"filename": "x"}, peers.Accept(map[string]any{"confirm": true}))
	wantDeleted(t, run, err)
	params := map[string]any{"taskId": run.TaskID}
	unknown, err := bob.Call(t.Context(), "tasks/get", map[string]any{"taskId": "task-that-never-was"})
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		r, err := bob.Call(t.Context(), method, params)
		if err != nil || r.Code() != peers.CodeInvalidParams || string(r.Error) != string(unknown.Error) {
			t.Errorf("%s of another's: %v %s, want %s", method, err, r.Raw, unknown.Error)
		}
	}
	ada.Header = bearing(tokenOf(t, k, "ada", 2*time.Hour))
	if r, err := ada.Call(t.Context(), "tasks/get", params); err != nil || r.Err() != nil {
		t.Errorf("with a refreshed token: %v %s", err, r.Raw)
	}
}

func tenancyLegacy(t *testing.T, url string, k bearertest.Key) {
	client := func(sub string, life time.Duration) *peers.LegacyClient {
		c := &peers.LegacyClient{URL: url, Header: bearing(tokenOf(t, k, sub, life)), OnRequest: peers.Accept(map[string]any{"confirm": true})}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := c.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	ada, bob := client("ada", time.Hour), client("bob", time.Hour)
	run, err := ada.RunTask(t.Context(), "confirm_delete", map[string]string{"filename": "x"}, peers.Accept(map[string]any{"confirm": true}))
	wantDeleted(t, run, err)
	params := map[string]any{"taskId": run.TaskID}
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
		if r, err := bob.Call(t.Context(), method, params); err != nil || r.Code() != peers.CodeInvalidParams {
			t.Errorf("%s of another's: %v %s", method, err, r.Raw)
		}
	}
	if ids := taskIDs(t, bob); slices.Contains(ids, run.TaskID) || len(ids) != 0 {
		t.Errorf("another's list: %q", ids)
	}
	if ids := taskIDs(t, client("ada", 2*time.Hour)); !slices.Contains(ids, run.TaskID) {
		t.Errorf("with a refreshed token, in a new session: %q", ids)
	}
	// Another's session is unknown, whoever knows its id.
	thief := &peers.ModernClient{URL: url}
	h := bearing(tokenOf(t, k, "bob", time.Hour))
	h.Set("Mcp-Session-Id", ada.SessionID())
	h.Set("Mcp-Protocol-Version", "2025-11-25")
	if r, err := thief.Post(t.Context(), h, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)); err != nil || r.Status != http.StatusNotFound {
		t.Errorf("another's session: %v %d %s", err, r.Status, r.Raw)
	}
}

func taskIDs(t *testing.T, c *peers.LegacyClient) []string {
	t.Helper()
	r, err := c.Call(t.Context(), "tasks/list", nil)
	if err != nil || r.Err() != nil {
		t.Fatalf("%v %s", err, r.Raw)
	}
	var list struct{ Tasks []struct{ TaskID string } }
	if err := json.Unmarshal(r.Result, &list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, one := range list.Tasks {
		ids = append(ids, one.TaskID)
	}
	return ids
}

// An issuer that is away when we start is waited for: not ready, and callers
// hear to come again.
func TestJWTIssuerAwayAtStart(t *testing.T) {
	k := bearertest.Ed(t, "k")
	var up atomic.Bool
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write(bearertest.Set(t, k))
	}))
	t.Cleanup(issuer.Close)
	s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})), "--admin", "127.0.0.1:0",
		"--principal", "jwt:"+issuer.URL+"/keys?key=hunter2", "--jwt-audience", jwtAudience)
	c := modernClient(t, s.url)
	c.Header = bearing(tokenOf(t, k, "ada", time.Hour))
	r, err := c.Call(t.Context(), "tools/list", nil)
	if err != nil || r.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
		t.Errorf("without keys: %v %d %s", err, r.Status, r.Raw)
	}
	if status, _, body := ask(t, "GET", s.admin+"/readyz", nil, ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "keys") {
		t.Errorf("readyz without keys: %d %s", status, body)
	}
	up.Store(true)
	eventually(t, "ready", func() bool {
		status, _, _ := ask(t, "GET", s.admin+"/readyz", nil, "")
		return status == http.StatusOK
	})
	if r, err := c.Call(t.Context(), "tools/list", nil); err != nil || r.Err() != nil {
		t.Errorf("with keys: %v %d %s", err, r.Status, r.Raw)
	}
	if text := s.stderr.String(); !strings.Contains(text, "cannot be had yet") || strings.Contains(text, "hunter2") {
		t.Errorf("log: %s", text)
	}
}

// TestJWTMetadata: a refusal says where to read who gives tokens, and there it
// stands, also where the proxy has a credential of its own.
func TestJWTMetadata(t *testing.T) {
	const at = "https://gw.example/.well-known/oauth-protected-resource/mcp"
	k := bearertest.Ed(t, "k")
	own := []string{"--header", "Authorization: Bearer ours"}
	for name, c := range map[string]struct {
		args      []string
		challenge string
		doc       string
	}{
		"issuer": {[]string{"--jwt-issuer", "https://issuer.example"}, `Bearer resource_metadata="` + at + `"`,
			`{"resource":"` + jwtAudience + `","authorization_servers":["https://issuer.example"],"bearer_methods_supported":["header"]}`},
		"issuer, own credential": {append(own, "--jwt-issuer", "https://issuer.example"), `Bearer resource_metadata="` + at + `"`,
			`{"resource":"` + jwtAudience + `","authorization_servers":["https://issuer.example"],"bearer_methods_supported":["header"]}`},
		"the server's own":         {nil, `Bearer resource_metadata="` + at + `"`, `{"resource":"` + jwtAudience + `", "authorization_servers":["https://as.example"],"x":1.0}`},
		"nobody knows":             {own, "Bearer", ""},
		"an issuer that is no URL": {append(own, "--jwt-issuer", "me"), "Bearer", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, append([]string{"--upstream", challenging(t, document), "--upstream-era", "modern", "--public-url", jwtAudience,
				"--allowed-host", "127.0.0.1", "--principal", "jwt:" + keyFile(t, k)}, c.args...)...)
			status, h, _ := ask(t, http.MethodPost, s.url, modernHeader, discoverCall)
			if status != 401 || h.Get("Www-Authenticate") != c.challenge {
				t.Errorf("%d, %q", status, h.Get("Www-Authenticate"))
			}
			status, _, body := ask(t, http.MethodGet, strings.TrimSuffix(s.url, "/mcp")+"/.well-known/oauth-protected-resource/mcp", nil, "")
			if c.doc == "" && status != 404 || c.doc != "" && (status != 200 || body != c.doc) {
				t.Errorf("metadata: %d %s", status, body)
			}
		})
	}
}

// TestReload_Keys: who is known stays known over a reload while the place of the
// keys is out of reach: a new audience takes the keys there are, and a new place
// that gives none is refused.
func TestReload_Keys(t *testing.T) {
	k := bearertest.Ed(t, "k")
	var down atomic.Bool
	place := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(bearertest.Set(t, k))
	}))
	t.Cleanup(place.Close)
	text := func(keys, audience string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nprincipal: jwt:%s\njwt-audience: [%s]\nroutes:\n  - {path: /one, upstream: %q}\n",
			keys, audience, peer(t, peers.NewModernServer(peers.ServerOptions{})))
	}
	f := startFile(t, text(place.URL+"/keys", jwtAudience))
	want := func(what string, want int) {
		t.Helper()
		h := modernHeader.Clone()
		h.Set("Authorization", "Bearer "+tokenOf(t, k, "somebody", time.Hour))
		if status, _, body := ask(t, http.MethodPost, f.root+"/one", h, discoverCall); status != want {
			t.Errorf("%s: %d %s, want %d", what, status, body, want)
		}
	}
	want("at first", 200)
	down.Store(true)
	if err := f.put(text(place.URL+"/keys", jwtAudience+", other")); err != nil {
		t.Errorf("another audience: %v", err)
	}
	want("another audience", 200)
	if err := f.put(text(place.URL+"/elsewhere", jwtAudience)); err == nil || !strings.Contains(err.Error(), "/elsewhere cannot be had") {
		t.Errorf("keys that are not there: %v", err)
	}
	want("keys that are not there", 200)
	if err := f.put(text(place.URL+"/keys", "other")); err != nil {
		t.Errorf("for somebody else: %v", err)
	}
	want("for somebody else", 401)
	down.Store(false)
	if err := f.put(text(place.URL+"/elsewhere", jwtAudience)); err != nil {
		t.Errorf("keys that are there: %v", err)
	}
	want("keys that are there", 200)
}
