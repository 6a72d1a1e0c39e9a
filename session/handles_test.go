package session_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"taskbridge/session"
	"taskbridge/session/memory"
)

const sealAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func testKey(name string) []byte {
	k := sha256.Sum256([]byte(name))
	return k[:]
}

func newHandles(t testing.TB, keys ...string) *session.Handles {
	t.Helper()
	var raw [][]byte
	for _, k := range keys {
		raw = append(raw, testKey(k))
	}
	h, err := session.NewHandles(raw)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var (
	alice = session.HashPrincipal("token", "Bearer alice")
	bob   = session.HashPrincipal("token", "Bearer bob")
)

var taskRefs = []session.TaskRef{
	{},
	{ID: "t"},
	{Upstream: "u"},
	{Session: "s"},
	{Upstream: "files", Session: "3f0c", ID: "786512e2-9e0d-44bd-8f29-789f320fe840", Principal: alice},
	{Upstream: "files", Session: "3f0c", ID: "786512e2-9e0d-44bd-8f29-789f320fe840", Principal: alice, Minted: true},
	{Upstream: "files", Session: "3f0c", ID: "786512e2-9e0d-44bd-8f29-789f320fe840", Principal: bob},
	{Upstream: "files", Session: "3f0c", ID: "786512e2-9e0d-44bd-8f29-789f320fe840"},
	{Upstream: "file", Session: "s3f0c", ID: "786512e2-9e0d-44bd-8f29-789f320fe840", Principal: alice},
	{Upstream: "files", Session: "", ID: "3f0c786512e2-9e0d-44bd-8f29-789f320fe840", Principal: alice},
	{Upstream: "ü\x00\n", Session: "\xff", ID: "\U0001f600 \r\n\"", Principal: alice},
	{Upstream: strings.Repeat("u", 200), Session: strings.Repeat("s", 200), ID: strings.Repeat("i", 900), Principal: alice},
	{ID: "x", Principal: "no hash"},
}

func TestTaskHandles(t *testing.T) {
	h := newHandles(t, "one")
	seen := map[string]session.TaskRef{}
	for _, r := range taskRefs {
		s := h.SealTask(r)
		if !strings.HasPrefix(s, "tb1_") || strings.Trim(s, sealAlphabet) != "" || len(s) > 2048 {
			t.Errorf("handle %q is not safe in a header", s)
		}
		if !h.IsHandle(s) || !session.IsHandle(s) {
			t.Errorf("%q is not taken for a handle", s)
		}
		if other, ok := seen[s]; ok {
			t.Errorf("%+v and %+v have one handle", r, other)
		}
		seen[s] = r
		if again := newHandles(t, "one", "two").SealTask(r); again != s {
			t.Errorf("%+v is sealed as %q, then as %q", r, s, again)
		}
		if got, ok := h.OpenTask(s, r.Principal); !ok || got != r {
			t.Errorf("%+v opens as %+v, %v", r, got, ok)
		}
		for _, p := range []session.Principal{"", alice, bob, "x", r.Principal + "x"} {
			if got, ok := h.OpenTask(s, p); p != r.Principal && (ok || got != session.TaskRef{}) {
				t.Errorf("%+v opens for %q as %+v, %v", r, p, got, ok)
			}
		}
		for _, part := range []string{r.ID, r.Session, r.Upstream, string(r.Principal)} {
			if len(part) > 3 && strings.Contains(s, part) {
				t.Errorf("handle shows %q", part)
			}
		}
	}
}

func TestTaskHandleOfUsualSize(t *testing.T) {
	s := newHandles(t, "one").SealTask(taskRefs[4])
	if len(s) > 128 {
		t.Errorf("a usual handle has %d characters", len(s))
	}
}

func TestHandleTampered(t *testing.T) {
	h := newHandles(t, "one", "two")
	s := h.SealTask(taskRefs[4])
	check := func(bad string) {
		t.Helper()
		if _, ok := h.OpenTask(bad, alice); ok {
			t.Errorf("%q opens, sealed was %q", bad, s)
		}
	}
	for i := range len(s) {
		for _, c := range []byte(sealAlphabet + "=+/ \n\r\x00\xff.") {
			if c != s[i] {
				check(s[:i] + string([]byte{c}) + s[i+1:])
			}
		}
		check(s[:i])
		check(s[:i] + s[i+1:])
		for _, c := range []string{"A", "\n", "\r\n", "=", " "} {
			check(s[:i] + c + s[i:])
		}
	}
	for _, tail := range []string{"A", "=", "==", "\n", "\r", " ", "tb1_", s} {
		check(s + tail)
	}
	check(strings.ToUpper(s))
	check("TB1_" + s[4:])
	check("tb2_" + s[4:])
	check(s[4:])
}

func TestHandleKeys(t *testing.T) {
	old, both, swapped, other := newHandles(t, "old"), newHandles(t, "new", "old"), newHandles(t, "old", "new"), newHandles(t, "other")
	r := taskRefs[4]
	s := old.SealTask(r)
	for name, h := range map[string]*session.Handles{"old": old, "both": both, "swapped": swapped} {
		if got, ok := h.OpenTask(s, alice); !ok || got != r {
			t.Errorf("%s does not open the old key's handle", name)
		}
	}
	n := both.SealTask(r)
	if n == s {
		t.Error("two keys give one handle")
	}
	if got, ok := swapped.OpenTask(n, alice); !ok || got != r {
		t.Error("the second key does not open")
	}
	if _, ok := old.OpenTask(n, alice); ok {
		t.Error("the old key opens the new one's handle")
	}
	for _, s := range []string{s, n} {
		if _, ok := other.OpenTask(s, alice); ok {
			t.Error("an unknown key's handle opens")
		}
	}
	if many := newHandles(t, "a", "b", "c", "old", "old"); true {
		if _, ok := many.OpenTask(s, alice); !ok {
			t.Error("the fourth key does not open")
		}
	}
}

func TestNewHandlesRefusesKeys(t *testing.T) {
	for name, keys := range map[string][][]byte{
		"none":   nil,
		"nil":    {nil},
		"short":  {make([]byte, 31)},
		"second": {testKey("a"), make([]byte, 8)},
	} {
		if _, err := session.NewHandles(keys); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	k := testKey("a")
	h, err := session.NewHandles([][]byte{k})
	if err != nil {
		t.Fatal(err)
	}
	clear(k)
	if s := newHandles(t, "a").SealTask(taskRefs[4]); h.SealTask(taskRefs[4]) != s {
		t.Error("Handles changed with its caller's key")
	}
}

func TestSealKinds(t *testing.T) {
	h := newHandles(t, "one")
	kinds := []string{session.KindTask, "state", "cursor", "session", "", "seal task"}
	for _, kind := range kinds {
		for _, plain := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte{0}, 900)} {
			s := h.Seal(kind, plain)
			for _, other := range kinds {
				got, ok := h.Open(other, s)
				if ok != (other == kind) || ok && !bytes.Equal(got, plain) {
					t.Errorf("kind %q opens as kind %q: %v", kind, other, ok)
				}
			}
			if _, ok := h.OpenFor(kind, alice, s); ok {
				t.Errorf("kind %q opens for a principal although sealed for nobody", kind)
			}
			p := h.SealFor(kind, alice, plain)
			if _, ok := h.Open(kind, p); ok {
				t.Errorf("kind %q opens for nobody although sealed for a principal", kind)
			}
			if got, ok := h.OpenFor(kind, alice, p); !ok || !bytes.Equal(got, plain) {
				t.Errorf("kind %q does not open for its principal", kind)
			}
			if _, ok := h.OpenTask(h.Seal("state", plain), ""); ok {
				t.Error("a state opens as a task")
			}
		}
	}
	// What was sealed as a task by other means than SealTask opens as one only
	// if it is one.
	for _, plain := range []string{"", "\x02", "\x00", "\x00\x05abc", "\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f"} {
		if r, ok := h.OpenTask(h.Seal(session.KindTask, []byte(plain)), ""); ok {
			t.Errorf("%q opens as %+v", plain, r)
		}
	}
}

