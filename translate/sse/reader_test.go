package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readAll gives the events of a stream as text, those too large as well, and the
// error it ended with.
func readAll(r io.Reader, maxEvent int) (events []string, err error) {
	return drain(NewReader(r, maxEvent))
}

func drain(reader *Reader) (events []string, err error) {
	var gone []byte
	reader.Discarded = func(piece []byte) { gone = append(gone, piece...) }
	for {
		e, err := reader.Next()
		tooLarge := &TooLarge{}
		switch {
		case errors.As(err, &tooLarge) && !tooLarge.Endless:
			events = append(events, strings.TrimSpace(fmt.Sprintf("too large busy=%v gone=%q %s", tooLarge.Busy, gone, show(e))))
			gone = nil
		case err != nil:
			return events, err
		default:
			events = append(events, show(e))
		}
	}
}

func show(e Event) string {
	var b strings.Builder
	if e.Type != "" {
		fmt.Fprintf(&b, "event=%s ", e.Type)
	}
	if e.HasID {
		fmt.Fprintf(&b, "id=%s ", e.ID)
	}
	if e.Retry != NoRetry {
		fmt.Fprintf(&b, "retry=%v ", e.Retry)
	}
	if e.HasData {
		fmt.Fprintf(&b, "data=%q", e.Data)
	}
	return strings.TrimSuffix(b.String(), " ")
}

var streams = []struct {
	name, in string
	want     []string
}{
	{"empty", "", nil},
	{"one", "data: {}\n\n", []string{`data="{}"`}},
	{"CR", "data: a\rid: 1\r\rdata: b\r\r", []string{`id=1 data="a"`, `data="b"`}},
	{"CRLF", "data: a\r\nid: 1\r\n\r\ndata: b\r\n\r\n", []string{`id=1 data="a"`, `data="b"`}},
	{"mixed line ends", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\n", []string{`data="a\nb\nc"`, `data="d"`}},
	{"LF CR is two lines", "data: a\n\rdata: b\n\n", []string{`data="a"`, `data="b"`}},
	{"BOM", "\xEF\xBB\xBFdata: a\n\n", []string{`data="a"`}},
	{"BOM and comment", "\xEF\xBB\xBF: hi\ndata: a\n\n", []string{`data="a"`}},
	{"BOM and empty line", "\xEF\xBB\xBF\ndata: a\n\n", []string{`data="a"`}},
	{"BOM and CRLF", "\xEF\xBB\xBF\r\ndata: a\n\n", []string{`data="a"`}},
	{"BOM and colon-less data", "\xEF\xBB\xBFdata\n\n", []string{`data=""`}},
	{"BOM later is a name", "data: a\n\n\xEF\xBB\xBFdata: b\n\n", []string{`data="a"`}},
	{"two BOMs", "\xEF\xBB\xBF\xEF\xBB\xBFdata: b\n\n", nil},
	{"colon-less fields", "data\ndata\nid\n\n", []string{`id= data="\n"`}},
	{"one space is dropped", "data:a\ndata: b\ndata:  c\ndata:\td\n\n", []string{`data="a\nb\n c\n\td"`}},
	{"empty data between", "data: a\ndata:\ndata: b\n\n", []string{`data="a\n\nb"`}},
	{"colon in data", "data::a:b\n\n", []string{`data=":a:b"`}},
	{"comments", ": ping\n\n:\n:x:y\ndata: a\n: in between\ndata: b\n\n", []string{`data="a\nb"`}},
	{"unknown fields", "foo: bar\n datum: x\nDATA: y\nData: y\ndatax: y\nverylongfieldnameindeed: y\ndata: a\n\n", []string{`data="a"`}},
	{"event field", "event: message\ndata: a\n\ndata: b\n\n", []string{`event=message data="a"`, `data="b"`}},
	{"the last event field counts", "event: x\nevent:\ndata: a\n\n", []string{`data="a"`}},
	{"event alone is nothing", "event: ping\n\ndata: a\n\n", []string{`data="a"`}},
	{"priming event", "id: 7\nretry: 500\ndata:\n\n", []string{`id=7 retry=500ms data=""`}},
	{"id alone", "id: 7\n\n", []string{"id=7"}},
	{"empty id", "id:\ndata: a\n\n", []string{`id= data="a"`}},
	{"id with NUL", "id: a\x00b\ndata: a\n\n", []string{`data="a"`}},
	{"id with NUL does not undo", "id: 1\nid: \x00\ndata: a\n\n", []string{`id=1 data="a"`}},
	{"id keeps spaces", "id:  1 \ndata: a\n\n", []string{`id= 1  data="a"`}},
	{"retry alone", "retry: 3000\n\n", []string{"retry=3s"}},
	{"retry zero", "retry: 0\n\n", []string{"retry=0s"}},
	{"retry is clamped", "retry: 99999999999999999999999999999999\n\n", []string{"retry=24h0m0s"}},
	{"retry of other than digits", "retry: -1\nretry: 1.5\nretry: 1e3\nretry:  5\nretry:\nretry: 0x10\ndata: a\n\n", []string{`data="a"`}},
	{"heartbeat", "data: {\"type\":\"heartbeat\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", []string{`data="{\"type\":\"heartbeat\"}"`, `data="{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"`}},
	{"bytes that are no UTF-8 are not ours to judge", "data: \xFF\n\n", []string{`data="\xff"`}},

	// The end of the stream.
	{"no empty line", "data: {\"a\":1}\n", []string{`data="{\"a\":1}"`}},
	{"no line end", "id: 3\ndata: {\"a\":1}", []string{`id=3 data="{\"a\":1}"`}},
	{"CR only", "data: {\"a\":1}\r", []string{`data="{\"a\":1}"`}},
	{"cut data", "data: {\"a\":1", nil},
	{"cut name", "data: {}\n\ndat", []string{`data="{}"`}},
	{"no JSON", "data: hello", nil},
	{"scalar may be cut", "data: 12", nil},
	{"cut id is not taken", "data: {}\nid: 12", []string{`data="{}"`}},
	{"cut retry is not taken", "data: {}\nretry: 12", []string{`data="{}"`}},
	{"id without data", "id: 12\n", nil},
	{"whole over two lines", "data: {\ndata: }", []string{`data="{\n}"`}},
}

func TestReader(t *testing.T) {
	for _, c := range streams {
		t.Run(c.name, func(t *testing.T) {
			for _, way := range []struct {
				name string
				r    io.Reader
			}{
				{"whole", strings.NewReader(c.in)},
				{"byte by byte", iotest.OneByteReader(strings.NewReader(c.in))},
				{"halves", iotest.HalfReader(strings.NewReader(c.in))},
				{"error with the data", iotest.DataErrReader(strings.NewReader(c.in))},
			} {
				got, err := readAll(way.r, 0)
				if err != io.EOF {
					t.Errorf("%s: ended with %v", way.name, err)
				}
				if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
					t.Errorf("%s: got %q, want %q", way.name, got, c.want)
				}
			}
		})
	}
}

