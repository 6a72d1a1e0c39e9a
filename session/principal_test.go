package session_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"taskbridge/session"
)

func TestHashPrincipal(t *testing.T) {
	seen := map[session.Principal][]string{}
	for _, parts := range [][]string{
		{"token"}, {"token", ""}, {"token", "a"}, {"token", "a", ""}, {"token", "", "a"}, {"tokena"},
		{"header", "X-User", "a"}, {"header", "X-Use", "ra"}, {"header", "X-User", "A"}, {"local"}, {""}, {"", ""},
		{"token", "ab", "c"}, {"token", "a", "bc"}, {"token", "abc"},
	} {
		p := session.HashPrincipal(parts[0], parts[1:]...)
		if len(p) != 43 || strings.ContainsAny(string(p), "/:+=") {
			t.Errorf("%q gives %q", parts, p)
		}
		if other, ok := seen[p]; ok {
			t.Errorf("%q and %q are one principal", parts, other)
		}
		seen[p] = parts
		if again := session.HashPrincipal(parts[0], parts[1:]...); again != p {
			t.Errorf("%q gives %q, then %q", parts, p, again)
		}
	}
}

func TestParsePrincipalPolicy(t *testing.T) {
	for _, c := range []struct{ in, out, fail string }{
		{"token", "token", ""},
		{"", "token", ""},
		{"header:x-user", "header:X-User", ""},
		{"header:X-User", "header:X-User", ""},
		{"header", "", "needs a name"},
		{"header:", "", "needs a name"},
		{"header:X_User", "", "letters, digits"},
		{"header:X User", "", "letters, digits"},
		{"header:X-User:a", "", "letters, digits"},
		{"header:Authorization", "", "use token"},
		{"header:Mcp-Session-Id", "", "of its own"},
		{"header:X-Forwarded-User", "", "of its own"},
		{"header:Cookie", "", "of its own"},
		{"jwt:https://issuer.example/jwks", "jwt:https://issuer.example/jwks", ""},
		{"jwt:keys.json", "jwt:keys.json", ""},
		{"jwt:", "", "needs the file or URL"},
		{"jwt", "", "needs the file or URL"},
		{"token:x", "", "want token"},
		{"Token", "", "want token"},
		{"ip", "", "want token"},
	} {
		p, err := session.ParsePrincipalPolicy(c.in)
		switch {
		case c.fail == "" && (err != nil || p.String() != c.out):
			t.Errorf("%q: %v, %v", c.in, p, err)
		case c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)):
			t.Errorf("%q: error %v, want %q", c.in, err, c.fail)
		}
	}
	if p, _ := session.ParsePrincipalPolicy("header:x-user"); p.String() != "header:X-User" || !p.NeedsTrusted() {
		t.Errorf("header policy: %q, %v", p, p.NeedsTrusted())
	}
	if p, _ := session.ParsePrincipalPolicy("token"); p.String() != "token" || p.NeedsTrusted() {
		t.Errorf("token policy: %q, %v", p, p.NeedsTrusted())
	}
}

// TestPrincipalJWT: the policy alone identifies nobody.
func TestPrincipalJWT(t *testing.T) {
	runPrincipal(t, "jwt:keys.json", []principalCase{
		{name: "token", header: http.Header{"Authorization": {"Bearer secret"}}, fail: true},
		{name: "none on loopback", loopback: true, fail: true},
	})
}

type principalCase struct {
	name     string
	header   http.Header
	remote   string
	trusted  []string
	loopback bool
	signs    bool

	want session.Principal
	open bool
	fail bool
}