func TestSealLimits(t *testing.T) {
	h := newHandles(t, "one")
	for kind, limit := range map[string]int{session.KindTask: 2048, "state": 1 << 20} {
		fits := limit*3/4 - 64
		s := h.Seal(kind, make([]byte, fits))
		if s == "" || len(s) > limit {
			t.Errorf("%s: %d bytes give %d characters", kind, fits, len(s))
		}
		if _, ok := h.Open(kind, s); !ok {
			t.Errorf("%s: what was sealed does not open", kind)
		}
		if s := h.Seal(kind, make([]byte, limit*3/4)); s != "" {
			t.Errorf("%s: %d bytes give %d characters", kind, limit*3/4, len(s))
		}
		long := "tb1_" + strings.Repeat("A", limit-3)
		if n := testing.AllocsPerRun(10, func() {
			if _, ok := h.Open(kind, long); ok {
				t.Error("garbage opens")
			}
		}); n != 0 {
			t.Errorf("%s: an over-long input costs %v allocations", kind, n)
		}
	}
	if s := h.SealTask(session.TaskRef{ID: strings.Repeat("i", 2000)}); s != "" {
		t.Errorf("an ID of 2000 bytes is sealed in %d characters", len(s))
	}
}

func TestIsHandle(t *testing.T) {
	for s, want := range map[string]bool{
		"":                                     false,
		"tb1_":                                 false,
		"786512e2-9e0d-44bd-8f29-789f320fe840": false,
		"tb1_" + strings.Repeat("A", 39):       false,
		"tb1_" + strings.Repeat("A", 40):       true,
		"tb1_" + strings.Repeat("A", 39) + "=": false,
		"tb1_" + strings.Repeat("\n", 60):      false,
		"TB1_" + strings.Repeat("A", 60):       false,
		"tb1_" + strings.Repeat("A", 1<<20):    false,
	} {
		if got := session.IsHandle(s); got != want {
			t.Errorf("IsHandle(%.50q) = %v", s, got)
		}
	}
}