// An event is delivered on the byte that completes it: a CR does not wait for the
// LF that may follow.
func TestReaderDoesNotWait(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r"} {
		pr, pw := io.Pipe()
		go pw.Write([]byte("data: a" + end))
		e, err := NewReader(pr, 0).Next()
		if err != nil || string(e.Data) != "a" {
			t.Errorf("%q: %q, %v", end, e.Data, err)
		}
		pr.Close()
	}
}

func TestReaderDataIsTheCallers(t *testing.T) {
	r := NewReader(strings.NewReader("data: first\n\ndata: other\n\n"), 0)
	first, _ := r.Next()
	if _, err := r.Next(); err != nil || string(first.Data) != "first" {
		t.Errorf("%q, %v", first.Data, err)
	}
}

func TestReaderReadError(t *testing.T) {
	broken := errors.New("broken")
	got, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata: {}\n"), iotest.ErrReader(broken)), 0)
	if err != broken || strings.Join(got, " ") != `data="a" data="{}"` {
		t.Error(got, err)
	}
}

func TestReaderFinal(t *testing.T) {
	r := NewReader(strings.NewReader("data: done"), 0)
	r.Final = func(data []byte) bool { return string(data) == "done" }
	if e, err := r.Next(); err != nil || string(e.Data) != "done" {
		t.Error(string(e.Data), err)
	}
	for range 2 {
		if _, err := r.Next(); err != io.EOF {
			t.Error(err)
		}
	}
}

// repeat yields a piece for ever.
type repeat struct {
	piece string
	at    int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], r.piece[r.at:])
		n += c
		r.at = (r.at + c) % len(r.piece)
	}
	return n, nil
}

