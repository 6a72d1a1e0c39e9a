package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
)

func sample() []Record {
	at := time.Date(2026, 11, 30, 10, 0, 0, 5000, time.UTC)
	return []Record{
		{Time: at, Leg: translate.ClientLeg, Dir: translate.ToServer, Transport: "http", Stream: "s1", Session: "h1", Principal: "p",
			Verb: "POST", Header: http.Header{"Mcp-Method": {"tools/call"}}, Msg: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a,\"msg\":"}}`)},
		{Time: at, Dropped: 3},
		{Time: at, Leg: translate.ServerLeg, Dir: translate.ToClient, Transport: "stdio", Conn: "c", Stream: "s1", Status: 200, Redacted: []string{"secrets"}, Msg: []byte(`{"jsonrpc":"2.0","id":1,"result":{"x":1.0}}`)},
		{Time: at, Leg: translate.ClientLeg, Dir: translate.ToClient, Transport: "http", Stream: "s2", Status: 401},
	}
}

func written(t *testing.T, records []Record, whole bool) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{By: "taskbridge test", Settings: map[string]string{"upstream": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if whole {
		if err := w.Close(false); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestThereAndBack(t *testing.T) {
	want := sample()
	r, err := NewReader(strings.NewReader(written(t, want, true)))
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range want {
		got, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		w.Line = i + 2
		if !reflect.DeepEqual(got, w) {
			t.Errorf("record %d\n got %+v\nwant %+v", i, got, w)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last: %v", err)
	}
	if e := r.End(); e == nil || e.Records != 4 || e.Dropped != 3 {
		t.Errorf("end %+v", e)
	}
}

func TestNotWhole(t *testing.T) {
	whole := written(t, sample(), false)
	r, err := NewReader(strings.NewReader(whole[:len(whole)-10]))
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, err = r.Next()
		if _, ok := errors.AsType[*FormatError](err); !ok && err != nil {
			break
		}
	}
	if !errors.Is(err, ErrNotWhole) {
		t.Errorf("got %v, want ErrNotWhole", err)
	}
}

func TestForeignFiles(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "line 1: the file is empty"},
		{"{\"log\":{\"entries\":[]}}\n", "line 1: not a capture of taskbridge"},
		{"not json\n", "line 1: not a capture of taskbridge"},
		{`{"capture":"taskbridge-capture","format":9}`, "line 1: format 9 is newer than this program"},
		{`{"capture":"taskbridge-capture"}`, "line 1: format 0"},
	} {
		_, err := NewReader(strings.NewReader(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

func TestBadLines(t *testing.T) {
	first := written(t, nil, false)
	for _, c := range []struct{ text, want string }{
		{"{\"time\":", "line 2: not JSON"},
		{`{"time":"2026-11-30T10:00:00Z","leg":"left","dir":"to-server"}`, `line 2: leg "left": want client or server`},
		{`{"time":"2026-11-30T10:00:00Z","leg":"client","dir":"up"}`, `line 2: dir "up": want to-server or to-client`},
		{`{"capture":"taskbridge-capture","format":1}`, "line 2: another capture begins here"},
		{"{\"end\":{}}\n{}", "line 3: stands behind the capture's last line"},
	} {
		r, err := NewReader(strings.NewReader(first + c.text + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = r.Next(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

// Members in another order are read too: other programs write captures.
func TestAnyOrder(t *testing.T) {
	r, _, err := ParseLine([]byte(`{"msg":{"a":[1,"}"]},"dir":"to-client","leg":"server","time":"2026-11-30T10:00:00Z"}`))
	if err != nil || string(r.Msg) != `{"a":[1,"}"]}` || r.Leg != translate.ServerLeg {
		t.Errorf("%+v %v", r, err)
	}
}

// What is written by hand is what encoding/json would write.
func TestHeadIsJSON(t *testing.T) {
	for _, r := range append(sample(), Record{
		Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)), Leg: translate.ServerLeg, Dir: translate.ToClient,
		Conn: "a\"\n", Verb: "GET", Header: http.Header{"B": {"1", "ä\x01"}, "A": {}}, Redacted: []string{"x", "y"},
	}) {
		h := head{
			Time: r.Time, Transport: r.Transport, Conn: r.Conn, Stream: r.Stream, Session: r.Session, Principal: r.Principal,
			Verb: r.Verb, Status: r.Status, Header: r.Header, Redacted: r.Redacted, Dropped: r.Dropped,
		}
		if r.Dropped == 0 {
			h.Leg, h.Dir = r.Leg.String(), r.Dir.String()
		}
		var got, want any
		wanted, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(appendHead(nil, &r), &got); err != nil {
			t.Errorf("%v: %s", err, appendHead(nil, &r))
		}
		if err := json.Unmarshal(wanted, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
