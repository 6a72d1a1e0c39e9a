package usage

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/translate"
)

const window = 24 * time.Hour

// The verdict turns when nobody has used the dialect for the window, and not a
// second before.
func TestVerdict_TurnsAtTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memory.New(), "default")
		defer d.close()
		rt := d.verdict(Unknown, window)
		if want := time.Now().Add(window); !rt.Earliest.Equal(want) {
			t.Errorf("earliest %v, want %v", rt.Earliest, want)
		}
		time.Sleep(2 * window)
		d.verdict(NotSeen, window)
		d.ask(named("desk"), translate.Legacy, "tools/call", translate.OutcomeCompleted)
		used := time.Now()
		rt = d.verdict(Needed, window)
		if want := used.Add(window); !rt.Earliest.Equal(want) {
			t.Errorf("earliest %v, want %v", rt.Earliest, want)
		}
		time.Sleep(window - time.Second)
		d.verdict(Needed, window)
		time.Sleep(time.Second - 1)
		d.verdict(Needed, window)
		time.Sleep(time.Nanosecond)
		rt = d.verdict(NotSeen, window)
		if rt.Text != "legacy not seen for 1d: may be switched off" {
			t.Errorf("in words: %s", rt.Text)
		}
		if c := rt.Clients[0]; c.State != StatePast || !c.Legacy.LastUsed.Equal(used) {
			t.Errorf("the client is shown as %+v", c)
		}
	})
}

// Before the window has been observed nobody can say; a modern client changes
// nothing about that.
func TestVerdict_UnknownBelowTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memory.New(), "default")
		defer d.close()
		d.ask(named("shop"), translate.Modern, "tools/call", translate.OutcomeCompleted)
		time.Sleep(window - 1)
		rt := d.verdict(Unknown, window)
		if !strings.HasPrefix(rt.Text, "unknown: observed only 23h59m of 1d") {
			t.Errorf("in words: %s", rt.Text)
		}
		time.Sleep(time.Nanosecond)
		d.verdict(NotSeen, window)
	})
}

// Who only tries is shown, and does not make the dialect needed: a handshake, a
// ping, calls that fail.
func TestVerdict_OnlyTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memory.New(), "default")
		defer d.close()
		time.Sleep(2 * window)
		d.ask(named("probe"), translate.Legacy, "initialize", translate.OutcomeCompleted)
		d.ask(named("probe"), translate.Legacy, "ping", translate.OutcomeCompleted)
		d.ask(named("unlucky"), translate.Legacy, "initialize", translate.OutcomeCompleted)
		d.ask(named("unlucky"), translate.Legacy, "tools/call", translate.OutcomeError)
		d.ask(named("unlucky"), translate.Legacy, "tools/list", translate.OutcomeGone)
		rt := d.verdict(Attempted, window)
		if want := "legacy not used for 1d, but 2 clients tried: look at them before it is switched off"; rt.Text != want {
			t.Errorf("in words: %s", rt.Text)
		}
		for i, want := range []Dialect{{Probes: 2}, {Probes: 1, Failed: 2}} {
			c := rt.Clients[i]
			if c.State != StateTried || c.Legacy.Completed != 0 || c.Legacy.Probes != want.Probes || c.Legacy.Failed != want.Failed || !c.Legacy.LastUsed.IsZero() {
				t.Errorf("%s is shown as %+v", c.Name, c)
			}
		}
		// An open session of who only shakes hands changes nothing.
		d.open = []session.LegacySession{{Who: named("probe"), Route: "default"}}
		d.verdict(Attempted, window)
		time.Sleep(window)
		d.verdict(NotSeen, window)
	})
}

// A session that is open although nothing happens in it is somebody's.
func TestVerdict_IdleSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memory.New(), "default")
		defer d.close()
		time.Sleep(window)
		who := named("desk")
		d.ask(who, translate.Legacy, "tools/list", translate.OutcomeCompleted)
		d.open = []session.LegacySession{{Who: who, Route: "default", Version: "2025-11-25"}}
		time.Sleep(3 * window)
		rt := d.verdict(Needed, window)
		if !strings.Contains(rt.Text, "1 client, 1 with a session open now") || rt.Clients[0].OpenSessions != 1 {
			t.Errorf("in words: %s; %+v", rt.Text, rt.Clients[0])
		}
		d.SessionEnded(d.open[0], time.Now())
		d.open = nil
		time.Sleep(window - 1)
		d.verdict(Needed, window)
		time.Sleep(time.Nanosecond)
		d.verdict(NotSeen, window)
	})
}

// A stream held open is somebody's, even if nothing else was ever asked.
func TestVerdict_Listener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, memory.New(), "default")
		defer d.close()
		time.Sleep(window)
		who := named("ear")
		d.open = []session.LegacySession{{Who: who, Route: "default", Listening: true}}
		d.verdict(Needed, window)
		d.open = nil
		d.verdict(NotSeen, window)
		get := &session.Request{Who: who, Route: "default", Down: translate.Legacy, Verb: "GET", At: time.Now()}
		time.Sleep(longHold - 1)
		d.End(get, session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeClosed}, At: time.Now(), Uses: translate.OnlyGetStream})
		d.verdict(Attempted, window)
		time.Sleep(time.Nanosecond)
		d.End(get, session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeClosed}, At: time.Now(), Uses: translate.OnlyGetStream})
		rt := d.verdict(Needed, window)
		if c := rt.Clients[0]; c.LegacyOnly["get_stream"] != 2 || c.Legacy.Completed != 0 {
			t.Errorf("shown as %+v", c)
		}
		time.Sleep(window)
		d.verdict(NotSeen, window)
	})
}

