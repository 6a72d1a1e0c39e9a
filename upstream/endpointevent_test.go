package upstream

import (
	"net/url"
	"strings"
	"testing"
)

func mustURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestCaseB60_EndpointURL: URL rules against the stream's own address; the
// query byte for byte.
func TestCaseB60_EndpointURL(t *testing.T) {
	for _, c := range []struct{ stream, data, want string }{
		{"https://h/gw/sse", "/messages?sid=1", "https://h/messages?sid=1"},
		{"https://h/gw/sse", "messages?sid=1", "https://h/gw/messages?sid=1"},
		{"https://h/gw/sse", "./messages?sid=1", "https://h/gw/messages?sid=1"},
		{"https://h/gw/sse/", "messages?sid=1", "https://h/gw/sse/messages?sid=1"},
		{"https://h/gw/sse", "../m?sid=1", "https://h/m?sid=1"},
		{"https://h/gw/sse?key=a", "?sid=1", "https://h/gw/sse?sid=1"},
		{"https://h/gw/sse?key=a", "/m", "https://h/m"},
		{"https://h/sse", "https://h/m?sid=%2F+%20a&b=;x", "https://h/m?sid=%2F+%20a&b=;x"},
		{"https://h/sse", "https://H:443/m", "https://H:443/m"},
		{"https://h:443/sse", "https://h/m", "https://h/m"},
		{"http://h:8000/sse", "//h:8000/m", "http://h:8000/m"},
		{"http://[::1]:8000/sse", "/a%2Fb/c%20d?e=%7e", "http://[::1]:8000/a%2Fb/c%20d?e=%7e"},
		{"https://h/sse", " /m?sid=1 ", "https://h/m?sid=1"},
		{"https://h/sse", "/m?sid=1#frag", "https://h/m?sid=1"},
	} {
		got, err := messageURL(c.data, mustURL(t, c.stream))
		if err != nil || got.String() != c.want {
			t.Errorf("%s on %s: %v, %v; want %s", c.data, c.stream, got, err, c.want)
		}
	}
}

// endpointTricks lead elsewhere, or are no URL of a message path.
var endpointTricks = []string{
	"//evil/m", "https://h@evil/m", "https://h:444/m", `\\evil`, `\\evil/m`, `/\evil/m`, `https:\\evil\m`, "javascript:x",
	"http://h/m", "https://evil.example/m", "https://h.evil/m", "https://user:pass@h/m", "//user@h/m", "ftp://h/m", "https:///m",
	"https:m", "data:text/plain,x", "file:///etc/passwd", "", "   ", "/m\x00", "/m\x7f?a", "ht\ttps://evil/m", "/m sid", "https://h:x/m", "https://[::1/m",
	"https://h\u3002evil/m", "https://evil%2eexample/m", "/" + strings.Repeat("a", 1<<20),
}

func TestSafetyS20_EndpointElsewhere(t *testing.T) {
	for _, data := range endpointTricks {
		got, err := messageURL(data, mustURL(t, "https://h/sse?token=hunter2"))
		switch {
		case err == nil:
			t.Errorf("%.60q is taken: %s", data, got)
		case !strings.Contains(err.Error(), "https://h/sse"), strings.Contains(err.Error(), "hunter2"), len(err.Error()) > 600:
			t.Errorf("%.60q: %q", data, err)
		}
	}
	_, err := messageURL("https://other.example/m?sid=secret", mustURL(t, "https://h/sse"))
	if err == nil || !strings.Contains(err.Error(), "https://h/sse") || !strings.Contains(err.Error(), "https://other.example/m") || strings.Contains(err.Error(), "secret") {
		t.Errorf("both places, no session: %v", err)
	}
}

// TestCaseB60_Override: a configured message URL is where messages go, with the
// server's session.
func TestCaseB60_Override(t *testing.T) {
	for _, c := range []struct{ at, data, want string }{
		{"https://h/gw/messages", "/messages?sid=1", "https://h/gw/messages?sid=1"},
		{"https://h/gw/messages?k=a", "https://evil/m?sid=1#x", "https://h/gw/messages?k=a&sid=1"},
		{"https://h/gw/messages", "/messages", "https://h/gw/messages"},
	} {
		if got, err := overrideURL(c.data, mustURL(t, c.at)); err != nil || got.String() != c.want {
			t.Errorf("%s: %v, %v; want %s", c.data, got, err, c.want)
		}
	}
	for _, data := range []string{"/m?a b", "/m?a\nb", "/m?" + strings.Repeat("a", 1<<20)} {
		if got, err := overrideURL(data, mustURL(t, "https://h/m")); err == nil {
			t.Errorf("%.40q is taken: %s", data, got)
		}
	}
}

// FuzzMessageURL: whatever a server announces, nothing leaves its origin.
func FuzzMessageURL(f *testing.F) {
	for _, data := range endpointTricks[:len(endpointTricks)-1] {
		f.Add(data)
	}
	f.Add("/messages?sid=1")
	f.Add("messages/?a=%2f")
	f.Fuzz(func(t *testing.T, data string) {
		stream := mustURL(t, "https://h/gw/sse?token=x")
		got, err := messageURL(data, stream)
		if err != nil {
			if len(err.Error()) > 3*maxErrorText {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if got.Scheme != "https" || got.Hostname() != "h" && got.Hostname() != "H" || got.Port() != "" && got.Port() != "443" || got.User != nil || got.Opaque != "" {
			t.Errorf("%q leads to %s", data, got)
		}
		again, err := url.Parse(got.String())
		if err != nil || !sameOrigin(again, stream) {
			t.Errorf("%q is written as %s, which leads elsewhere", data, got)
		}
		if _, query, ok := strings.Cut(strings.Trim(data, " \t"), "?"); ok {
			query, _, _ = strings.Cut(query, "#")
			if strings.Contains(data, "#") && strings.Index(data, "#") < strings.Index(data, "?") {
				return
			}
			if got.RawQuery != query {
				t.Errorf("%q: query %q", data, got.RawQuery)
			}
		}
	})
}