// TestSafetyS26_ForeignAndUnknownAlike holds the parts of S26 that handles
// decide: a stolen handle gives what garbage gives, by the same work.
func TestSafetyS26_ForeignAndUnknownAlike(t *testing.T) {
	h := newHandles(t, "one", "two")
	stolen := h.SealTask(taskRefs[4])
	forged := []byte(stolen)
	forged[len(forged)/2] ^= 1
	unknown := newHandles(t, "three").SealTask(taskRefs[4])
	allocs := map[string]float64{}
	for name, s := range map[string]string{"stolen": stolen, "forged": string(forged), "unknown": unknown} {
		for i := range 50 {
			p := session.HashPrincipal("token", fmt.Sprint("thief ", i))
			if r, ok := h.OpenTask(s, p); ok || r != (session.TaskRef{}) {
				t.Fatalf("%s opens as %+v", name, r)
			}
		}
		allocs[name] = testing.AllocsPerRun(100, func() { h.OpenTask(s, bob) })
	}
	if allocs["stolen"] != allocs["forged"] || allocs["stolen"] != allocs["unknown"] {
		t.Errorf("they cost differently: %v", allocs)
	}
}

func TestMask(t *testing.T) {
	h := newHandles(t, "one", "two")
	a := h.Mask(alice)
	if len(a) != 16 || strings.Trim(a, "0123456789abcdef") != "" {
		t.Errorf("Mask = %q", a)
	}
	if h.Mask(alice) != a || newHandles(t, "one").Mask(alice) != a {
		t.Error("Mask changes")
	}
	seen := map[string]bool{a: true}
	for name, s := range map[string]string{
		"other principal": h.Mask(bob),
		"nobody":          h.Mask(""),
		"other key":       newHandles(t, "two").Mask(alice),
		"other kind":      h.MaskText("task", string(alice)),
		"kind and text 1": h.MaskText("ab", "c"),
		"kind and text 2": h.MaskText("a", "bc"),
	} {
		if len(s) != 16 || seen[s] {
			t.Errorf("%s: %q", name, s)
		}
		seen[s] = true
	}
}

