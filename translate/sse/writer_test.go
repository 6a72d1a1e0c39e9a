package sse

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestWriter(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{string(AppendEvent(nil, "", []byte(`{"a":1}`))), "data: {\"a\":1}\n\n"},
		{string(AppendEvent([]byte("x"), "7", []byte(`{}`))), "xid: 7\ndata: {}\n\n"},
		{string(AppendEvent(nil, "7", nil)), "id: 7\ndata: \n\n"},
		{string(AppendEvent(nil, "7\r\ndata: evil\x00", []byte(`{}`))), "id: 7data: evil\ndata: {}\n\n"},
		{string(AppendNamed(nil, "endpoint", []byte("/m?s=1"))), "event: endpoint\ndata: /m?s=1\n\n"},
		{string(AppendNamed(nil, "a\nb", []byte("{\n}"))), "event: ab\ndata: {}\n\n"},
		{string(AppendComment(nil, "ping")), ": ping\n\n"},
		{string(AppendComment(nil, "a\n\ndata: evil")), ": adata: evil\n\n"},
		{string(AppendRetry(nil, 1500*time.Millisecond)), "retry: 1500\n"},
		{string(AppendRetry(nil, -time.Second)), "retry: 0\n"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// Line ends between tokens are the only bytes that change: one event, one line,
// equal JSON.
func TestCaseS36_LineEndsInsideJSON(t *testing.T) {
	raw := "{\r\n\"jsonrpc\":\"2.0\",\r\"id\":\n1,\"result\":{\"t\":\"a\\r\\nb\u2028\",\n\"l\":[1,\r2]}}\r\n"
	out := AppendEvent(AppendRetry(nil, time.Second), "3", []byte(raw))
	if n := strings.Count(string(out), "\n"); n != 4 {
		t.Errorf("%d lines in %q", n, out)
	}
	r := NewReader(strings.NewReader(string(out)), 0)
	e, err := r.Next()
	if err != nil || e.ID != "3" || e.Retry != time.Second {
		t.Fatalf("%+v, %v", e, err)
	}
	var got, want any
	if json.Unmarshal(e.Data, &got) != nil || json.Unmarshal([]byte(raw), &want) != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", e.Data)
	}
	if want := strings.NewReplacer("\r", "", "\n", "").Replace(raw); string(e.Data) != want {
		t.Errorf("more than line ends changed: %q", e.Data)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}
