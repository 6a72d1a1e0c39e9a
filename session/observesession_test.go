package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

type farewells struct {
	session.Observer
	ended []session.LegacySession
	at    []time.Time
}

func (f *farewells) SessionEnded(s session.LegacySession, at time.Time) {
	f.ended, f.at = append(f.ended, s), append(f.at, at)
}

// Open sessions can be listed while they are open, and their ends are told: by
// DELETE, and when one is left idle.
func TestObserver_LegacySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := &farewells{}
		c := newWatchedBy(t, session.Face{Era: translate.Modern, Version: translate.V20260728}, func(*jsonrpc.Message) string {
			return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
		}, func(w *witness) session.Observer { end.Observer = w; return end })
		defer c.end()
		// one compares instants, not how they are kept.
		one := func(s session.LegacySession, want time.Time) session.LegacySession {
			if !s.Began.Equal(want) {
				t.Errorf("it began at %v, want %v", s.Began, want)
			}
			s.Began = time.Time{}
			return s
		}
		var entered time.Time
		open := func() (list []session.LegacySession) {
			if err := c.r.LegacySessions(t.Context(), func(s session.LegacySession) bool { list = append(list, s); return true }); err != nil {
				t.Fatal(err)
			}
			return list
		}
		enter := func() {
			outs := c.say(translate.Legacy, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"desk","version":"9"}}}`)
			c.session = outs[len(outs)-1].Header.Get("Mcp-Session-Id")
		}
		want := session.LegacySession{Who: session.Who{Principal: c.principal, Client: "desk", ClientVersion: "9"}, Route: "tickets", Upstream: "blue", Version: "2025-06-18", Transport: "http"}
		if got := open(); len(got) != 0 {
			t.Errorf("open before there is one: %+v", got)
		}
		enter()
		entered = time.Now()
		if got := open(); len(got) != 1 || one(got[0], entered) != want {
			t.Errorf("open: %+v, want %+v", got, want)
		}
		began := time.Now()
		time.Sleep(2 * time.Hour) // nobody uses it
		synctest.Wait()
		if got := open(); len(got) != 0 || len(end.ended) != 1 || one(end.ended[0], entered) != want || end.at[0].Sub(began) > time.Hour {
			t.Errorf("after it was idle: open %+v, ended %+v at %v", got, end.ended, end.at)
		}
		enter()
		entered = time.Now()
		c.verb = "DELETE"
		c.say(translate.Legacy, "")
		if got := open(); len(got) != 0 || len(end.ended) != 2 || one(end.ended[1], entered) != want || !end.at[1].Equal(time.Now()) {
			t.Errorf("after DELETE: open %+v, ended %+v at %v", got, end.ended, end.at)
		}
	})
}
