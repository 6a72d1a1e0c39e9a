package check

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
)

// traffic writes a capture of about size bytes: many sessions of both legs whose
// calls have arguments and results of 1 KB, tasks and progress among them.
func traffic(w io.Writer, size int) error {
	out, err := capture.NewWriter(w, capture.Header{By: "taskbridge bench"})
	if err != nil {
		return err
	}
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	text := strings.Repeat("the quick brown fox \\n jumps over é ", 28)
	written, n := 0, 0
	put := func(r capture.Record) error {
		at = at.Add(time.Millisecond)
		r.Time, r.Transport = at, "http"
		written += len(r.Msg) + 300
		return out.Write(&r)
	}
	for written < size {
		n++
		session := fmt.Sprintf("s%d", n)
		for _, leg := range []translate.Leg{translate.ClientLeg, translate.ServerLeg} {
			if err := conversation(put, leg, session, text, n); err != nil {
				return err
			}
		}
	}
	return out.Close(false)
}

// conversation is one session of a legacy client with 20 calls.
func conversation(put func(capture.Record) error, leg translate.Leg, session, text string, n int) error {
	var failed error
	stream := 0
	exchange := func(session string, msg string, status int, replies ...string) {
		stream++
		name := fmt.Sprintf("%v-%d-%d", leg, n, stream)
		h := http.Header{"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}}
		if session != "" {
			h["Mcp-Session-Id"], h["Mcp-Protocol-Version"] = []string{session}, []string{"2025-11-25"}
		}
		r := capture.Record{Leg: leg, Dir: translate.ToServer, Stream: name, Session: session, Principal: "p", Verb: "POST", Header: h, Msg: []byte(msg)}
		failed = errorOf(failed, put(r))
		if len(replies) == 0 {
			failed = errorOf(failed, put(capture.Record{Leg: leg, Dir: translate.ToClient, Stream: name, Session: session, Principal: "p", Status: status}))
		}
		for i, reply := range replies {
			r := capture.Record{Leg: leg, Dir: translate.ToClient, Stream: name, Session: session, Principal: "p", Msg: []byte(reply)}
			if i == 0 {
				r.Status, r.Header = status, http.Header{"Content-Type": {"text/event-stream"}}
			}
			failed = errorOf(failed, put(r))
		}
	}
	stream++
	name := fmt.Sprintf("%v-%d-%d", leg, n, stream)
	failed = errorOf(failed, put(capture.Record{Leg: leg, Dir: translate.ToServer, Stream: name, Verb: "POST", Msg: []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`)}))
	failed = errorOf(failed, put(capture.Record{Leg: leg, Dir: translate.ToClient, Stream: name, Session: session, Status: 200, Header: http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": {session}}, Msg: []byte(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}}}`)}))
	exchange(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202)
	for i := 1; i <= 20; i++ {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"%s","n":[1,2,3,{"deep":{"er":true}}]},"_meta":{"progressToken":%d}}}`, i, text, i)
		exchange(session, call, 200,
			fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1,"total":2}}`, i),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}],"structuredContent":{"rows":[[1,2],[3,4]],"text":"%s"}}}`, i, text, text))
	}
	return failed
}

func errorOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func TestTrafficIsClean(t *testing.T) {
	var b bytes.Buffer
	if err := traffic(&b, 1<<20); err != nil {
		t.Fatal(err)
	}
	src, err := capture.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	var got []Finding
	if err := New(OptionsFor(src.Header()), func(f Finding) { got = append(got, f) }).Capture(src, nil); err != nil || len(got) > 0 {
		t.Errorf("%v\n%.2000s", err, show(got))
	}
}

// BenchmarkCheck: bytes of capture a second, the reading of the file included.
func BenchmarkCheck(b *testing.B) {
	var file bytes.Buffer
	if err := traffic(&file, 8<<20); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(file.Len()))
	b.ReportAllocs()
	for b.Loop() {
		src, err := capture.NewReader(bytes.NewReader(file.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		if err := New(OptionsFor(src.Header()), func(Finding) {}).Capture(src, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// A capture of any length is checked in bounded memory: what is kept after 200 MB
// of sessions, requests, tokens and streams that are all different.
func TestBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and reads 200 MB")
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(traffic(pw, 200<<20)) }()
	src, err := capture.NewReader(pr)
	if err != nil {
		t.Fatal(err)
	}
	c := New(OptionsFor(src.Header()), func(Finding) {})
	records, most := 0, uint64(0)
	var m runtime.MemStats
	err = c.Capture(src, func() {
		if records++; records%20000 == 0 {
			runtime.ReadMemStats(&m)
			most = max(most, m.Sys-m.HeapReleased)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if const256 := uint64(256 << 20); most > const256 {
		t.Errorf("%d MiB after %d records, want at most 256", most>>20, records)
	}
	t.Logf("%d records, at most %d MiB", records, most>>20)
	runtime.KeepAlive(c)
}
