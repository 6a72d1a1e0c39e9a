package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"taskbridge/cmd/peers"
	"taskbridge/session"
	"taskbridge/session/record"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// witness is what passed a leg, told by somebody who stood there.
type witness struct {
	t       *testing.T
	conceal *capture.Concealer
	mu      sync.Mutex // protects what follows
	all     []string
}

// stateKey writes a key file, so that a test knows what a capture makes of a
// secret.
func stateKey(t *testing.T) (file string, handles *session.Handles) {
	t.Helper()
	key := bytes.Repeat([]byte("k"), session.MinStateKey)
	file = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, key, 0o600); err != nil {
		t.Fatal(err)
	}
	handles, err := session.NewHandles([][]byte{key})
	if err != nil {
		t.Fatal(err)
	}
	return file, handles
}

func newWitness(t *testing.T, handles *session.Handles) *witness {
	return &witness{t: t, conceal: capture.NewConcealer(handles.MaskText)}
}

func (w *witness) saw(dir translate.Direction, raw string) {
	if raw == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := capture.Record{Dir: dir, Msg: []byte(raw)}
	w.conceal.Record(&r)
	if r.Msg == nil {
		w.t.Errorf("no message: %s", raw)
	}
	w.all = append(w.all, fmt.Sprintf("%s %s", dir, jsonrpc.Compact(nil, r.Msg)))
}

// server is a peers.ServerOptions.Trace.
func (w *witness) server(e peers.TraceEntry) {
	dir := translate.ToServer
	if e.Out {
		dir = translate.ToClient
	}
	w.saw(dir, string(e.Message))
}

// client is a peer client's Trace.
func (w *witness) client(e peers.TraceEntry) {
	e.Out = !e.Out
	w.server(e)
}

// lines is a lineClient's.
func (w *witness) lines(out bool, raw string) {
	w.client(peers.TraceEntry{Out: out, Message: []byte(raw)})
}

func (w *witness) file(name string, dir translate.Direction) {
	w.t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		w.saw(dir, strings.TrimSpace(line))
	}
}

// recorded reads a capture, which must be whole.
func recorded(t *testing.T, name string) (records []capture.Record) {
	t.Helper()
	f, err := record.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		r, err := f.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	if f.End().Dropped != 0 {
		t.Errorf("%d frames were dropped", f.End().Dropped)
	}
	return records
}

func messages(records []capture.Record, leg translate.Leg) (all []string) {
	for _, r := range records {
		if r.Leg == leg && r.Msg != nil {
			all = append(all, fmt.Sprintf("%s %s", r.Dir, r.Msg))
		}
	}
	return all
}

// cutOff are the messages of exchanges over HTTP that got no status: whether all
// of one was sent before it was cut off nobody here knows.
func cutOff(records []capture.Record) (cut []string) {
	answered := map[string]bool{}
	for _, r := range records {
		if r.Status != 0 {
			answered[r.Stream] = true
		}
	}
	for _, r := range records {
		if r.Leg == translate.ServerLeg && r.Transport == translate.TransportHTTP && r.Msg != nil && !answered[r.Stream] {
			cut = append(cut, fmt.Sprintf("%s %s", r.Dir, r.Msg))
		}
	}
	return cut
}

// wantSame: each message once, none else. What is said unasked, to somebody who
// has just left, only who says it knows of.
func wantSame(t *testing.T, leg translate.Leg, got, want []string, cut ...string) {
	t.Helper()
	if len(want) == 0 {
		t.Errorf("%s leg: nothing was seen there", leg)
	}
	unasked := func(m string) bool {
		return strings.HasPrefix(m, translate.ToClient.String()) && strings.Contains(m, `"method":`)
	}
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	for len(got) > 0 || len(want) > 0 {
		switch {
		case len(want) == 0 || len(got) > 0 && got[0] < want[0]:
			if (leg == translate.ServerLeg || !unasked(got[0])) && !slices.Contains(cut, got[0]) {
				t.Errorf("%s leg: too much: %.300s", leg, got[0])
			}
			got = got[1:]
		case len(got) == 0 || want[0] < got[0]:
			if leg == translate.ClientLeg || !unasked(want[0]) {
				t.Errorf("%s leg: missing: %.300s", leg, want[0])
			}
			want = want[1:]
		default:
			got, want = got[1:], want[1:]
		}
	}
}

// exchanges checks what holds of every record: a way and a place each.
func exchanges(t *testing.T, records []capture.Record) {
	t.Helper()
	asked := map[string]bool{}
	for _, r := range records {
		at := fmt.Sprintf("%s %s%s", r.Leg, r.Conn, r.Stream)
		switch {
		case r.Time.IsZero() || r.Transport == "":
			t.Errorf("line %d: %+v", r.Line, r)
		case r.Transport == translate.TransportHTTP && (r.Stream == "" || r.Conn != ""):
			t.Errorf("line %d: an exchange over HTTP without a name: %+v", r.Line, r)
		case r.Transport != translate.TransportHTTP && r.Msg != nil && r.Status == 0 && r.Conn == "":
			t.Errorf("line %d: no connection: %+v", r.Line, r)
		case r.Transport == translate.TransportHTTP && r.Dir == translate.ToServer && r.Verb == "":
			t.Errorf("line %d: no verb: %+v", r.Line, r)
		case r.Transport == translate.TransportHTTP && r.Dir == translate.ToClient && r.Status == 0 && asked[at]:
			t.Errorf("line %d: the first of a reply has no status: %s", r.Line, r.Msg)
		}
		asked[at] = r.Verb != "" && r.Dir == translate.ToServer
	}
}
