package bearer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/session/bearer"
	"taskbridge/session/bearer/bearertest"
)

// fakeIssuer publishes a key set.
type fakeIssuer struct {
	url string

	mu     sync.Mutex // protects the fields below
	body   []byte
	status int
	n      int
}

func newIssuer(t *testing.T) *fakeIssuer {
	f := &fakeIssuer{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, _ := f.RoundTrip(r)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(srv.Close)
	f.url = srv.URL + "/keys"
	return f
}

func (f *fakeIssuer) set(body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.body, f.status = body, 0
}

func (f *fakeIssuer) fail(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

func (f *fakeIssuer) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// RoundTrip implements http.RoundTripper, for tests in a bubble. Status 1: the
// issuer cannot be reached.
func (f *fakeIssuer) RoundTrip(*http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	switch f.status {
	case 0:
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(f.body)))}, nil
	case 1:
		return nil, errors.New("no route to host")
	}
	return &http.Response{StatusCode: f.status, Header: http.Header{"Location": {"https://elsewhere.example/"}}, Body: http.NoBody}, nil
}

// inBubble runs f with a verifier of an issuer's keys and the clock of a test.
func inBubble(t *testing.T, f func(t *testing.T, is *fakeIssuer, keys *bearer.KeySet, v *bearer.Verifier)) {
	synctest.Test(t, func(t *testing.T) {
		is := &fakeIssuer{}
		keys, err := bearer.NewKeySet(bearer.KeyOptions{Source: "https://issuer.example/keys?key=hunter2", Client: &http.Client{Transport: is,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}})
		if err != nil {
			t.Fatal(err)
		}
		f(t, is, keys, verifier(t, bearer.Options{Keys: keys, Issuer: issuer}))
	})
}

// A key that is new to us is looked for, at most every ten seconds, whoever asks.
func TestRotatedKey(t *testing.T) {
	old, next := bearertest.Ed(t, "old"), bearertest.Ed(t, "next")
	inBubble(t, func(t *testing.T, is *fakeIssuer, keys *bearer.KeySet, v *bearer.Verifier) {
		is.set(bearertest.Set(t, old))
		if err := keys.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		is.set(bearertest.Set(t, next))
		check(t, v, []tokenCase{
			{"old key, while it is remembered", old.Sign(t, "EdDSA", claims(nil), nil), ""},
			{"new key", next.Sign(t, "EdDSA", claims(nil), nil), ""},
			{"old key, which is gone", old.Sign(t, "EdDSA", claims(nil), nil), "not in the key set"},
		})
		if n := is.count(); n != 2 {
			t.Errorf("%d looks at the set, want 2", n)
		}
		for i := range 1000 {
			made := bearertest.Key{ID: fmt.Sprint("made-up-", i), Private: next.Private}
			check(t, v, []tokenCase{{"made up", made.Sign(t, "EdDSA", claims(nil), nil), "not in the key set"}})
			time.Sleep(100 * time.Millisecond)
		}
		if n := is.count(); n > 2+11 {
			t.Errorf("%d looks at the set in 100 s of unknown keys, want one in ten seconds", n)
		}
	})
}

// A token that does not name its key can be of a new one as well.
func TestRotatedKeyWithoutID(t *testing.T) {
	old, next := bearertest.Ed(t, ""), bearertest.Ed(t, "")
	inBubble(t, func(t *testing.T, is *fakeIssuer, keys *bearer.KeySet, v *bearer.Verifier) {
		is.set(bearertest.Set(t, old))
		check(t, v, []tokenCase{{"first", old.Sign(t, "EdDSA", claims(nil), nil), ""}})
		time.Sleep(time.Minute)
		is.set(bearertest.Set(t, next))
		check(t, v, []tokenCase{
			{"new key", next.Sign(t, "EdDSA", claims(nil), nil), ""},
			{"old key", old.Sign(t, "EdDSA", claims(nil), nil), "refused"},
		})
	})
}

