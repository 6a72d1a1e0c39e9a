package capture

import (
	"bufio"
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// The forms other programs keep traffic in, as Header.Settings["imported"]
// names them.
const (
	formLines    = "JSON-RPC lines"
	formSnoop    = "mcpsnoop JSONL"
	formPorter   = "mcporter NDJSON"
	formHAR      = "HAR"
	formArray    = "JSON array"
	formProtocol = "MCP Inspector protocol export"
	formNetwork  = "MCP Inspector network export"
)

// imported reads a form that is not ours. What it holds is one leg, between a
// client and a server; credentials are not taken over, and sessions and callers
// get names of their own.
type imported struct {
	header  Header
	more    func() ([]Record, error) // the next records, in any order; io.EOF at the end
	line    func() int
	waiting byTime // an answer stands beside its request, but came later
	ended   error
	end     *End
	count   int

	names map[string]string // sessions and callers by what they were
	seen  map[string]int    // how many of each kind
}

var _ Source = (*imported)(nil)

func newImported(form string) *imported {
	return &imported{
		header: Header{Kind: kind, Format: Format, By: form, Settings: map[string]string{"imported": form}},
		names:  map[string]string{}, seen: map[string]int{},
	}
}

func (s *imported) Header() Header { return s.header }
func (s *imported) End() *End      { return s.end }
func (s *imported) Line() int      { return s.line() }

// Next implements Source: records come in the order of their times.
func (s *imported) Next() (Record, error) {
	for s.ended == nil && !s.waiting.ready() {
		records, err := s.more()
		_, bad := errors.AsType[*FormatError](err)
		if err != nil && !bad {
			s.ended = err
			break
		}
		for _, r := range records {
			s.waiting.add(r)
		}
		s.waiting.settle(records)
		if bad {
			return Record{}, err
		}
	}
	if s.waiting.Len() > 0 {
		s.count++
		return s.waiting.next(), nil
	}
	if s.ended == io.EOF {
		s.end = &End{Records: s.count}
	}
	return Record{}, s.ended
}

// name is what a session or a caller is called here: what it was opens something.
func (s *imported) name(kind, secret string) string {
	if secret == "" {
		return ""
	}
	key := kind + secret
	if s.names[key] == "" {
		s.seen[kind]++
		s.names[key] = kind + strconv.Itoa(s.seen[kind])
	}
	return s.names[key]
}

// byTime holds records back until no earlier one can come.
type byTime struct {
	list   []dated
	n      int
	newest time.Time // nothing that begins earlier comes any more
}

type dated struct {
	Record
	n int
}

func (b *byTime) Len() int { return len(b.list) }
func (b *byTime) Less(i, j int) bool {
	x, y := &b.list[i], &b.list[j]
	if x.Time.Equal(y.Time) {
		return x.n < y.n
	}
	return x.Time.Before(y.Time)
}
func (b *byTime) Swap(i, j int) { b.list[i], b.list[j] = b.list[j], b.list[i] }
func (b *byTime) Push(x any)    { b.list = append(b.list, x.(dated)) }
func (b *byTime) Pop() any {
	last := b.list[len(b.list)-1]
	b.list = b.list[:len(b.list)-1]
	return last
}

func (b *byTime) add(r Record) {
	b.n++
	heap.Push(b, dated{r, b.n})
}

// settle: what comes later begins no earlier than the first of records did.
func (b *byTime) settle(records []Record) {
	if len(records) > 0 && records[0].Time.After(b.newest) {
		b.newest = records[0].Time
	}
}

func (b *byTime) ready() bool { return len(b.list) > 0 && !b.list[0].Time.After(b.newest) }

func (b *byTime) next() Record { return heap.Pop(b).(dated).Record }

// messagesOf reads what stands where a message does: one, or an array of them
// (2025-03-26 basic, Batching).
func messagesOf(raw []byte) ([][]byte, error) {
	if _, err := jsonrpc.Decode(raw, jsonrpc.Limits{}); err == nil {
		return [][]byte{bytes.TrimSpace(raw)}, nil
	} else if err != jsonrpc.ErrBatch {
		return nil, notMessage(err)
	}
	batch, err := jsonrpc.DecodeBatch(raw, jsonrpc.Limits{})
	if err != nil {
		return nil, notMessage(err)
	}
	out := make([][]byte, len(batch))
	for i, m := range batch {
		out[i] = m.Raw
	}
	return out, nil
}

func notMessage(err error) error {
	if de, ok := errors.AsType[*jsonrpc.DecodeError](err); ok {
		return fmt.Errorf("not a JSON-RPC message: %s", de.Msg)
	}
	return err
}

// protocolHeaders keeps of headers what a capture does.
func (s *imported) protocolHeaders(r *Record, each func(yield func(name, value string))) {
	each(func(name, value string) {
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		switch {
		case name == "Authorization":
			r.Principal = s.name("p", value)
			return
		case !KeptHeader(name):
			return
		case name == translate.HeaderSession:
			value = s.name("s", value)
			r.Session = value
		case name == "Www-Authenticate":
			value = CleanChallenge(value)
		}
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Add(name, value)
	})
}

// when reads a time as other programs write it: RFC 3339, or a number of
// seconds, milliseconds, microseconds or nanoseconds since 1970.
func when(v jsonrpc.Value) time.Time {
	if text, ok := v.Str(); ok {
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
			if t, err := time.Parse(layout, text); err == nil {
				return t.UTC()
			}
		}
		return time.Time{}
	}
	f, ok := v.Float()
	if !ok || f <= 0 || f > 9e18 {
		return time.Time{}
	}
	switch {
	case f < 1e11:
		f *= 1e9
	case f < 1e14:
		f *= 1e6
	case f < 1e17:
		f *= 1e3
	}
	if f > math.MaxInt64 {
		return time.Time{}
	}
	return time.Unix(0, int64(f)).UTC()
}