func TestReaderLimits(t *testing.T) {
	for name, c := range map[string]struct{ first, piece string }{
		"data in one line":   {"data: ", "x"},
		"data in many lines": {"", "data: x\n"},
		"empty data lines":   {"", "data\n"},
		"id":                 {"id: ", "x"},
		"many ids":           {"", "id: 1\n"},
		"event":              {"event: ", "x"},
		"retry":              {"retry: ", "1"},
		"unknown field":      {"foo: ", "x"},
		"field name":         {"", "x"},
		"unknown fields":     {"", "foo: x\n"},
	} {
		r := NewReader(io.MultiReader(strings.NewReader(c.first), &repeat{piece: c.piece}), 1<<20)
		for range 2 { // and it stays so
			if _, err := r.Next(); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, in := range map[string]string{
		"comment line":   ":" + strings.Repeat("x", 5000),
		"comments":       strings.Repeat(":\n", 5000),
		"comment blocks": strings.Repeat(":\n\n", 5000),
		"no-data events": strings.Repeat("event: x\n\n", 5000),
	} {
		got, err := readAll(strings.NewReader(in+"\ndata: a\n\n"), 1000)
		if err != io.EOF || len(got) != 1 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	exact := "data: " + strings.Repeat("x", 95) + "\n\n" // name, data and line end
	if _, err := readAll(strings.NewReader(exact+exact), 100); err != io.EOF {
		t.Error(err)
	}
	if got, err := readAll(strings.NewReader(exact), 99); err != io.EOF || len(got) != 1 || !strings.HasPrefix(got[0], "too large") {
		t.Error(got, err)
	}
	if _, err := readAll(strings.NewReader("id: "+strings.Repeat("x", MaxField)+"\n\n"), 0); err != io.EOF {
		t.Error(err)
	}
}

// What is too large is discarded to its end, its data shown in pieces; what else
// the event says counts, and the rest goes on.
func TestReaderDiscards(t *testing.T) {
	long := strings.Repeat("x", 60)
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"one line", "id: 7\ndata: " + long + "\n\ndata: b\n\n", []string{`too large busy=false gone="` + long + `" id=7`, `data="b"`}},
		{"id behind", "data: " + long + "\nid: 8\r\nretry: 5\r\n\r\ndata: b\n\n", []string{`too large busy=false gone="` + long + `" id=8 retry=5ms`, `data="b"`}},
		{"lines", strings.Repeat("data: 12345\n", 6) + "\ndata: b\n\n", []string{`too large busy=false gone="` + strings.Repeat(`12345\n`, 5) + `12345"`, `data="b"`}},
		{"other fields", "data: a\nfoo: " + long + "\ndata: c\n\ndata: b\n\n", []string{`too large busy=false gone="a\nc"`, `data="b"`}},
		{"comments do not count", "data: a\n: " + long + "\n\n", []string{`data="a"`}},
		{"two", "data: " + long + "\n\ndata: " + long + "\n\ndata: b\n\n", []string{`too large busy=false gone="` + long + `"`, `too large busy=false gone="` + long + `"`, `data="b"`}},
		{"unended", "data: " + long, []string{`too large busy=false gone="` + long + `"`}},
	} {
		for _, way := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			got, err := readAll(way(strings.NewReader(c.in)), 50)
			if err != io.EOF || strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%s: %v\n got %q\nwant %q", c.name, err, got, c.want)
			}
		}
	}
	longID := "id: " + strings.Repeat("y", MaxField+1) + "\ndata: a\n\ndata: b\n\n"
	if got, err := readAll(strings.NewReader(longID), 0); err != io.EOF || strings.Join(got, " ") != `too large busy=false gone="a" data="b"` {
		t.Error(got, err)
	}
	broken := errors.New("broken")
	if got, err := readAll(io.MultiReader(strings.NewReader("data: "+long), iotest.ErrReader(broken)), 50); err != broken || got != nil {
		t.Error("what broke off is not over:", got, err)
	}
}

