package offline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/operation"
)

// manyCalls is a legacy conversation of n calls of about size bytes each way.
func manyCalls(n, size int) []*capture.Record {
	pad := strings.Repeat("x", size)
	at := began
	var records []*capture.Record
	add := func(dir translate.Direction, stream, msg string) {
		r := &capture.Record{Time: at, Leg: translate.ClientLeg, Dir: dir, Transport: "http", Stream: stream, Principal: "p", Session: "s", Msg: []byte(msg), Line: len(records) + 2}
		if dir == translate.ToServer {
			r.Verb = "POST"
		} else {
			r.Status = 200
		}
		records = append(records, r)
		at = at.Add(10 * time.Millisecond)
	}
	add(translate.ToServer, "i", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`)
	add(translate.ToClient, "i", `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"srv","version":"2"}}}`)
	for i := 1; i <= n; i++ {
		s := fmt.Sprintf("s%d", i)
		add(translate.ToServer, s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"n":%d,"pad":"%s"}}}`, i, i, pad))
		add(translate.ToClient, s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}]}}`, i, pad))
	}
	return records
}

func BenchmarkTranslate(b *testing.B) {
	records := manyCalls(2000, 1000)
	size := 0
	for _, r := range records {
		size += len(r.Msg)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		ops := operation.Gather(slices.Values(records), translate.ClientLeg)
		n := 0
		_, err := Translate(context.Background(), TranslateOptions{Operations: ops, To: "2026-07-28", Out: func(*capture.Record) error { n++; return nil }})
		if err != nil || n < 4000 {
			b.Fatal(err, n)
		}
	}
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	b.ReportMetric(float64(ms.HeapInuse)/1e6, "heapMB")
}
