package downstream

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNewGuardRefuses(t *testing.T) {
	for _, o := range []GuardOptions{
		{AllowedOrigins: []string{"*"}},
		{AllowedOrigins: []string{"null"}},
		{AllowedOrigins: []string{"https://*.example"}},
		{AllowedOrigins: []string{"https://a.example/path"}},
		{AllowedOrigins: []string{"https://u@a.example"}},
		{AllowedOrigins: []string{"https://a.example:0"}},
		{AllowedOrigins: []string{"a.example"}},
		{AllowedHosts: []string{"https://a.example"}},
		{AllowedHosts: []string{""}},
		{AllowedHosts: []string{"[::1"}},
		{AllowedHosts: []string{"*.example"}},
		{PublicURL: "a.example"},
		{PublicURL: "ftp://a.example"},
		{PublicURL: "https://bücher.example"},
		{AllowedHosts: []string{"bücher.example"}},
		{AllowedOrigins: []string{"https://bücher.example"}},
	} {
		if _, err := NewGuard(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestHostCheck(t *testing.T) {
	loopback, err := NewGuard(GuardOptions{Loopback: true, AllowedHosts: []string{"Box.lan", "port.lan:81"}, PublicURL: "https://pub.example/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST": true, "localhost.": true,
		"127.0.0.1:8080": true, "127.8.8.8": true, "[::1]": true, "[::1]:8080": true, "[0:0::1]": true, "[::1%25lo]": true,
		"box.lan": true, "box.lan:9": true, "port.lan:81": true, "port.lan": false, "port.lan:82": false,
		"pub.example": true, "pub.example:443": true,
		"localhost.evil": false, "localhost.evil:8080": false, "evil": false, "": false, "localhost@evil": false,
		"127.0.0.1.evil": false, "127.0.0.1:80evil": false, "localhost:": true, "localhost:0": false,
		"[::1": false, "[::1]x": false, "[localhost]": false, "::1": false, "0.0.0.0": false, "192.168.0.1": false,
		"xlocalhost": false, "localhost:8080:1": false, "2130706433": false,
	} {
		if got := loopback.hostAllowed(host); got != want {
			t.Errorf("loopback: Host %q: %v, want %v", host, got, want)
		}
	}
	public, _ := NewGuard(GuardOptions{})
	if !public.hostAllowed("anything") {
		t.Error("a public listener without a list refuses a Host")
	}
	listed, _ := NewGuard(GuardOptions{AllowedHosts: []string{"a.example"}})
	if listed.hostAllowed("localhost") || !listed.hostAllowed("a.example") {
		t.Error("a public listener with a list takes another Host")
	}
}

func TestSafetyS2_OriginTricks(t *testing.T) {
	r := newRig(t, nil, func(o *Options) {
		o.AllowedOrigins = []string{"https://App.example", "http://b.example:3000", "chrome-extension://abcdef", "https://d.example:443"}
	})
	for origin, want := range map[string]int{
		"":                           200,
		"https://app.example":        200,
		"http://b.example:3000":      200,
		"chrome-extension://abcdef":  200,
		"https://d.example":          200,
		"http://localhost:8080":      200,
		"https://127.0.0.1:8080":     200,
		"http://[::1]:8080":          200,
		"null":                       403,
		"http://app.example":         403,
		"https://app.example:8443":   403,
		"https://app.example.evil":   403,
		"http://b.example":           403,
		"http://localhost.evil":      403,
		"http://localhost.evil:8080": 403,
		"https://localhost@evil":     403,
		"http://localhost:8080@evil": 403,
		"http://localhost:3000":      403,
		"http://localhost":           403,
		"http://127.0.0.1:80":        403,
		"ftp://localhost:8080":       403,
		"file://":                    403,
		"*":                          403,
		"http://localhost:8080 https://app.example": 403,
	} {
		lines := []string{}
		if origin != "" {
			lines = append(lines, "Origin: "+origin)
		}
		if got := r.post(ping, lines...); got.status != want {
			t.Errorf("Origin %q: %d, want %d", origin, got.status, want)
		}
	}
	if got := r.post(ping, "Origin: https://app.example", "Origin: https://app.example"); got.status != 403 {
		t.Errorf("two origins: %d", got.status)
	}
	before := len(r.hub.calls())
	r.post(ping, "Host: evil.example", "Origin: http://evil.example")
	r.post(ping, "Host: localhost.evil")
	r.do(req("GET", "", "Origin: http://evil.example"))
	r.do(req("DELETE", "", "Origin: http://evil.example"))
	if len(r.hub.calls()) != before {
		t.Error("a refused request reached the hub")
	}
}

func TestSafetyS2_PublicListenerHasNoOriginsOfItsOwn(t *testing.T) {
	r := newRig(t, nil, func(o *Options) { o.Loopback = false })
	if got := r.post(ping, "Origin: http://localhost:8080"); got.status != 403 {
		t.Errorf("%d, want 403", got.status)
	}
}

func TestSafetyS4_CORS(t *testing.T) {
	r := newRig(t, nil, func(o *Options) { o.AllowedOrigins = []string{"https://app.example"} })
	preflight := func(origin string) reply {
		return r.do(req("OPTIONS", "", "Origin: "+origin, "Access-Control-Request-Method: POST",
			"Access-Control-Request-Headers: content-type,mcp-param-region, Mcp-Param-Bad Name,x-other,mcp-method"))
	}
	got := preflight("https://app.example")
	allowed := got.header.Get("Access-Control-Allow-Headers")
	if got.status != 200 || got.body != "" || got.header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		got.header.Get("Vary") != "Origin" || got.header.Get("Access-Control-Allow-Methods") != "GET, POST, DELETE" {
		t.Errorf("preflight: %+v", got)
	}
	for _, name := range []string{"Content-Type", "Authorization", "Accept", "Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-ID", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region"} {
		if !strings.Contains(allowed, name) {
			t.Errorf("%s is not allowed in %q", name, allowed)
		}
	}
	if strings.Contains(allowed, "Bad") || strings.Contains(strings.ToLower(allowed), "x-other") || strings.Contains(allowed, "*") {
		t.Errorf("allowed headers %q", allowed)
	}
	for _, q := range []*http.Request{
		req("POST", ping, "Origin: https://app.example"),
		req("GET", "", "Origin: https://app.example"),
		req("POST", `{`, "Origin: https://app.example"),
		req("PUT", "", "Origin: https://app.example"),
	} {
		got := r.do(q)
		if got.header.Get("Access-Control-Allow-Origin") != "https://app.example" || got.header.Get("Vary") != "Origin" ||
			got.header.Get("Access-Control-Expose-Headers") != "Mcp-Session-Id, WWW-Authenticate" {
			t.Errorf("%s: %v", q.Method, got.header)
		}
		if got.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: credentials are allowed", q.Method)
		}
	}
	for _, got := range []reply{
		preflight("https://evil.example"),
		r.post(ping, "Origin: https://evil.example"),
		r.do(req("GET", "", "Origin: https://evil.example")),
		r.do(req("OPTIONS", "", "Origin: null", "Access-Control-Request-Method: POST")),
	} {
		if got.status != 403 || got.header.Get("Access-Control-Allow-Origin") != "" || got.header.Get("Vary") != "Origin" {
			t.Errorf("unlisted: %d %v", got.status, got.header)
		}
		if !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","error":`) {
			t.Errorf("body %s has an id", got.body)
		}
	}
	if got := r.do(req("OPTIONS", "")); got.status != 405 {
		t.Errorf("OPTIONS of no browser: %d", got.status)
	}
}

func TestSafetyS6_AdminGuard(t *testing.T) {
	g, err := NewGuard(GuardOptions{Loopback: true, RefuseOrigins: true, AllowedOrigins: []string{"http://listed.example"}})
	if err != nil {
		t.Fatal(err)
	}
	reached := 0
	h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached++ }),
		func(w http.ResponseWriter, status int, why string) { http.Error(w, why, status) })
	for _, tt := range []struct {
		verb, host, origin, contentType string
		want                            int
	}{
		{"GET", "localhost:9", "", "", 200},
		{"POST", "localhost:9", "", "application/json", 200},
		{"POST", "localhost:9", "", "application/json; charset=utf-8", 200},
		{"POST", "localhost:9", "", "text/plain", 415},
		{"POST", "localhost:9", "", "application/x-www-form-urlencoded", 415},
		{"POST", "localhost:9", "", "", 415},
		{"DELETE", "localhost:9", "", "application/json", 405},
		{"OPTIONS", "localhost:9", "", "", 405},
		{"POST", "localhost:9", "http://localhost:9", "application/json", 403},
		{"GET", "localhost:9", "http://listed.example", "", 403},
		{"OPTIONS", "localhost:9", "http://listed.example", "", 403},
		{"GET", "evil.example", "", "", 403},
		{"POST", "localhost.evil:9", "", "application/json", 403},
	} {
		q := httptest.NewRequest(tt.verb, "http://x/drain", nil)
		q.Host = tt.host
		for name, v := range map[string]string{"Origin": tt.origin, "Content-Type": tt.contentType} {
			if v != "" {
				q.Header.Set(name, v)
			}
		}
		w := httptest.NewRecorder()
		reached = 0
		h.ServeHTTP(w, q)
		if w.Code != tt.want || (reached == 1) != (tt.want == 200) {
			t.Errorf("%+v: %d, reached %d", tt, w.Code, reached)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" ||
			w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%+v: %v", tt, w.Header())
		}
	}
}