// Room bounds what an event takes, and what is discarded gives way before more
// is read.
func TestReaderRoom(t *testing.T) {
	var used, most int64
	on := 0
	big := strings.Repeat("x", 300<<10)
	r := NewReader(strings.NewReader("data: small\n\ndata: "+big+"\n\ndata: "+big+big+"\ndata: z\n\ndata: b\n\ndata: "+big+big+big+big+"\n\n"), 1<<20)
	r.Room = func(n int64) bool {
		if used+n > 500<<10 {
			return false
		}
		used += n
		most = max(most, used)
		return true
	}
	r.Discarding = func(begins bool) {
		if begins {
			on, used = on+1, 0
		} else {
			on--
		}
	}
	gone := 0
	r.Discarded = func(p []byte) { gone += len(p) }
	for _, want := range []struct {
		data       int
		busy, over bool
		gone       int
	}{{data: 5}, {data: 300 << 10}, {busy: true, gone: 600<<10 + 2}, {data: 1}, {over: true, gone: 1200 << 10}} {
		gone = 0
		e, err := r.Next()
		tooLarge := &TooLarge{}
		if errors.As(err, &tooLarge) != (want.busy || want.over) || tooLarge.Busy != want.busy || len(e.Data) != want.data || gone != want.gone {
			t.Errorf("%+v: %d bytes, %d gone, %v", want, len(e.Data), gone, err)
		}
		used = 0
	}
	if on != 0 || most == 0 {
		t.Errorf("%d are being discarded; %d bytes at most", on, most)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}

// Priming events and heartbeats: the first has an id, a retry time and no data, so
// there is nothing to parse; the second is data like any other here.
func TestCaseB31_PrimingAndHeartbeats(t *testing.T) {
	r := NewReader(strings.NewReader("id: 7\nretry: 500\ndata:\n\ndata: {\"type\":\"heartbeat\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"), 0)
	e, err := r.Next()
	if err != nil || e.ID != "7" || !e.HasID || e.Retry != 500*time.Millisecond || !e.HasData || len(e.Data) != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	for _, want := range []string{`{"type":"heartbeat"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`} {
		if e, err := r.Next(); err != nil || string(e.Data) != want || e.HasID || e.Retry != NoRetry {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// chunks reads data in pieces whose sizes come from plan.
type chunks struct {
	data, plan []byte
	n          int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	size := 1
	if len(c.plan) > 0 {
		size += int(c.plan[c.n%len(c.plan)])
		c.n++
	}
	n := copy(p, c.data[:min(size, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

// FuzzReader: any chunking gives the same events.
func FuzzReader(f *testing.F) {
	for _, c := range streams {
		f.Add([]byte(c.in), []byte{0, 3, 1})
	}
	f.Add([]byte("id: 1\ndata: "+strings.Repeat("x", 250)+"\ndata: y\n\ndata: z\n\n"), []byte{40, 1})
	f.Add([]byte("data: "+strings.Repeat("x", 900)+"\n\ndata: z\n\n"), []byte{100})
	f.Fuzz(func(t *testing.T, in, plan []byte) {
		const limit = 200
		whole, err1 := readAll(bytes.NewReader(in), limit)
		pieces, err2 := readAll(&chunks{data: in, plan: plan}, limit)
		if err1.Error() != err2.Error() || strings.Join(whole, "\n") != strings.Join(pieces, "\n") {
			t.Errorf("%q: whole %q, %v; in pieces %q, %v", in, whole, err1, pieces, err2)
		}
		if err1 != io.EOF || strings.Contains(strings.Join(whole, "\n"), "too large") {
			return
		}
		if naive, ok := naiveEvents(in); ok && len(naive) <= len(whole) {
			for i := range naive {
				if naive[i] != whole[i] {
					t.Errorf("%q: event %d is %q, want %q", in, i, whole[i], naive[i])
				}
			}
		} else if ok {
			t.Errorf("%q: %q, want %q", in, whole, naive)
		}
	})
}

// naiveEvents reads complete events the plain way, from the standard's text.
func naiveEvents(in []byte) (events []string, ok bool) {
	text := strings.TrimPrefix(string(in), "\xEF\xBB\xBF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	e := Event{Retry: NoRetry}
	var data []string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if e.HasID || e.Retry != NoRetry || data != nil {
				e.Data, e.HasData = []byte(strings.Join(data, "\n")), data != nil
				events = append(events, show(e))
			}
			e, data = Event{Retry: NoRetry}, nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value)
		case "event":
			e.Type = value
		case "id":
			if !strings.Contains(value, "\x00") {
				e.ID, e.HasID = value, true
			}
		case "retry":
			if d, ok := parseRetry([]byte(value)); ok {
				e.Retry = d
			}
		}
	}
	return events, true
}

func BenchmarkReader(b *testing.B) {
	data := []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":5}}`)
	stream := bytes.Repeat(AppendEvent(nil, "12", data), 1000)
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if events, err := countEvents(stream); events != 1000 || err != io.EOF {
			b.Fatal(events, err)
		}
	}
}

func countEvents(stream []byte) (n int, err error) {
	r := NewReader(bytes.NewReader(stream), 0)
	for {
		if _, err = r.Next(); err != nil {
			return n, err
		}
		n++
	}
}