func runPrincipal(t *testing.T, policy string, cases []principalCase) {
	t.Helper()
	pp, err := session.ParsePrincipalPolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		r := session.PrincipalRequest{Header: c.header, Loopback: c.loopback, ProxySigns: c.signs}
		if c.remote != "" {
			r.RemoteAddr = netip.MustParseAddr(c.remote)
		}
		for _, p := range c.trusted {
			r.Trusted = append(r.Trusted, netip.MustParsePrefix(p))
		}
		p, open, err := pp.Of(r)
		if p != c.want || open != c.open || (err != nil) != c.fail {
			t.Errorf("%s: %q, open %v, %v; want %q, %v, error %v", c.name, p, open, err, c.want, c.open, c.fail)
		}
		if err != nil {
			if !errors.Is(err, session.ErrPrincipalHeader) {
				t.Errorf("%s: error %v is of no known kind", c.name, err)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "alice") {
				t.Errorf("%s: error shows a value: %v", c.name, err)
			}
		}
	}
}

func TestPrincipalToken(t *testing.T) {
	tok := func(v string) session.Principal { return session.HashPrincipal("token", v) }
	runPrincipal(t, "token", []principalCase{
		{name: "token", header: http.Header{"Authorization": {"Bearer secret"}}, want: tok("Bearer secret")},
		{name: "exact value", header: http.Header{"Authorization": {"bearer secret"}}, want: tok("bearer secret")},
		{name: "odd spelling", header: http.Header{"authorization": {"Bearer secret"}}, want: tok("Bearer secret")},
		{name: "token on loopback", header: http.Header{"Authorization": {"Bearer secret"}}, loopback: true, want: tok("Bearer secret")},
		{name: "two", header: http.Header{"Authorization": {"Bearer secret", "Bearer secret"}}, fail: true},
		{name: "two spellings", header: http.Header{"Authorization": {"Bearer secret"}, "authorization": {"Bearer secret"}}, fail: true},
		{name: "empty", header: http.Header{"Authorization": {""}}, loopback: true, fail: true},
		{name: "blank", header: http.Header{"Authorization": {" \t"}}, loopback: true, fail: true},
		{name: "no value at all", header: http.Header{"Authorization": nil}, loopback: true, want: session.LocalPrincipal},
		{name: "twin", header: http.Header{"Author_ization": {"Bearer secret"}}, loopback: true, want: session.LocalPrincipal},

		{name: "loopback", loopback: true, remote: "127.0.0.1", want: session.LocalPrincipal},
		{name: "stdio", loopback: true, want: session.LocalPrincipal},
		{name: "elsewhere", remote: "10.0.0.1", open: true},
		{name: "elsewhere, loopback peer", remote: "127.0.0.1", open: true},
		{name: "signs", loopback: true, signs: true, open: true},
		{name: "trusted proxy", loopback: true, trusted: []string{"10.0.0.0/8"}, open: true},
		{name: "Forwarded", header: http.Header{"Forwarded": {"for=1.2.3.4"}}, loopback: true, open: true},
		{name: "X-Forwarded-For", header: http.Header{"X-Forwarded-For": {"1.2.3.4"}}, loopback: true, open: true},
		{name: "X-Forwarded-Whatever", header: http.Header{"X-Forwarded-Whatever": {""}}, loopback: true, open: true},
		{name: "Via", header: http.Header{"Via": {"1.1 nginx"}}, loopback: true, open: true},
		{name: "X-Real-IP", header: http.Header{"X-Real-Ip": {"1.2.3.4"}}, loopback: true, open: true},
		{name: "twin of a sign", header: http.Header{"X_forwarded_for": {"1.2.3.4"}}, loopback: true, open: true},
		{name: "token and Forwarded", header: http.Header{"Authorization": {"Bearer secret"}, "Via": {"x"}}, loopback: true, want: tok("Bearer secret")},
	})
}