func TestHandlesConcurrently(t *testing.T) {
	h := newHandles(t, "one", "two")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				kind := fmt.Sprint("kind", i%7)
				s := h.SealFor(kind, alice, []byte{byte(w), byte(i)})
				if got, ok := h.OpenFor(kind, alice, s); !ok || got[0] != byte(w) || got[1] != byte(i) {
					t.Error("does not open")
				}
			}
		})
	}
	wg.Wait()
}

func FuzzOpenTask(f *testing.F) {
	h := newHandles(f, "one", "two")
	sealed := map[string]session.TaskRef{}
	for _, r := range taskRefs {
		s := h.SealTask(r)
		sealed[s] = r
		f.Add(s, string(r.Principal))
	}
	f.Add(h.Seal("state", []byte("x")), "")
	f.Add("tb1_"+strings.Repeat("A", 60), "")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, s, p string) {
		r, ok := h.OpenTask(s, session.Principal(p))
		if want, known := sealed[s]; ok && (!known || r != want) {
			t.Fatalf("%q opens for %q as %+v", s, p, r)
		}
		if !ok && r != (session.TaskRef{}) {
			t.Fatalf("%q shows %+v although it does not open", s, r)
		}
	})
}

// FuzzSealTask holds that whatever a server calls its tasks comes back.
func FuzzSealTask(f *testing.F) {
	h := newHandles(f, "one")
	for _, r := range taskRefs {
		f.Add(r.Upstream, r.Session, r.ID, string(r.Principal), r.Minted)
	}
	f.Fuzz(func(t *testing.T, upstream, sess, id, p string, minted bool) {
		r := session.TaskRef{Upstream: upstream, Session: sess, ID: id, Principal: session.Principal(p), Minted: minted}
		s := h.SealTask(r)
		if s == "" {
			if len(upstream)+len(sess)+len(id) < 1400 {
				t.Fatalf("%+v is not sealed", r)
			}
			return
		}
		if got, ok := h.OpenTask(s, r.Principal); !ok || got != r {
			t.Fatalf("%+v opens as %+v, %v", r, got, ok)
		}
	})
}

