package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	recording "taskbridge/session/record"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/check"
)

// checked holds all that passes a bridge against the specification, as
// taskbridge check does with a capture. What the proxy itself does wrong fails
// the test; what is a peer's own fault is logged.
type checked struct {
	t testing.TB

	mu      sync.Mutex // protects the fields below
	c       *check.Checker
	w       *capture.Writer // for TASKBRIDGE_E2E_CAPTURES, else nil
	line    int
	ours    []check.Finding
	peers   map[string]int
	records map[int]string // the newest, for messages
}

// checkedRecords is how many records are kept to be shown with a finding.
const checkedRecords = 4096

func newChecked(t testing.TB) *checked {
	k := &checked{t: t, line: 1, peers: map[string]int{}, records: map[int]string{}}
	k.c = check.New(check.Options{}, k.took)
	k.toFile()
	t.Cleanup(k.finish)
	return k
}

func (k *checked) took(f check.Finding) {
	if f.Side == check.Proxy {
		k.ours = append(k.ours, f)
		return
	}
	k.peers[fmt.Sprintf("%s: %s %s: %s", f.Side, f.Severity, f.Rule.ID, f.Message)]++
}

func (k *checked) keep(r *capture.Record) {
	k.records[r.Line] = fmt.Sprintf("%s leg, %s, stream %s, %s %d, session %s: %.600s", r.Leg, r.Dir, r.Stream, r.Verb, r.Status, r.Session, r.Msg)
	delete(k.records, r.Line-checkedRecords)
}

// toFile also writes the capture where TASKBRIDGE_E2E_CAPTURES names a folder.
func (k *checked) toFile() {
	dir := os.Getenv("TASKBRIDGE_E2E_CAPTURES")
	if dir == "" {
		return
	}
	f, err := os.OpenFile(filepath.Join(dir, captureName(k.t)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { f.Close() })
	if k.w, err = capture.NewWriter(f, capture.Header{By: "taskbridge e2e"}); err != nil {
		k.t.Fatal(err)
	}
}

func captureName(t testing.TB) string {
	name := regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(t.Name(), ".")
	return fmt.Sprintf("%s-%d.jsonl", name, time.Now().UnixNano())
}

// tap is what one of several runners shows: their names of streams and
// connections are their own.
func (k *checked) tap(runner int) *checkedTap { return &checkedTap{k, fmt.Sprintf("%d.", runner)} }

type checkedTap struct {
	k      *checked
	prefix string
}

func (c *checkedTap) Frame(f translate.Frame) {
	k := c.k
	k.mu.Lock()
	defer k.mu.Unlock()
	k.line++
	r := capture.Record{
		Line: k.line, Time: f.Time, Leg: f.Leg, Dir: f.Dir, Transport: f.Transport, Session: f.Session, Principal: f.Principal,
	}
	if f.Stream != "" {
		r.Stream = c.prefix + f.Stream
	}
	if f.Conn != "" {
		r.Conn = c.prefix + f.Conn
	}
	if f.HTTP != nil {
		r.Verb, r.Status, r.Header = f.HTTP.Verb, f.HTTP.Status, f.HTTP.Header
	}
	if f.Msg != nil {
		r.Msg = f.Msg.Raw
	}
	k.c.Record(&r)
	if k.w != nil {
		if err := k.w.Write(&r); err != nil {
			k.t.Error(err)
		}
	}
	k.keep(&r)
}

func (k *checked) finish() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.c.Finish()
	for what, n := range k.peers {
		k.t.Logf("%d times %s", n, what)
	}
	ours := slices.DeleteFunc(slices.Clone(k.ours), func(f check.Finding) bool { return f.Severity == check.Note })
	for i, f := range ours {
		if i == 20 {
			k.t.Errorf("and %d more", len(ours)-i)
			return
		}
		k.t.Errorf("line %d: %s %s: %s (see %d)\n\t%s\n\t%s", f.Line, f.Severity, f.Rule.ID, f.Message, f.See, k.records[f.Line], strings.TrimSpace(k.records[f.See]))
	}
	if k.w != nil {
		if err := k.w.Close(false); err != nil {
			k.t.Error(err)
		}
	}
}

// checkedFile is a name for a recording, which is checked when the test ends
// and whatever is started later has ended.
func checkedFile(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("TASKBRIDGE_E2E_CAPTURES")
	if dir == "" {
		dir = t.TempDir()
	}
	name := filepath.Join(dir, captureName(t))
	t.Cleanup(func() {
		file, err := recording.Open(name, nil)
		if errors.Is(err, os.ErrNotExist) {
			return // nothing was started
		}
		if err != nil {
			t.Errorf("the recording: %v", err)
			return
		}
		defer file.Close()
		k := &checked{t: t, peers: map[string]int{}, records: map[int]string{}}
		k.c = check.New(check.OptionsFor(file.Header()), k.took)
		for {
			r, err := file.Next()
			if err == io.EOF || errors.Is(err, capture.ErrNotWhole) {
				break
			}
			if err != nil {
				t.Errorf("the recording: %v", err)
				return
			}
			k.c.Record(&r)
			k.keep(&r)
		}
		k.finish()
	})
	return name
}
