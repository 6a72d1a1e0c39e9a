//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
)

// largeCapture writes size bytes of sessions with calls of 1 KB over both legs.
func largeCapture(t testing.TB, size int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "large.jsonl")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := capture.NewWriter(f, capture.Header{By: "taskbridge test"})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat(`the quick brown fox \n jumps over é `, 28)
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	write := func(r capture.Record) {
		at = at.Add(time.Millisecond)
		r.Time, r.Transport = at, translate.TransportHTTP
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; ; n++ {
		if info, err := f.Stat(); err != nil || info.Size() >= size {
			break
		}
		for _, leg := range []translate.Leg{translate.ClientLeg, translate.ServerLeg} {
			session := fmt.Sprintf("%s%d", leg, n)
			exchange := func(i int, session string, ask string, status int, answers ...string) {
				stream := fmt.Sprintf("%s-%d-%d", leg, n, i)
				h := http.Header{"Accept": {"application/json, text/event-stream"}}
				if i > 0 {
					h["Mcp-Protocol-Version"], h["Mcp-Session-Id"] = []string{"2025-11-25"}, []string{session}
				}
				write(capture.Record{Leg: leg, Dir: translate.ToServer, Stream: stream, Session: h.Get("Mcp-Session-Id"), Verb: "POST", Header: h, Msg: []byte(ask)})
				for _, a := range append([]string{""}[min(len(answers), 1):], answers...) {
					r := capture.Record{Leg: leg, Dir: translate.ToClient, Stream: stream, Session: session, Status: status}
					if a != "" {
						r.Msg, r.Header = []byte(a), http.Header{"Content-Type": {"text/event-stream"}}
					}
					write(r)
					status = 0
				}
			}
			exchange(0, session, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`, 200,
				`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{}}}}`)
			exchange(1, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
			for i := 2; i < 22; i++ {
				exchange(i, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s","n":[1,2,{"deep":true}]},"_meta":{"progressToken":%d}}}`, i, text, i), 200,
					fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}`, i),
					fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}],"structuredContent":{"rows":[[1,2],[3,4]]}}}`, i, text))
			}
		}
	}
	if err := w.Close(false); err != nil {
		t.Fatal(err)
	}
	return name
}

// costOfProgram runs a program to its end: processor time, and memory in bytes at the
// most.
func costOfProgram(t testing.TB, program string, args ...string) (cpu time.Duration, memory int64) {
	t.Helper()
	cmd := exec.Command(program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%.2000s", program, err, out)
	}
	s := cmd.ProcessState
	return s.UserTime() + s.SystemTime(), s.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// TestCheck_BesideJq: 200 MB are checked in at most 256 MiB, with no more
// processor time than jq -c . takes for the same file.
func TestCheck_BesideJq(t *testing.T) {
	long(t)
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("jq is not installed")
	}
	name := largeCapture(t, 200<<20)
	var ratios []float64
	for range 3 {
		theirs, _ := costOfProgram(t, "sh", "-c", `exec "$0" -c . "$1" >/dev/null`, jq, name)
		ours, memory := costOfProgram(t, builtBridge(t), "check", name)
		if raceEnabled {
			continue
		}
		ratios = append(ratios, theirs.Seconds()/ours.Seconds())
		t.Logf("jq %v, check %v in %d MiB", theirs, ours, memory>>20)
		if memory > 256<<20 {
			t.Errorf("check took %d MiB, want at most 256", memory>>20)
		}
	}
	slices.Sort(ratios)
	if len(ratios) > 0 && ratios[len(ratios)/2] < 1 {
		t.Errorf("%.2f times as fast as jq, want at least 1", ratios[len(ratios)/2])
	}
}