func TestSafetyS13_PrincipalHeaderSpoof(t *testing.T) {
	user := func(v string) session.Principal { return session.HashPrincipal("header", "X-User", v) }
	lan := []string{"10.0.0.0/8"}
	runPrincipal(t, "header:X-User", []principalCase{
		{name: "trusted", header: http.Header{"X-User": {"alice"}}, remote: "10.1.2.3", trusted: lan, want: user("alice")},
		{name: "trusted, odd spelling", header: http.Header{"x-user": {"alice"}}, remote: "10.1.2.3", trusted: lan, want: user("alice")},
		{name: "trusted, mapped address", header: http.Header{"X-User": {"alice"}}, remote: "::ffff:10.1.2.3", trusted: lan, want: user("alice")},
		{name: "trusted, mapped prefix", header: http.Header{"X-User": {"alice"}}, remote: "10.1.2.3", trusted: []string{"::ffff:10.0.0.0/104"}, want: user("alice")},
		{name: "trusted, zone", header: http.Header{"X-User": {"alice"}}, remote: "fe80::1%eth0", trusted: []string{"fe80::/10"}, want: user("alice")},
		{name: "case of the value counts", header: http.Header{"X-User": {"Alice"}}, remote: "10.1.2.3", trusted: lan, want: user("Alice")},

		{name: "untrusted", header: http.Header{"X-User": {"alice"}}, remote: "11.1.2.3", trusted: lan, open: true},
		{name: "untrusted on loopback", header: http.Header{"X-User": {"alice"}}, remote: "127.0.0.1", trusted: lan, loopback: true, open: true},
		{name: "listed loopback", header: http.Header{"X-User": {"alice"}}, remote: "127.0.0.1", trusted: []string{"127.0.0.0/8"}, loopback: true, want: user("alice")},
		{name: "nobody trusted", header: http.Header{"X-User": {"alice"}}, remote: "127.0.0.1", loopback: true, open: true},
		{name: "no address", header: http.Header{"X-User": {"alice"}}, trusted: []string{"0.0.0.0/0", "::/0"}, open: true},
		{name: "untrusted with X-Forwarded-For", header: http.Header{"X-User": {"alice"}, "X-Forwarded-For": {"10.1.2.3"}}, remote: "11.1.2.3", trusted: lan, open: true},
		{name: "a token is no identity here", header: http.Header{"Authorization": {"Bearer secret"}}, remote: "10.1.2.3", trusted: lan, open: true},
		{name: "absent", remote: "10.1.2.3", trusted: lan, open: true},

		{name: "twin alone", header: http.Header{"X_user": {"alice"}}, remote: "10.1.2.3", trusted: lan, open: true},
		{name: "twin beside", header: http.Header{"X-User": {"bob"}, "X_user": {"alice"}, "X_User": {"alice"}}, remote: "10.1.2.3", trusted: lan, want: user("bob")},
		{name: "empty", header: http.Header{"X-User": {""}}, remote: "10.1.2.3", trusted: lan, fail: true},
		{name: "blank", header: http.Header{"X-User": {" "}}, remote: "10.1.2.3", trusted: lan, fail: true},
		{name: "empty, untrusted", header: http.Header{"X-User": {""}}, remote: "11.1.2.3", trusted: lan, fail: true},
		{name: "two", header: http.Header{"X-User": {"alice", "bob"}}, remote: "10.1.2.3", trusted: lan, fail: true},
		{name: "two, one empty", header: http.Header{"X-User": {"", "alice"}}, remote: "10.1.2.3", trusted: lan, fail: true},
		{name: "two spellings", header: http.Header{"X-User": {"alice"}, "X-USER": {"alice"}}, remote: "10.1.2.3", trusted: lan, fail: true},
		{name: "two, untrusted", header: http.Header{"X-User": {"alice", "alice"}}, remote: "11.1.2.3", trusted: lan, fail: true},
		{name: "two tokens", header: http.Header{"X-User": {"alice"}, "Authorization": {"a", "b"}}, remote: "10.1.2.3", trusted: lan, fail: true},
	})
	if user("alice") == session.HashPrincipal("token", "alice") {
		t.Error("a header's value and a token are one principal")
	}
}
