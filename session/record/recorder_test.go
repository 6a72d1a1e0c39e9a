package record

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

func mask(kind, text string) string { return fmt.Sprintf("%s%x", kind[:1], len(text)) }

func frame(t testing.TB, raw string) translate.Frame {
	t.Helper()
	m, err := jsonrpc.Decode([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return translate.Frame{Msg: m, Leg: translate.ClientLeg, Dir: translate.ToServer, Stream: "s", Transport: "http", Time: time.Unix(1, 0)}
}

func start(t *testing.T, o Options) *Recorder {
	t.Helper()
	o.Mask = mask
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func read(t *testing.T, name string) (records []capture.Record, h capture.Header, end *capture.End) {
	t.Helper()
	f, err := Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		r, err := f.Next()
		if err == io.EOF || errors.Is(err, capture.ErrNotWhole) {
			return records, f.Header(), f.End()
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
}

func TestRecorder(t *testing.T) {
	for _, ext := range []string{".jsonl", ".jsonl.gz"} {
		name := filepath.Join(t.TempDir(), "a"+ext)
		r := start(t, Options{File: name, By: "test", Settings: map[string]string{"upstream": "u"}})
		f := frame(t, `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"secret-task"}}`)
		f.Session, f.Principal = "secret-session", "secret-principal"
		f.HTTP = &translate.Envelope{Verb: "POST", Header: http.Header{
			"Authorization": {"Bearer secret-token"}, "Cookie": {"a=secret"}, "Mcp-Session-Id": {"secret-session"}, "Mcp-Name": {"secret-task"},
			"X-Other": {"secret"}, "Accept": {"application/json"},
		}}
		r.Frame(f)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		r.Frame(f) // too late
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		records, h, end := read(t, name)
		if len(records) != 1 || h.By != "test" || h.Settings["upstream"] != "u" || h.Part != 0 || end == nil || end.Records != 1 || end.Continued {
			t.Fatalf("%s: %d records, header %+v, end %+v", ext, len(records), h, end)
		}
		got := records[0]
		if string(got.Msg) != `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"hmac:hb"}}` {
			t.Errorf("message %s", got.Msg)
		}
		if got.Session != "se" || got.Principal != "p10" || got.Header.Get("Mcp-Session-Id") != "se" || got.Header.Get("Mcp-Name") != "hmac:hb" ||
			got.Header.Get("Accept") != "application/json" || len(got.Header) != 3 {
			t.Errorf("record %+v", got)
		}
		info, err := os.Stat(name)
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v %v", info.Mode(), err)
		}
	}
}

// What is there stays, and no link leads a recording elsewhere.
func TestNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	file, link, target := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "b.jsonl"), filepath.Join(dir, "target")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{file}
	if os.Symlink(target, link) == nil {
		names = append(names, link)
	}
	for _, name := range names {
		if _, err := New(Options{File: name, Mask: mask}); err == nil || !strings.Contains(err.Error(), "overwrites nothing") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := os.Lstat(target); !errors.Is(err, os.ErrNotExist) {
		t.Error("a link was followed")
	}
	if _, err := New(Options{File: filepath.Join(dir, "none", "a.jsonl"), Mask: mask}); err == nil {
		t.Error("no error for a folder that is not there")
	}
}

// Parts are captures of their own; a restarted recording goes on behind those
// that are there.
func TestRotates(t *testing.T) {
	for _, ext := range []string{".jsonl", ".jsonl.gz", ""} {
		dir := t.TempDir()
		name := filepath.Join(dir, "a.b"+ext)
		partName := func(n int) string {
			if ext == "" {
				return filepath.Join(dir, fmt.Sprintf("a-%04d.b", n))
			}
			return filepath.Join(dir, fmt.Sprintf("a.b-%04d%s", n, ext))
		}
		total := 0
		for run := range 2 {
			r := start(t, Options{File: name, RotateSize: 100_000})
			for range 5 {
				noise := make([]byte, 60_000)
				rand.Read(noise)
				r.Frame(frame(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"%x"}`, noise)))
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			records, last := 0, len(entries)
			for i := total; i < last; i++ {
				got, h, end := read(t, partName(i+1))
				if h.Part != i+1-total || end == nil || end.Continued != (i+1 < last) {
					t.Errorf("%s run %d: %s: part %d, end %+v", ext, run, partName(i+1), h.Part, end)
				}
				records += len(got)
			}
			if records != 5 || last-total < 2 {
				t.Errorf("%s run %d: %d records in %d parts", ext, run, records, last-total)
			}
			total = last
		}
	}
}

// Time begins a part only where something is in the last one.
func TestRotatesByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := start(t, Options{File: filepath.Join(dir, "a.jsonl"), RotateEvery: time.Hour})
		r.Frame(frame(t, `{"jsonrpc":"2.0","method":"x"}`))
		time.Sleep(24 * time.Hour)
		r.Frame(frame(t, `{"jsonrpc":"2.0","method":"y"}`))
		time.Sleep(flushEvery)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		for n, want := range []int{1, 1, 0} {
			if records, _, end := read(t, filepath.Join(dir, fmt.Sprintf("a-%04d.jsonl", n+1))); len(records) != want || end == nil || end.Continued == (n == 2) {
				t.Errorf("part %d has %d records, end %+v", n+1, len(records), end)
			}
		}
	})
}

// Within the flush interval a line is in the file, so whoever is killed leaves
// what came before.
func TestIsFlushed(t *testing.T) {
	for _, ext := range []string{".jsonl", ".jsonl.gz"} {
		synctest.Test(t, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "a"+ext)
			r := start(t, Options{File: name})
			for n := range 3 {
				r.Frame(frame(t, `{"jsonrpc":"2.0","method":"x"}`))
				time.Sleep(2 * flushEvery)
				if records, _, end := read(t, name); len(records) != n+1 || end != nil {
					t.Errorf("%s: %d records, end %+v", ext, len(records), end)
				}
			}
			r.Close()
		})
	}
}

// A full buffer makes nobody wait: what is left out is declared where it is
// missing, and counted.
func TestDropsAreDeclared(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.jsonl")
	var mu sync.Mutex
	counted := 0
	hold, entered := make(chan struct{}), make(chan struct{}, 100)
	r := start(t, Options{
		File: name, Frames: 2, Dropped: func() { mu.Lock(); counted++; mu.Unlock() },
		Redact: func(*capture.Record) { entered <- struct{}{}; <-hold },
	})
	note := func(n int) {
		r.Frame(frame(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"n%d"}`, n)))
	}
	note(0)
	<-entered // the writer has it; two more fit
	for n := 1; n <= 6; n++ {
		note(n)
	}
	close(hold)
	for range 2 { // the two that waited
		<-entered
	}
	note(7)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	records, _, end := read(t, name)
	var got strings.Builder
	for _, rec := range records {
		if rec.Dropped > 0 {
			got.WriteString(fmt.Sprintf("dropped %d; ", rec.Dropped))
			continue
		}
		got.WriteString(string(rec.Msg[len(rec.Msg)-4:len(rec.Msg)-2]) + "; ")
	}
	if want := "n0; n1; n2; dropped 4; n7; "; got.String() != want || end.Dropped != 4 || end.Records != 5 || counted != 4 {
		t.Errorf("got %s end %+v, counted %d; want %s", got.String(), end, counted, want)
	}
}

func TestDropsByBytes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.jsonl")
	hold, entered := make(chan struct{}), make(chan struct{}, 100)
	r := start(t, Options{File: name, Bytes: 10_000, Redact: func(*capture.Record) { entered <- struct{}{}; <-hold }})
	big := frame(t, `{"jsonrpc":"2.0","method":"`+strings.Repeat("x", 20_000)+`"}`)
	r.Frame(big) // larger than all of the buffer, which is empty
	<-entered    // and stays full until it is written
	for range 3 {
		r.Frame(frame(t, `{"jsonrpc":"2.0","method":"`+strings.Repeat("y", 4_000)+`"}`))
	}
	close(hold)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if records, _, end := read(t, name); len(records) != 2 || end.Dropped != 3 {
		t.Errorf("%d records, end %+v", len(records), end)
	}
}

// A disk that is full does not stop what serves traffic, and the file says that
// it is not whole.
func TestFailedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.jsonl")
	var mu sync.Mutex
	dropped := 0
	r := start(t, Options{File: name, Dropped: func() { mu.Lock(); dropped++; mu.Unlock() }})
	r.file.f.Close()
	for range 3 {
		r.Frame(frame(t, `{"jsonrpc":"2.0","method":"`+strings.Repeat("x", 2*keptLines)+`"}`))
	}
	if err := r.Close(); err == nil {
		t.Error("no error")
	}
	if _, _, end := read(t, name); end != nil || dropped != 3 {
		t.Errorf("end %+v, %d dropped", end, dropped)
	}
}
