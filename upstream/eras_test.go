package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

func target(p session.Principal) session.Target { return session.Target{Upstream: "up", Principal: p} }

func TestErasAreKeptForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{answers: map[string]http.HandlerFunc{"server/discover": result(discoverResult), "initialize": initOK}}
		e := NewEras(EraOptions{Dialer: pipeServer(t, p)})
		ask := func(who session.Principal, want translate.Era, probes int) Result {
			t.Helper()
			r, err := e.Era(t.Context(), target(who))
			if err != nil || r.Era != want {
				t.Errorf("got %+v, %v", r, err)
			}
			if heard := p.heard(); len(heard) != probes {
				t.Errorf("asked %q, want %d", heard, probes)
			}
			return r
		}
		if r := ask("a", translate.Modern, 1); r.Discover == nil {
			t.Error("no discover result")
		}
		if r := ask("a", translate.Modern, 1); r.Discover == nil || r.Instructions != "i" {
			t.Error("what the server told was not kept for whom it told")
		}
		if r := ask("b", translate.Modern, 1); r.Discover != nil || r.Capabilities != nil || r.ServerInfo != nil || r.Instructions != "" || !r.Tasks {
			t.Errorf("what the server told one caller was given to another: %+v", r)
		}
		time.Sleep(DefaultEraTTL - time.Second)
		ask("a", translate.Modern, 1)
		p.answers["server/discover"] = reply(400, "", "")
		time.Sleep(time.Second)
		ask("a", translate.Legacy, 5)
		ask("b", translate.Legacy, 5)
		e.Forget("up")
		p.answers["server/discover"] = result(strings.Replace(discoverResult, "{", `{"cacheScope":"public",`, 1))
		ask("b", translate.Modern, 6)
		if r := ask("a", translate.Modern, 6); r.Discover == nil {
			t.Error("a public answer was kept from another caller")
		}
	})
}

func TestErasKeepNothingInconclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{answers: map[string]http.HandlerFunc{}}
		e := NewEras(EraOptions{Dialer: pipeServer(t, p)})
		for i, h := range []http.HandlerFunc{reply(503, "", ""), reply(401, "", ""), reply(429, "", ""),
			func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }} {
			p.mu.Lock()
			p.answers["server/discover"] = h
			p.mu.Unlock()
			for range 2 {
				if _, err := e.Era(t.Context(), target("a")); err == nil {
					t.Errorf("case %d decided something", i)
				}
			}
		}
		if n := len(p.heard()); n != 8 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestErasProbeOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes atomic.Int32
		e := NewEras(EraOptions{Dialer: pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			probes.Add(1)
			time.Sleep(time.Second)
			if r.Header.Get("Authorization") == "" {
				w.WriteHeader(401)
				return
			}
			io.WriteString(w, strings.Replace(`{"jsonrpc":"2.0","id":1,"result":`+discoverResult+`}`, "%s", "1", 1))
		}))})
		good := target("a")
		good.Credential = http.Header{"Authorization": {"x"}}
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := e.Era(first, good); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 20 {
			wg.Go(func() {
				if r, err := e.Era(t.Context(), good); err != nil || r.Era != translate.Modern {
					t.Error(r, err)
				}
			})
		}
		wg.Go(func() { // another caller's refusal is not shared, nor theirs with it
			_, err := e.Era(t.Context(), target("b"))
			if de := wantFail(t, err, session.FailNone); de.Status != 401 {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel() // the others still get their answer
		wg.Wait()
		if probes.Load() != 2 {
			t.Errorf("%d probes", probes.Load())
		}
	})
}

func TestErasForgetOutdoesAProbeUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{answers: map[string]http.HandlerFunc{"server/discover": func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			result(discoverResult)(w, r)
		}}}
		e := NewEras(EraOptions{Dialer: pipeServer(t, p)})
		time.AfterFunc(time.Second/2, func() { e.Forget("up") })
		for range 2 {
			if _, err := e.Era(t.Context(), target("a")); err != nil {
				t.Error(err)
			}
		}
		if n := len(p.heard()); n != 2 {
			t.Errorf("asked %d times, want 2", n)
		}
	})
}

func TestErasPinned(t *testing.T) {
	e := NewEras(EraOptions{Pins: map[string]translate.Era{"up": translate.Legacy, "new": translate.Modern}})
	if r, err := e.Era(t.Context(), target("a")); err != nil || r.Era != translate.Legacy || r.Version != "2025-11-25" || !r.Pinned {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := e.Era(t.Context(), session.Target{Upstream: "new"}); err != nil || r.Era != translate.Modern || r.Version != "2026-07-28" {
		t.Errorf("got %+v, %v", r, err)
	}
}