// Those who come at once share one look.
func TestLooksAreShared(t *testing.T) {
	k := bearertest.Ed(t, "k")
	inBubble(t, func(t *testing.T, is *fakeIssuer, keys *bearer.KeySet, v *bearer.Verifier) {
		is.set(bearertest.Set(t, k))
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { check(t, v, []tokenCase{{"at once", k.Sign(t, "EdDSA", claims(nil), nil), ""}}) })
		}
		wg.Wait()
		if n := is.count(); n != 1 {
			t.Errorf("%d looks at the set", n)
		}
	})
}

// Without keys nobody is refused for good: they may be there in a moment.
func TestUnreachableAtStart(t *testing.T) {
	k := bearertest.Ed(t, "k")
	inBubble(t, func(t *testing.T, is *fakeIssuer, keys *bearer.KeySet, v *bearer.Verifier) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		is.fail(1)
		if err := keys.Load(ctx); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("load: %v", err)
		}
		go keys.Run(ctx)
		tok := k.Sign(t, "EdDSA", claims(nil), nil)
		if _, _, err := v.Verify(ctx, tok); !errors.Is(err, session.ErrTokenUndecided) || !keys.Fetched().IsZero() {
			t.Errorf("without keys: %v", err)
		}
		is.set(bearertest.Set(t, k))
		time.Sleep(6 * time.Second) // by itself
		synctest.Wait()
		check(t, v, []tokenCase{{"keys are there", tok, ""}})
		if keys.Fetched().IsZero() {
			t.Error("the set was had, but nobody knows when")
		}
	})
}

// The keys had last stay in use while the issuer is away, whatever it answers.
func TestUnreachableAtRun(t *testing.T) {
	k := bearertest.Ed(t, "k")
	inBubble(t, func(t *testing.T, is *fakeIssuer, keys *bearer.KeySet, v *bearer.Verifier) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		is.set(bearertest.Set(t, k))
		if err := keys.Load(ctx); err != nil {
			t.Fatal(err)
		}
		go keys.Run(ctx)
		broken := []func(){
			func() { is.fail(1) }, func() { is.fail(500) }, func() { is.fail(302) }, func() { is.fail(404) },
			func() { is.set([]byte("<html>")) }, func() { is.set([]byte(`{"error":"secret"}`)) },
			func() { is.set([]byte(`{"keys":"` + strings.Repeat("x", 2<<20) + `"}`)) },
		}
		for i, b := range broken {
			b()
			before := is.count()
			time.Sleep(time.Hour)
			synctest.Wait()
			if is.count() == before {
				t.Errorf("broken %d: nobody looked", i)
			}
			check(t, v, []tokenCase{{fmt.Sprint("broken ", i), k.Sign(t, "EdDSA", claims(nil), nil), ""}})
		}
		// Whoever publishes no keys wants none believed.
		is.set([]byte(`{"keys":[]}`))
		time.Sleep(time.Hour)
		synctest.Wait()
		check(t, v, []tokenCase{{"no keys any more", k.Sign(t, "EdDSA", claims(nil), nil), "not in the key set"}})
	})
}

// A set is looked at every ten minutes, so a key taken out is not believed for
// longer.
func TestRefresh(t *testing.T) {
	k, other := bearertest.Ed(t, "k"), bearertest.Ed(t, "other")
	inBubble(t, func(t *testing.T, is *fakeIssuer, keys *bearer.KeySet, v *bearer.Verifier) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		is.set(bearertest.Set(t, k))
		if err := keys.Load(ctx); err != nil {
			t.Fatal(err)
		}
		go keys.Run(ctx)
		is.set(bearertest.Set(t, other))
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		check(t, v, []tokenCase{{"taken out", k.Sign(t, "EdDSA", claims(nil), nil), "not in the key set"}})
	})
}

