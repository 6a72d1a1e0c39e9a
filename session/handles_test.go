package session_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"

	"taskbridge/session"
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
