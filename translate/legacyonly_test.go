package translate

import (
	"net/http"
	"slices"
	"testing"

	"taskbridge/translate/jsonrpc"
)

// What the modern face refuses or swallows because it has no such thing is a
// thing of the legacy dialect alone, and has a row that says so.
func TestLegacyOnlyCoversMethods(t *testing.T) {
	both := []string{ // swallowed, but of both dialects or of every handshake
		"notifications/initialized", "notifications/progress",
	}
	for _, m := range methods {
		frame := Frame{Dir: ToServer, Msg: decodeMessage(t, `{"jsonrpc":"2.0","id":1,"method":"`+m.Method+`"}`)}
		got := LegacyOnlyOf(&frame) != 0
		want := (m.Modern == Refuse || m.Modern == Swallow) && !slices.Contains(both, m.Method)
		if got != want {
			t.Errorf("%s: legacy only is %v, want %v", m.Method, got, want)
		}
	}
}

func TestLegacyOnlyRows(t *testing.T) {
	var all LegacyOnly
	names := map[string]bool{}
	for i, r := range legacyOnly {
		if r.Bit != 1<<i {
			t.Errorf("%s: bit %b is not that of its place", r.Name, r.Bit)
		}
		if names[r.Name] || r.Name == "" || r.What == "" || r.Instead == "" {
			t.Errorf("%s: repeated, or without words", r.Name)
		}
		names[r.Name] = true
		all |= r.Bit
	}
	if want := OnlyHTTPSSE<<1 - 1; all != want {
		t.Error("a constant has no row")
	}
	if got := slices.Collect(all.Names()); !slices.Equal(got, LegacyOnlyNames()) {
		t.Errorf("names %v, want %v", got, LegacyOnlyNames())
	}
}

func TestLegacyOnlyOf(t *testing.T) {
	verb := func(verb string, header http.Header) Frame {
		return Frame{Dir: ToServer, HTTP: &Envelope{Verb: verb, Header: header}}
	}
	said := func(dir Direction, raw string) Frame {
		return Frame{Dir: dir, Msg: decodeMessage(t, raw), HTTP: &Envelope{Verb: http.MethodPost}}
	}
	sse := said(ToServer, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	sse.Transport = TransportSSE
	for name, c := range map[string]struct {
		frame Frame
		want  LegacyOnly
	}{
		"plain call":        {said(ToServer, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`), 0},
		"call as a task":    {said(ToServer, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{}}}`), OnlyTaskParam},
		"answer":            {said(ToServer, `{"jsonrpc":"2.0","id":1,"result":{}}`), 0},
		"tasks/list":        {said(ToServer, `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`), OnlyTasksList},
		"tasks/result":      {said(ToServer, `{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"1"}}`), OnlyTasksResult},
		"tasks/get":         {said(ToServer, `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"1"}}`), 0},
		"stream":            {verb(http.MethodGet, http.Header{}), OnlyGetStream},
		"resumed stream":    {verb(http.MethodGet, http.Header{HeaderLastEvent: {"3"}}), OnlyGetStream | OnlyResume},
		"end of session":    {verb(http.MethodDelete, nil), OnlyEndSession},
		"no HTTP":           {Frame{Dir: ToServer}, 0},
		"not over HTTP":     {Frame{Dir: ToServer, Transport: TransportWebSocket, HTTP: &Envelope{Verb: http.MethodGet}}, 0},
		"question":          {said(ToClient, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`), OnlyServerRequest},
		"notice to client":  {said(ToClient, `{"jsonrpc":"2.0","method":"notifications/message"}`), 0},
		"HTTP+SSE":          {sse, OnlyHTTPSSE},
		"unknown extension": {said(ToServer, `{"jsonrpc":"2.0","id":1,"method":"x/y"}`), 0},
	} {
		if got := LegacyOnlyOf(&c.frame); got != c.want {
			t.Errorf("%s: %v, want %v", name, slices.Collect(got.Names()), slices.Collect(c.want.Names()))
		}
	}
}

func decodeMessage(t testing.TB, raw string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Decode([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func BenchmarkLegacyOnlyOf(b *testing.B) {
	f := Frame{Dir: ToServer, Msg: decodeMessage(b, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{}}}`)}
	b.ReportAllocs()
	for b.Loop() {
		if LegacyOnlyOf(&f) != OnlyTaskParam {
			b.Fatal("wrong set")
		}
	}
}
