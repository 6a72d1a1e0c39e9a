package replay_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"taskbridge/cmd/peers"
	"taskbridge/downstream"
	"taskbridge/session"
	"taskbridge/session/memory"
	"taskbridge/session/replay"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
	"taskbridge/upstream"
)

const testURL = "http://127.0.0.1/mcp"

// peer is a server that a test replays against.
type peer interface {
	http.Handler
	Close() error
}

// bubble runs a test on a fake clock.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// listen serves h in memory until the test ends.
func listen(t *testing.T, h peer) *peers.MemListener {
	t.Helper()
	ln := peers.NewMemListener()
	srv := &http.Server{Handler: h}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(ln) })
	t.Cleanup(func() {
		_ = h.Close()
		_ = srv.Close()
		wg.Wait()
	})
	return ln
}

// newRunner is a bridge's inside before h, wired as the command wires it.
func newRunner(t *testing.T, h peer) *session.Runner {
	t.Helper()
	store := memory.New()
	key, err := session.RandomStateKey(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	handles, err := session.NewHandles([][]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	ln := listen(t, h)
	dialer, err := upstream.NewHTTP(upstream.HTTPOptions{
		Upstreams: map[string]upstream.HTTPUpstream{"default": {URL: testURL}}, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.Dial(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := session.New(session.Options{
		Store: store, Dialer: dialer, Faces: eras{upstream.NewEras(upstream.EraOptions{Dialer: dialer})}, Handles: handles,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		_ = dialer.Close()
		_ = store.Close()
	})
	return r
}

type eras struct{ *upstream.Eras }

// Face implements session.Faces.
func (e eras) Face(ctx context.Context, target session.Target) (session.Face, error) {
	r, err := e.Era(ctx, target)
	return r.Face(), err
}

// tape is a session.Tap that keeps the client leg as records.
type tape struct {
	mu       sync.Mutex // protects the fields below
	records  []*capture.Record
	sessions map[string]string // by stream
}

// Frame implements session.Tap.
func (tp *tape) Frame(f translate.Frame) {
	if f.Leg != translate.ClientLeg {
		return
	}
	tp.mu.Lock()
	defer tp.mu.Unlock()
	r := &capture.Record{
		Line: len(tp.records) + 2, Time: f.Time, Leg: f.Leg, Dir: f.Dir, Transport: "http", Stream: f.Stream, Principal: "someone",
	}
	if f.Msg != nil {
		r.Msg = f.Msg.Raw
	}
	if f.HTTP != nil {
		r.Verb, r.Status, r.Header = f.HTTP.Verb, f.HTTP.Status, f.HTTP.Header.Clone()
		if id := r.Header.Get(translate.HeaderSession); id != "" {
			tp.sessions[f.Stream] = "hash of " + id
		}
		r.Header.Del(translate.HeaderSession)
	}
	r.Session = tp.sessions[f.Stream]
	tp.records = append(tp.records, r)
}

// recorded plays clients before a bridge to h and gives back what passed.
func recorded(t *testing.T, h peer, play func(hc *http.Client)) []*operation.Operation {
	t.Helper()
	tp := &tape{sessions: map[string]string{}}
	front, err := downstream.New(downstream.Options{Hub: newRunner(t, h), Path: "/mcp", Loopback: true, Tap: tp, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ln := peers.NewMemListener()
	var wg sync.WaitGroup
	wg.Go(func() { _ = front.Serve(context.Background(), ln) })
	hc := ln.Client()
	play(hc)
	hc.CloseIdleConnections()
	_ = front.Shutdown(t.Context())
	wg.Wait()
	tp.mu.Lock()
	defer tp.mu.Unlock()
	return operation.Gather(slices.Values(tp.records), translate.ClientLeg)
}

// everyTool is what the built-in servers have; the tests may call all.
var everyTool = replay.Safety{AllowUnannotated: true}

// replayed does ops again before h, and pairs each with what became of it.
func replayed(t *testing.T, h peer, ops []*operation.Operation, o replay.Options) []pair {
	t.Helper()
	if o.Plan == nil {
		o.Plan = replay.NewPlan(ops, nil, everyTool)
	}
	o.Hub = newRunner(t, h)
	out, err := replay.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return pairs(out)
}

type pair struct {
	*replay.Result
	New *operation.Operation
}

func pairs(out *replay.Outcome) []pair {
	again := map[int]*operation.Operation{}
	for _, op := range operation.Gather(slices.Values(out.Records), translate.ClientLeg) {
		if n := replay.OperationOf(op); n > 0 && again[n] == nil {
			again[n] = op
		}
	}
	var all []pair
	for _, r := range out.Results {
		all = append(all, pair{r, again[r.Op.N]})
	}
	return all
}

// wantSame fails unless every operation was done again and ended the same.
func wantSame(t *testing.T, all []pair) {
	t.Helper()
	wantNoOther(t, all, compare.Options{})
}

// bridged are the declared losses of a server of the other era, and the one
// capability that only one of the built-in servers has.
func bridged(t *testing.T) compare.Options {
	t.Helper()
	logging, err := compare.ParseIgnore("$.result.capabilities.logging")
	if err != nil {
		t.Fatal(err)
	}
	return compare.Options{Bridged: true, Ignore: []compare.Ignore{logging}}
}

// wantNoOther is wantSame but for what the options leave out.
func wantNoOther(t *testing.T, all []pair, o compare.Options) {
	t.Helper()
	if len(all) == 0 {
		t.Error("nothing was replayed")
	}
	for _, p := range all {
		what := fmt.Sprintf("operation %d (%s %s)", p.Op.N, p.Op.Method, p.Op.Name)
		switch {
		case !p.Send:
			t.Errorf("%s: not sent: %s %s\n%s", what, p.Reason, p.Why, show(p.Op))
		case p.New == nil:
			t.Errorf("%s: nothing came of it; %q", what, p.Notes)
		default:
			r := compare.Operations(p.Op, p.New, o)
			for _, d := range r.Differences {
				if d.Severity != compare.Note {
					t.Errorf("%s: %s %s at %s: %s: %s, now %s; %q\n%s", what, d.Severity, d.Kind, d.Path, d.Text, d.Was, d.Now, p.Notes, show(p.New))
				}
			}
			if r.Verdict == compare.Inconclusive {
				t.Errorf("%s: %s", what, r.Reason)
			}
		}
	}
}

func show(op *operation.Operation) string {
	var out strings.Builder
	for _, p := range op.Parts {
		fmt.Fprintf(&out, "%s %s %s %d %.300s\n", p.Role, p.Record.Dir, p.Record.Stream, p.Record.Status, p.Record.Msg)
	}
	return out.String()
}