// What each end of a request means.
func TestClasses(t *testing.T) {
	type want struct{ completed, failed, probe, used bool }
	for _, c := range []struct {
		era    translate.Era
		method string
		answer translate.Answer
		want
	}{
		{translate.Legacy, "tools/call", translate.Answer{Outcome: translate.OutcomeCompleted}, want{completed: true, used: true}},
		{translate.Legacy, "tools/call", translate.Answer{Outcome: translate.OutcomeToolError}, want{completed: true, used: true}},
		{translate.Legacy, "tools/call", translate.Answer{Outcome: translate.OutcomeTask}, want{used: true}},
		{translate.Modern, "tools/call", translate.Answer{Outcome: translate.OutcomeInputRequired}, want{used: true}},
		{translate.Legacy, "tools/call", translate.Answer{Outcome: translate.OutcomeCancelled}, want{failed: true}},
		{translate.Legacy, "tools/call", translate.Answer{Outcome: translate.OutcomeRefused}, want{failed: true}},
		{translate.Legacy, "tools/call", translate.Answer{Outcome: translate.OutcomeUnavailable}, want{failed: true}},
		{translate.Legacy, "x/extension", translate.Answer{Outcome: translate.OutcomeCompleted}, want{completed: true, used: true}},
		{translate.Legacy, "logging/setLevel", translate.Answer{Outcome: translate.OutcomeCompleted}, want{completed: true, used: true}},
		{translate.Legacy, "initialize", translate.Answer{Outcome: translate.OutcomeCompleted}, want{probe: true}},
		{translate.Legacy, "initialize", translate.Answer{Outcome: translate.OutcomeError}, want{probe: true}},
		{translate.Legacy, "ping", translate.Answer{Outcome: translate.OutcomeCompleted}, want{probe: true}},
		{translate.Modern, "server/discover", translate.Answer{Outcome: translate.OutcomeCompleted}, want{probe: true}},
		{translate.Legacy, "tasks/get", translate.Answer{Outcome: translate.OutcomeCompleted, Task: translate.Completed}, want{used: true}},
		{translate.Legacy, "tasks/result", translate.Answer{Outcome: translate.OutcomeCompleted}, want{completed: true, used: true}},
		{translate.Legacy, "tasks/result", translate.Answer{Outcome: translate.OutcomeError}, want{failed: true}},
		{translate.Modern, "tasks/get", translate.Answer{Outcome: translate.OutcomeCompleted, Task: translate.Working}, want{used: true}},
		{translate.Modern, "tasks/get", translate.Answer{Outcome: translate.OutcomeCompleted, Task: translate.Completed}, want{completed: true, used: true}},
		{translate.Modern, "tasks/get", translate.Answer{Outcome: translate.OutcomeCompleted, Task: translate.Failed}, want{failed: true, used: true}},
		{translate.Modern, "tasks/get", translate.Answer{Outcome: translate.OutcomeError}, want{}},
		{translate.Legacy, "tasks/cancel", translate.Answer{Outcome: translate.OutcomeCompleted, Task: translate.Cancelled}, want{used: true}},
		{translate.Legacy, "tasks/list", translate.Answer{Outcome: translate.OutcomeCompleted}, want{completed: true, used: true}},
		{translate.Modern, "subscriptions/listen", translate.Answer{Outcome: translate.OutcomeGone}, want{completed: true, used: true}},
		{translate.Modern, "subscriptions/listen", translate.Answer{Outcome: translate.OutcomeError}, want{failed: true}},
	} {
		g := sighting{era: c.era}
		g.ended(c.method, c.answer)
		if got := (want{g.completed, g.failed, g.probe, g.used}); got != c.want {
			t.Errorf("%s %s %v: %+v, want %+v", c.era, c.method, c.answer, got, c.want)
		}
	}
	for method := range classes {
		if !translate.Defined(method) {
			t.Errorf("%s: no revision has it", method)
		}
	}
}

// A server that was taken out of its route needs nothing any more; its counts
// stay.
func TestServers_Gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		has := []string{"default/blue"}
		r, err := New(t.Context(), Options{Store: memory.New(), Mask: mask, Servers: func(string) []string { return has }})
		if err != nil {
			t.Fatal(err)
		}
		d := &desk{t: t, Recorder: r}
		defer d.close()
		r.SetRoutes([]string{"default"})
		r.Face("default", "default/blue", session.Face{Era: translate.Legacy})
		d.ask(named("desk"), translate.Modern, "tools/call", translate.OutcomeCompleted)
		if s := d.report(window).Servers; len(s) != 1 || s[0].Gone || !s[0].LegacyAlone() {
			t.Errorf("while it is there: %+v", s)
		}
		has = []string{"default/green"}
		if s := d.report(window).Servers; len(s) != 1 || !s[0].Gone || s[0].LegacyAlone() || s[0].Modern.Completed != 1 {
			t.Errorf("when it is gone: %+v", s)
		}
	})
}
