package session_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

func testKeys(names ...string) (keys [][]byte) {
	for _, name := range names {
		keys = append(keys, testKey(name))
	}
	return keys
}

// Keys change in place: the first seals, all open, and those that are taken out
// go on opening until they are forgotten.
func TestSetKeys(t *testing.T) {
	h, now := newHandles(t, "one"), time.Unix(1000, 0)
	sealed := map[string]string{}
	seal := func(key string) {
		t.Helper()
		sealed[key] = h.SealTask(taskRefs[4])
		if want := newHandles(t, key).SealTask(taskRefs[4]); sealed[key] != want {
			t.Errorf("key %s does not seal", key)
		}
	}
	set := func(names ...string) {
		t.Helper()
		now = now.Add(time.Hour)
		if err := h.SetKeys(testKeys(names...), now); err != nil {
			t.Fatal(err)
		}
	}
	opens := func(names ...string) {
		t.Helper()
		want := map[string]bool{}
		for _, name := range names {
			want[name] = true
		}
		for key, s := range sealed {
			if r, ok := h.OpenTask(s, alice); ok != want[key] || ok && r != taskRefs[4] {
				t.Errorf("what key %s sealed opens: %v, want %v", key, ok, want[key])
			}
		}
	}
	retired := func(names ...string) {
		t.Helper()
		list := h.Retired()
		if len(list) != len(names) {
			t.Fatalf("retired: %v, want %v", list, names)
		}
		for i, name := range names {
			if list[i].Mark != session.HandleKey(sealed[name]) {
				t.Errorf("retired %d is not %s", i, name)
			}
		}
	}
	seal("one")
	shown, frozen := h.Mask(alice), h.Masks()
	set("two", "one")
	seal("two")
	opens("one", "two")
	retired()
	set("three", "two")
	seal("three")
	opens("one", "two", "three")
	retired("one")
	set("four")
	seal("four")
	retired("three", "two", "one")
	opens("one", "two", "three", "four")
	set("four", "two")
	retired("three", "one")
	for _, k := range h.Retired() {
		h.Forget(k)
	}
	retired()
	opens("two", "four")
	if h.Mask(alice) == shown || h.Mask(alice) != newHandles(t, "four").Mask(alice) {
		t.Error("what is shown does not follow the first key")
	}
	if frozen("principal", string(alice)) != shown {
		t.Error("what one file shows changed within it")
	}
	for name, keys := range map[string][][]byte{"none": nil, "short": {testKey("a"), make([]byte, 8)}} {
		if err := h.SetKeys(keys, now); err == nil {
			t.Errorf("%s: no error", name)
		}
		opens("two", "four")
		retired()
	}
}

// What records are named with, and what binds event ids to their session, stays
// while keys change, and is what the store says over restarts.
func TestSetKeys_Marks(t *testing.T) {
	h := newHandles(t, "one")
	before := h.MarkOf("event", "x")
	if err := h.SetKeys(testKeys("two"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if h.MarkOf("event", "x") != before {
		t.Error("a mark changed with the key")
	}
	other := newHandles(t, "three")
	h.KeepMarks(testKey("store"))
	other.KeepMarks(testKey("store"))
	if got := h.MarkOf("event", "x"); got == before || got != other.MarkOf("event", "x") || got == h.MaskText("event", "x") {
		t.Error("a mark is not of the store's secret")
	}
}

// There is a bound to the keys that only open; past it a change is refused, and
// nothing is lost.
func TestSetKeys_TooManyRetired(t *testing.T) {
	h := newHandles(t, "0")
	first := h.SealTask(taskRefs[4])
	n := 0
	for h.SetKeys(testKeys(fmt.Sprint(n+1)), time.Unix(int64(n), 0)) == nil {
		if n++; n > 100 {
			t.Fatal("no bound")
		}
	}
	if n != len(h.Retired()) || n < 8 {
		t.Errorf("refused after %d changes with %d retired", n, len(h.Retired()))
	}
	if _, ok := h.OpenTask(first, alice); !ok {
		t.Error("the first key's handle opens no more")
	}
	h.Forget(h.Retired()[n-1])
	if err := h.SetKeys(testKeys("another"), time.Unix(0, 0)); err != nil {
		t.Error(err)
	}
}

// Whatever is sealed while keys change opens.
func TestSetKeys_Concurrently(t *testing.T) {
	h := newHandles(t, "0")
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if r, ok := h.OpenTask(h.SealTask(taskRefs[4]), alice); !ok || r != taskRefs[4] {
					t.Error("a handle does not open")
					return
				}
			}
		})
	}
	for i := range 300 {
		if err := h.SetKeys(testKeys(fmt.Sprint(i%7), fmt.Sprint((i+6)%7)), time.Unix(int64(i), 0)); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}

// Case B47 with keys that change after each task: ids stay what they were,
// wherever they stand, whether the server's ids are translated or only sealed.
func TestRouteKeysChange(t *testing.T) {
	for _, e := range eras {
		for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
			t.Run(fmt.Sprintf("%v client, %s", era, e.name), func(t *testing.T) {
				a, b := newRouteServer("a", e.a), newRouteServer("b", e.b)
				routed(t, func(t *testing.T, rig *routeRig) {
					change := func(keys ...string) {
						t.Helper()
						if err := rig.handles.SetKeys(testKeys(keys...), time.Now()); err != nil {
							t.Fatal(err)
						}
					}
					rig.on("a")
					c := rig.client(era, "ann")
					ofA := c.newTask()
					change("new", "other")
					rig.on("b")
					if era == translate.Legacy {
						c.open()
					}
					ofB := c.newTask()
					change("newest", "new")
					b47Exposed(t, ofA, ofB)
					for _, id := range []string{ofA, ofB} {
						if r := c.get(id); r.result("taskId") != id {
							t.Errorf("a task has another id now: %s", r.raw())
						}
					}
					if era == translate.Modern {
						b47Modern(t, rig, c, map[string]*routeServer{ofA: a, ofB: b})
					} else {
						b47Legacy(t, rig, c, map[string]*routeServer{ofA: a, ofB: b})
					}
					b47Upstream(t, a, b)
				}, a, b)
			})
		}
	}
}

// A pin of a caller holds under the key it was written down with.
func TestRoutePins_KeysChange(t *testing.T) {
	a, b := newRouteServer("a", translate.Modern), newRouteServer("b", translate.Modern)
	routed(t, func(t *testing.T, rig *routeRig) {
		who := rig.handles.Mask(session.HashPrincipal("token", "eve"))
		rig.update(rig.up(a, 1), rig.up(b, 0, session.Pin{Principal: who}))
		if err := rig.handles.SetKeys([][]byte{testKey("new"), bytes.Repeat([]byte("k"), session.MinStateKey)}, time.Now()); err != nil {
			t.Fatal(err)
		}
		for who, want := range map[string]string{"eve": "b", "ann": "a"} {
			if got := rig.modern(who).at(); got != want {
				t.Errorf("%s is led to %s, want %s", who, got, want)
			}
		}
	}, a, b)
}