// after is t and ms milliseconds; no duration of a peer's makes it run over.
func after(t time.Time, ms float64) time.Time {
	if !(ms > 0) || ms > 1e9 { // eleven days
		return t
	}
	return t.Add(time.Duration(ms * float64(time.Millisecond)))
}

// anyForm looks at the beginning of a file and reads it in its form.
func anyForm(br *bufio.Reader) (Source, error) {
	head, err := br.Peek(br.Size())
	switch {
	case len(head) > 0 || err == nil || err == io.EOF: // an error behind it comes again
	case err == errDamaged:
		return nil, &FormatError{1, err}
	default:
		return nil, err
	}
	if bom := []byte("\xef\xbb\xbf"); bytes.HasPrefix(head, bom) {
		_, _ = br.Discard(len(bom)) // it was read already
		head = head[len(bom):]
	}
	text := bytes.TrimLeft(head, " \t\r\n")
	line, _, _ := bytes.Cut(text, []byte("\n"))
	switch {
	case len(text) > 0 && text[0] == '[':
		return newArray(br), nil
	case bytes.Contains(line, []byte(kind)) || len(text) == 0:
		return NewReader(br)
	case firstName(text) == "log":
		return newHAR(br), nil
	case len(text) > 0 && text[0] == '{':
		s, err := newLines(br)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	return nil, &FormatError{1, errors.New("neither a capture of taskbridge nor any form that can be imported: JSON-RPC lines with a direction, HAR, exports of MCP Inspector, mcpsnoop and mcporter")}
}

// firstName is the name of an object's first member, as far as it is plain.
func firstName(text []byte) string {
	rest, ok := bytes.CutPrefix(text, []byte("{"))
	if !ok {
		return ""
	}
	rest, ok = bytes.CutPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(`"`))
	name, _, found := bytes.Cut(rest, []byte(`"`))
	if !ok || !found {
		return ""
	}
	return string(name)
}
