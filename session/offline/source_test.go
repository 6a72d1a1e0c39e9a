package offline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/operation"
)

// source writes records as a capture and opens it.
func source(t *testing.T, records []*capture.Record) capture.Source {
	t.Helper()
	var b bytes.Buffer
	w, err := capture.NewWriter(&b, capture.Header{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(false); err != nil {
		t.Fatal(err)
	}
	s, err := capture.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fromSource(t *testing.T, records []*capture.Record, to string) ([]*capture.Record, *Report) {
	t.Helper()
	var b bytes.Buffer
	w, err := capture.NewWriter(&b, capture.Header{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := TranslateSource(context.Background(), SourceOptions{Source: source(t, records), To: to, Out: w})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(false); err != nil {
		t.Fatal(err)
	}
	s, err := capture.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	var out []*capture.Record
	for {
		r, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out, report
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &r)
	}
}

// TestSource_SessionsApart: sessions that run at once are translated apart, come
// out in the order of their times, and say what each said alone.
func TestSource_SessionsApart(t *testing.T) {
	var all []*capture.Record
	alone := map[string][]*operation.Operation{}
	for n := range 5 {
		name := fmt.Sprintf("s%d", n)
		records := script(t, madeUp(uint64(n+1), 6))
		for _, r := range records {
			// The same ids in each: tasks belong to who made them.
			r.Session, r.Stream, r.Principal = name, name+r.Stream, "p"+name
			r.Time = r.Time.Add(time.Duration(n) * time.Millisecond)
		}
		alone[name] = gathered(records)
		all = append(all, records...)
	}
	slices.SortStableFunc(all, func(a, b *capture.Record) int { return a.Time.Compare(b.Time) })
	all = slices.Insert(all, 10, &capture.Record{Time: all[10].Time, Dropped: 2})
	there, report := fromSource(t, all, "2026-07-28")
	if !slices.IsSortedFunc(there, func(a, b *capture.Record) int { return a.Time.Compare(b.Time) }) {
		t.Error("records are not in the order of their times")
	}
	if n := len(slices.DeleteFunc(slices.Clone(there), func(r *capture.Record) bool { return r.Dropped == 0 })); n != 1 {
		t.Errorf("%d words of dropped frames, want 1", n)
	}
	if report.Unfinished > 0 || report.Misses > 0 {
		t.Errorf("%+v", report)
	}
	back, _ := fromSource(t, there, "2025-11-25")
	bySession := map[string][]*capture.Record{}
	for _, r := range back {
		bySession[r.Principal] = append(bySession[r.Principal], r)
	}
	for name, ops := range alone {
		if wrong := differences(ops, gathered(bySession["p"+name])); len(wrong) > 0 {
			t.Errorf("%s: %s", name, strings.Join(wrong, "\n"))
		}
	}
}

func TestLanes(t *testing.T) {
	l := newLanes()
	add := func(r capture.Record) int32 {
		r.Leg = translate.ClientLeg
		return l.add(&r)
	}
	open := add(capture.Record{Stream: "1", Principal: "p", Msg: []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)})
	opened := add(capture.Record{Stream: "1", Session: "a", Principal: "p", Msg: []byte(`{"jsonrpc":"2.0","id":0,"result":{}}`)})
	made := add(capture.Record{Stream: "2", Session: "a", Principal: "p", Msg: []byte(`{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t"}}}`)})
	later := add(capture.Record{Stream: "3", Session: "b", Principal: "p", Msg: []byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`)})
	foreign := add(capture.Record{Stream: "4", Session: "c", Principal: "q", Msg: []byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`)})
	for _, same := range []int32{opened, made, later} {
		if l.find(open) != l.find(same) {
			t.Errorf("%d and %d belong together", open, same)
		}
	}
	if l.find(open) == l.find(foreign) {
		t.Error("another principal's task of the same id belongs apart")
	}
}
