package record

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
)

// BenchmarkRecorder is the cost of one frame of 1 KB, taking and writing it.
func BenchmarkRecorder(b *testing.B) {
	for _, ext := range []string{".jsonl", ".jsonl.gz"} {
		b.Run(ext, func(b *testing.B) {
			r, err := New(Options{File: filepath.Join(b.TempDir(), "a"+ext), Mask: mask})
			if err != nil {
				b.Fatal(err)
			}
			f := frame(b, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"text":"`+strings.Repeat("some text ", 90)+`"}}}`)
			f.HTTP = &translate.Envelope{Verb: "POST", Header: http.Header{
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"},
				"Mcp-Method": {"tools/call"}, "Mcp-Name": {"t"},
			}}
			f.Time = time.Now()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Frame(f)
				if i%1000 == 999 {
					r.drained()
				}
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(f.Msg.Raw)))
		})
	}
}

// drained waits until all that was taken is written.
func (r *Recorder) drained() {
	for {
		r.mu.Lock()
		left := r.bytes
		r.mu.Unlock()
		if left == 0 {
			return
		}
		notify(r.hurry)
		time.Sleep(10 * time.Microsecond)
	}
}
