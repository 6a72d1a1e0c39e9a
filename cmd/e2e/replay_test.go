package e2e

import (
	"slices"
	"sync"
	"testing"
	"time"

	"taskbridge/downstream"
	"taskbridge/session/replay"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

// tape is a session.Tap that keeps the clients' leg as records.
type tape struct {
	mu      sync.Mutex // protects records
	records []*capture.Record
}

// Frame implements session.Tap.
func (p *tape) Frame(f translate.Frame) {
	if f.Leg != translate.ClientLeg {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &capture.Record{
		Line: len(p.records) + 2, Time: f.Time, Leg: f.Leg, Dir: f.Dir, Transport: f.Transport, Conn: f.Conn, Stream: f.Stream,
		Session: f.Session, Principal: f.Principal,
	}
	if f.HTTP != nil {
		r.Verb, r.Status, r.Header = f.HTTP.Verb, f.HTTP.Status, f.HTTP.Header
	}
	if f.Msg != nil {
		r.Msg = f.Msg.Raw
	}
	p.records = append(p.records, r)
}

func (p *tape) operations() []*operation.Operation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return operation.Gather(slices.Values(p.records), translate.ClientLeg)
}

// recordReal has a client play scenarios before a server, through a bridge.
func recordReal(t *testing.T, client, server peer, scenarios []string) []*operation.Operation {
	t.Helper()
	p := &tape{}
	// Unchecked: this tap stands in the checker's place on the client leg.
	b := newBridge(t, startServer(t, server), bridgeOptions{Unchecked: true, Options: func(o *downstream.Options) { o.Tap = p }})
	for _, scenario := range scenarios {
		if run := runClient(t, client, b.URL, scenario); !run.OK {
			t.Fatalf("%s: %s", scenario, run)
		}
	}
	return p.operations()
}

// replayReal does it again before another server and tells what differs.
func replayReal(t *testing.T, server peer, ops []*operation.Operation, cross bool, ignore ...string) {
	t.Helper()
	o := compare.Options{}
	for _, path := range ignore {
		i, err := compare.ParseIgnore(path)
		if err != nil {
			t.Fatal(err)
		}
		o.Ignore = append(o.Ignore, i)
	}
	// Unchecked: what the clients say is not seen by the tap, so that their own
	// faults would be the proxy's.
	b := newBridge(t, startServer(t, server), bridgeOptions{Unchecked: true})
	out, err := replay.Run(t.Context(), replay.Options{
		Hub: b.Runners[0], Plan: replay.NewPlan(ops, nil, replay.Safety{AllowUnannotated: true}), Timeout: 30 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	report := out.Report(o, func(*operation.Operation) bool { return cross })
	for _, s := range report.Skipped {
		t.Errorf("to %s: operation %d (%s %s) was left out: %s", server.name, s.Op.N, s.Op.Method, s.Op.Name, s.Reason)
	}
	for _, p := range report.Pairs {
		if p.Verdict == compare.Inconclusive {
			t.Errorf("to %s: operation %d (%s %s): %s", server.name, p.A.N, p.A.Method, p.A.Name, p.Reason)
		}
		for _, d := range p.Differences {
			if d.Severity != compare.Note {
				t.Errorf("to %s: operation %d (%s %s): %s %s at %s: %s: %s, now %s; %q",
					server.name, p.A.N, p.A.Method, p.A.Name, d.Severity, d.Kind, d.Path, d.Text, d.Was, d.Now, out.Results[p.A.N-1].Notes)
			}
		}
	}
}

// TestReplay_RealPeers: what real clients did before real servers is the same
// before the same server, and before the other era's with the same tools but for
// what those servers say of themselves: their tools in other words, and
// capabilities only one of the SDKs has.
func TestReplay_RealPeers(t *testing.T) {
	long(t)
	for _, c := range []struct {
		client    peer
		scenarios []string
	}{
		{legacyClient, []string{"greet", "task", "failing", "question", "two", "ask", "ask-decline", "cancel", "progress"}},
		{modernClient, []string{"greet", "task", "failing", "question", "two", "ask", "ask-decline", "cancel", "progress"}},
	} {
		for _, from := range []peer{legacyServer, modernServer} {
			to := modernServer
			if from.name == modernServer.name {
				to = legacyServer
			}
			t.Run(c.client.name+" "+from.name, func(t *testing.T) {
				t.Parallel()
				ops := recordReal(t, c.client, from, c.scenarios)
				replayReal(t, from, ops, false)
				replayReal(t, to, ops, true, "$.result.tools", "$.result.capabilities")
			})
		}
	}
}