func TestKeysOverHTTP(t *testing.T) {
	k := bearertest.Ed(t, "k")
	is := newIssuer(t)
	is.set(bearertest.Set(t, k))
	keys, err := bearer.NewKeySet(bearer.KeyOptions{Source: is.url})
	if err != nil {
		t.Fatal(err)
	}
	v := verifier(t, bearer.Options{Keys: keys, Issuer: issuer})
	check(t, v, []tokenCase{{"over HTTP", k.Sign(t, "EdDSA", claims(nil), nil), ""}})
	is.fail(302)
	if err := keys.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
		t.Errorf("redirect: %v", err)
	}
}

func TestKeySources(t *testing.T) {
	for source, fail := range map[string]string{
		"https://issuer.example/keys":       "",
		"http://127.0.0.1:1/keys":           "",
		"http://[::1]:1/keys":               "",
		"http://localhost/keys":             "",
		"keys.json":                         "",
		"/etc/taskbridge/keys.json":         "",
		"":                                  "want the path",
		"http://issuer.example/keys":        "over https://",
		"http://127.0.0.1.example/keys":     "over https://",
		"https://u:hunter2@issuer.example/": "no user",
		"ftp://issuer.example/keys":         "want https",
		"file:///etc/keys":                  "cannot be read",
		"https://":                          "cannot be read",
		"https://a b/":                      "cannot be read",
	} {
		_, err := bearer.NewKeySet(bearer.KeyOptions{Source: source})
		if fail == "" && err != nil || fail != "" && (!errors.Is(err, bearer.ErrSource) || !strings.Contains(err.Error(), fail)) {
			t.Errorf("%q: %v, want %q", source, err, fail)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error shows a secret: %v", source, err)
		}
	}
}

// What is in a set beside public keys for signatures is not used, and does not
// keep the others from being.
func TestParts(t *testing.T) {
	k, enc := bearertest.Ed(t, "k"), bearertest.Ed(t, "enc")
	set := map[string]any{"keys": []any{
		map[string]any{"kty": "oct", "kid": "oct", "k": "c2VjcmV0"},
		map[string]any{"kty": "new", "kid": "new"},
		map[string]any{"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
		7, "x", nil,
		change(t, enc.JWK(t), "use", "enc"),
		change(t, k.JWK(t), "x5u", "https://elsewhere.example/"),
	}}
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	v := verifier(t, bearer.Options{Keys: fileSet(t, raw), Issuer: issuer})
	check(t, v, []tokenCase{
		{"good", k.Sign(t, "EdDSA", claims(nil), nil), ""},
		{"for encryption", enc.Sign(t, "EdDSA", claims(nil), nil), "not in the key set"},
		{"one for EC used for Ed", bearertest.Key{ID: "broken", Private: k.Private}.Sign(t, "EdDSA", claims(nil), nil), "not in the key set"},
	})
}

func change(t *testing.T, raw []byte, name string, value any) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	m[name] = value
	return m
}

// A file is looked at again like a URL.
func TestKeyFile(t *testing.T) {
	old, next := bearertest.Ed(t, "old"), bearertest.Ed(t, "next")
	file := filepath.Join(t.TempDir(), "keys.json")
	write := func(raw []byte) {
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(bearertest.Set(t, old))
	synctest.Test(t, func(t *testing.T) {
		keys, err := bearer.NewKeySet(bearer.KeyOptions{Source: file})
		if err != nil {
			t.Fatal(err)
		}
		v := verifier(t, bearer.Options{Keys: keys, Issuer: issuer})
		check(t, v, []tokenCase{{"old", old.Sign(t, "EdDSA", claims(nil), nil), ""}})
		write(bearertest.Set(t, next))
		time.Sleep(2 * time.Second)
		check(t, v, []tokenCase{{"new", next.Sign(t, "EdDSA", claims(nil), nil), ""}})
	})
	for _, bad := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		keys, err := bearer.NewKeySet(bearer.KeyOptions{Source: bad})
		if err == nil {
			err = keys.Load(t.Context())
		}
		if err == nil {
			t.Errorf("%s is a key set", bad)
		}
	}
}
