package bearer_test

import (
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/session/bearer"
	"taskbridge/session/bearer/bearertest"
)

const (
	issuer   = "https://issuer.example"
	audience = "https://gw.example/mcp"
)

// claims are good ones, changed; a nil removes a claim.
func claims(change map[string]any) map[string]any {
	c := map[string]any{"iss": issuer, "sub": "alice", "aud": audience, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// fileSet is a set read from a file.
func fileSet(t *testing.T, raw []byte) *bearer.KeySet {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := bearer.NewKeySet(bearer.KeyOptions{Source: file})
	if err == nil {
		err = s.Load(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func verifier(t *testing.T, o bearer.Options) *bearer.Verifier {
	t.Helper()
	if o.Audience == nil {
		o.Audience = []string{audience}
	}
	v, err := bearer.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

type tokenCase struct {
	name, token string
	fail        string // empty: it is believed
}

// check verifies each token; whoever is believed is alice of the issuer.
func check(t *testing.T, v *bearer.Verifier, cases []tokenCase) {
	t.Helper()
	alice := session.HashPrincipal("jwt", issuer, "alice")
	for _, c := range cases {
		p, until, err := v.Verify(t.Context(), c.token)
		if c.fail == "" {
			if err != nil || p != alice || until.IsZero() {
				t.Errorf("%s: %q, %v, %v", c.name, p, until, err)
			}
			continue
		}
		if !errors.Is(err, session.ErrTokenRefused) || !strings.Contains(err.Error(), c.fail) || p != "" {
			t.Errorf("%s: %q, error %v, want %q", c.name, p, err, c.fail)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.ContainsAny(err.Error(), "\"\\\n")) {
			t.Errorf("%s: the error shows the token, or cannot stand in a header: %v", c.name, err)
		}
	}
}

func TestAlgorithms(t *testing.T) {
	rs, es, es384, ed := bearertest.RSA(t, "rs", 2048), bearertest.EC(t, "es", elliptic.P256()), bearertest.EC(t, "es384", elliptic.P384()), bearertest.Ed(t, "ed")
	weak := bearertest.RSA(t, "weak", 1024)
	all := []bearertest.Key{rs, es, es384, ed, weak}
	v := verifier(t, bearer.Options{Keys: fileSet(t, bearertest.Set(t, all...)), Issuer: issuer})
	der, err := x509.MarshalPKIXPublicKey(rs.Private.Public())
	if err != nil {
		t.Fatal(err)
	}
	hs := func(secret []byte) func(string) []byte {
		return func(text string) []byte {
			m := hmac.New(sha256.New, secret)
			m.Write([]byte(text))
			return m.Sum(nil)
		}
	}
	none := func(string) []byte { return nil }
	good := claims(nil)
	check(t, v, []tokenCase{
		{"RS256", rs.Sign(t, "RS256", good, nil), ""},
		{"ES256", es.Sign(t, "ES256", good, nil), ""},
		{"EdDSA", ed.Sign(t, "EdDSA", good, nil), ""},
		{"RS512 is not among the default", rs.Sign(t, "RS512", good, nil), "algorithm"},
		{"PS256", rs.Sign(t, "PS256", good, nil), "algorithm"},
		{"ES384", es384.Sign(t, "ES384", good, nil), "algorithm"},
		{"none", bearertest.Forge(t, map[string]any{"alg": "none"}, good, none), "algorithm"},
		{"none with a key's id", bearertest.Forge(t, map[string]any{"alg": "none", "kid": "rs"}, good, none), "algorithm"},
		{"None", bearertest.Forge(t, map[string]any{"alg": "None"}, good, none), "refused"},
		{"no algorithm", bearertest.Forge(t, map[string]any{"kid": "rs"}, good, none), "refused"},
		{"HS256 with the public key as secret", bearertest.Forge(t, map[string]any{"alg": "HS256", "kid": "rs"}, good, hs(der)), "algorithm"},
		{"HS256 with its PEM", bearertest.Forge(t, map[string]any{"alg": "HS256"}, good, hs(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))), "algorithm"},
		{"RS256 by name, signed with an HMAC", bearertest.Forge(t, map[string]any{"alg": "RS256", "kid": "rs"}, good, hs(der)), "signature"},
		{"another key's id", bearertest.Key{ID: "es", Private: rs.Private}.Sign(t, "RS256", good, nil), "refused"},
		{"no signature", bearertest.Forge(t, map[string]any{"alg": "RS256", "kid": "rs"}, good, none), "signature"},
		{"weak key", weak.Sign(t, "RS256", good, nil), "not in the key set"},
		{"unknown key", bearertest.Ed(t, "secret-kid").Sign(t, "EdDSA", good, nil), "not in the key set"},
		{"no id", bearertest.Key{Private: rs.Private}.Sign(t, "RS256", good, nil), ""},
		{"no id, another key", bearertest.Ed(t, "").Sign(t, "EdDSA", good, nil), "refused"},
		{"an id that is no string", rs.Sign(t, "RS256", good, map[string]any{"kid": 1}), "refused"},
	})
	wide := verifier(t, bearer.Options{Keys: fileSet(t, bearertest.Set(t, all...)), Algorithms: []string{"ES384", "PS256"}})
	check(t, wide, []tokenCase{
		{"ES384", es384.Sign(t, "ES384", good, nil), ""},
		{"PS256", rs.Sign(t, "PS256", good, nil), ""},
		{"RS256 is not named", rs.Sign(t, "RS256", good, nil), "algorithm"},
	})
	for _, a := range []string{"none", "HS256", "HS512", "rs256", "", "RS256,ES256"} {
		if _, err := bearer.New(bearer.Options{Keys: fileSet(t, bearertest.Set(t, ed)), Audience: []string{audience}, Algorithms: []string{a}}); err == nil {
			t.Errorf("algorithm %q may be allowed", a)
		}
	}
}

func TestClaims(t *testing.T) {
	k := bearertest.Ed(t, "k")
	v := verifier(t, bearer.Options{Keys: fileSet(t, bearertest.Set(t, k)), Issuer: issuer, Audience: []string{audience, "https://old.example/mcp"}})
	now := time.Now().Unix()
	with := func(name string, value any) string {
		return k.Sign(t, "EdDSA", claims(map[string]any{name: value}), nil)
	}
	check(t, v, []tokenCase{
		{"aud in a list", with("aud", []string{"secret", audience}), ""},
		{"the other aud", with("aud", "https://old.example/mcp"), ""},
		{"wrong aud", with("aud", "https://secret.example"), "audience"},
		{"aud with a slash more", with("aud", audience+"/"), "audience"},
		{"aud that begins so", with("aud", audience[:len(audience)-1]), "audience"},
		{"no aud", with("aud", nil), "lacks"},
		{"empty aud", with("aud", ""), "lacks"},
		{"aud of no string", with("aud", 7), "refused"},
		{"no exp", with("exp", nil), "lacks"},
		{"expired", with("exp", now-1), "expired"},
		{"expires now", with("exp", now), "expired"},
		{"exp of no number", with("exp", "tomorrow"), "refused"},
		{"exp null", k.Sign(t, "EdDSA", map[string]any{"iss": issuer, "sub": "alice", "aud": audience, "exp": nil}, nil), "refused"},
		{"exp without bounds", with("exp", 1e300), "expired"},
		{"not valid yet", with("nbf", now+3600), "not valid yet"},
		{"valid in a moment, by another clock", with("nbf", now+5), ""},
		{"valid since", with("nbf", now-5), ""},
		{"wrong iss", with("iss", "https://secret.example"), "issuer"},
		{"no iss", with("iss", nil), "lacks"},
		{"no sub", with("sub", nil), "subject"},
		{"empty sub", with("sub", ""), "subject"},
		{"sub of no string", with("sub", 7), "refused"},
		// encoding/json matches the names of a struct's members in any case.
		{"SUB beside sub", with("SUB", "mallory"), ""},
		{"Exp beside an old exp", k.Sign(t, "EdDSA", claims(map[string]any{"exp": now - 1, "Exp": now + 3600, "EXP": now + 3600}), nil), "expired"},
		{"critical header", k.Sign(t, "EdDSA", claims(nil), map[string]any{"crit": []string{"b64"}, "b64": false}), "crit"},
		{"empty", "", "no signed"},
		{"words", "secret", "no signed"},
		{"two parts", "secret.secret", "no signed"},
		{"encrypted", "a.b.c.d.e", "no signed"},
		{"padding", with("x", 1) + "=", "refused"},
		{"too long", with("x", strings.Repeat("secret", 4000)), "too long"},
	})
	anyone := verifier(t, bearer.Options{Keys: fileSet(t, bearertest.Set(t, k))})
	p, _, err := anyone.Verify(t.Context(), with("iss", "https://other.example"))
	if err != nil || p != session.HashPrincipal("jwt", "https://other.example", "alice") {
		t.Errorf("without an issuer to ask for: %q, %v", p, err)
	}
	// What one issuer calls alice is not what another does, nor are parts moved.
	seen := map[session.Principal]string{}
	for _, c := range [][2]string{{"https://a", "b"}, {"https://a", "bb"}, {"https://ab", "b"}, {"https://b", "a"}, {"", "b"}, {"", "https://ab"}} {
		p, _, err := anyone.Verify(t.Context(), k.Sign(t, "EdDSA", claims(map[string]any{"iss": c[0], "sub": c[1]}), nil))
		if other, ok := seen[p]; ok || err != nil {
			t.Errorf("%q is %q (%v)", c, other, err)
		}
		seen[p] = c[0] + " " + c[1]
	}
}

// A token's header brings no keys, by value or by URL.
func TestHeaderBringsNoKeys(t *testing.T) {
	k, own := bearertest.Ed(t, "k"), bearertest.Ed(t, "own")
	asked := newIssuer(t)
	asked.set(bearertest.Set(t, own))
	v := verifier(t, bearer.Options{Keys: fileSet(t, bearertest.Set(t, k)), Issuer: issuer})
	for _, kid := range []string{"k", "own", ""} {
		header := map[string]any{"jwk": own.JWK(t), "jku": asked.url, "x5u": asked.url, "x5c": []string{"MII="}}
		mine := bearertest.Key{ID: kid, Private: own.Private}
		if p, _, err := v.Verify(t.Context(), mine.Sign(t, "EdDSA", claims(nil), header)); err == nil {
			t.Errorf("kid %q: a key of the token's own makes it %q", kid, p)
		}
	}
	check(t, v, []tokenCase{{"good beside them", k.Sign(t, "EdDSA", claims(nil), map[string]any{"jku": asked.url, "x5u": asked.url}), ""}})
	if n := asked.count(); n != 0 {
		t.Errorf("%d requests to a URL of a token", n)
	}
}