func TestSafetyS59_KeysAndStore(t *testing.T) {
	dir := t.TempDir()
	key := testKey("a")
	key[0], key[31] = '\n', ' ' // trimming must not touch raw bytes
	for name, c := range map[string]struct {
		content []byte
		mode    os.FileMode
		fail    string
		want    []byte
	}{
		"raw":           {content: key, want: key},
		"longer":        {content: bytes.Repeat(key, 4), want: bytes.Repeat(key, 4)},
		"hex":           {content: []byte(hex.EncodeToString(key)), want: key},
		"hexnl":         {content: []byte(" " + strings.ToUpper(hex.EncodeToString(key)) + "\r\n"), want: key},
		"base64":        {content: []byte(base64.StdEncoding.EncodeToString(key) + "\n"), want: key},
		"base64url":     {content: []byte(base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, 32))), want: bytes.Repeat([]byte{0xfb}, 32)},
		"text":          {content: []byte("correct horse battery staple, twice over\n"), want: []byte("correct horse battery staple, twice over")},
		"32 characters": {content: []byte("0123456789abcdef0123456789abcdef\n"), want: []byte("0123456789abcdef0123456789abcdef")},
		"mode 0400":     {content: key, mode: 0o400, want: key},

		"empty":     {content: nil, fail: "is empty"},
		"blank":     {content: []byte(" \n\t"), fail: "is empty"},
		"8 bytes":   {content: []byte("12345678"), fail: "8 bytes"},
		"31 bytes":  {content: key[:31], fail: "31 bytes"},
		"short hex": {content: []byte(hex.EncodeToString(key[:8])), fail: "16 bytes"},
		"huge":      {content: make([]byte, 5000), fail: "larger than"},
		"world":     {content: key, mode: 0o604, fail: "mode is 0604"},
		"group":     {content: key, mode: 0o640, fail: "mode is 0640"},
		"writable":  {content: key, mode: 0o620, fail: "mode is 0620"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.mode == 0 {
				c.mode = 0o600
			}
			if c.mode&0o077 != 0 && runtime.GOOS == "windows" {
				t.Skip("no such modes here")
			}
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			got, err := session.LoadStateKey(path)
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) || !strings.Contains(err.Error(), path) {
					t.Fatalf("error %v, want the path and %q", err, c.fail)
				}
				if len(c.content) > 0 && strings.TrimSpace(string(c.content)) != "" && strings.Contains(err.Error(), string(c.content)) {
					t.Fatalf("error shows the key: %v", err)
				}
				return
			}
			if err != nil || !bytes.Equal(got, c.want) {
				t.Fatalf("%x, %v; want %x", got, err, c.want)
			}
			if _, err := session.NewHandles([][]byte{got}); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		_, err := session.LoadStateKey(filepath.Join(dir, "nothing"))
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
	t.Run("directory", func(t *testing.T) {
		if _, err := session.LoadStateKey(dir); err == nil || !strings.Contains(err.Error(), "regular file") {
			t.Fatal(err)
		}
	})
	t.Run("symbolic link", func(t *testing.T) {
		link := filepath.Join(dir, "link")
		if err := os.Symlink(filepath.Join(dir, "raw"), link); err != nil {
			t.Skip(err)
		}
		if _, err := session.LoadStateKey(link); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Fatal(err)
		}
	})

	t.Run("key in the store", func(t *testing.T) {
		st := memory.New()
		k1, err := session.RandomStateKey(t.Context(), st)
		if err != nil || len(k1) != 32 {
			t.Fatalf("%d bytes, %v", len(k1), err)
		}
		k2, err := session.RandomStateKey(t.Context(), st)
		if err != nil || !bytes.Equal(k1, k2) {
			t.Fatalf("second call: other key or %v", err)
		}
		k3, err := session.RandomStateKey(t.Context(), memory.New())
		if err != nil || bytes.Equal(k1, k3) {
			t.Fatalf("another store: same key or %v", err)
		}
	})
	for name, value := range map[string]string{
		"empty":   "",
		"foreign": `{"task":"working"}`,
		"bare":    string(key),
		"short":   "taskbridge-statekey-1\n" + "short",
		"long":    "taskbridge-statekey-1\n" + strings.Repeat("k", 33),
	} {
		t.Run("foreign record "+name, func(t *testing.T) {
			st := memory.New()
			if _, err := st.Put(t.Context(), "statekey", []byte(value), session.Absent); err != nil {
				t.Fatal(err)
			}
			if k, err := session.RandomStateKey(t.Context(), st); err == nil {
				t.Fatalf("taken for a key of %d bytes", len(k))
			}
			if e, err := st.Get(t.Context(), "statekey"); err != nil || string(e.Value) != value {
				t.Fatalf("the record was changed to %q, %v", e.Value, err)
			}
		})
	}
	t.Run("another key's record", func(t *testing.T) {
		st := mixedUp{memory.New()}
		good, err := session.RandomStateKey(t.Context(), st.Store)
		if err != nil {
			t.Fatal(err)
		}
		if k, err := session.RandomStateKey(t.Context(), st); err == nil || bytes.Equal(k, good) {
			t.Fatalf("a record of another name was taken: %v", err)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := session.RandomStateKey(ctx, memory.New()); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

// mixedUp answers with records of another key.
type mixedUp struct{ session.Store }

func (m mixedUp) Get(ctx context.Context, key string) (session.Entry, error) {
	e, err := m.Store.Get(ctx, key)
	e.Key = "another"
	return e, err
}

func BenchmarkOpenTask(b *testing.B) {
	h := newHandles(b, "one")
	s := h.SealTask(taskRefs[4])
	for b.Loop() {
		if _, ok := h.OpenTask(s, alice); !ok {
			b.Fatal("does not open")
		}
	}
}

func BenchmarkSealTask(b *testing.B) {
	h := newHandles(b, "one")
	for b.Loop() {
		h.SealTask(taskRefs[4])
	}
}
