package capture

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/sse"
)

// elements reads the elements of a JSON array one after the other.
type elements struct {
	dec    *json.Decoder
	lines  *newlineCounter
	begun  bool
	member string // of log, for HAR: what stands before the array is passed over
	at     int    // the line the last element began on
}

func newElements(br *bufio.Reader, member string) *elements {
	c := &newlineCounter{r: br}
	return &elements{dec: json.NewDecoder(c), lines: c, member: member, at: 1}
}

// next returns the next element. After a *FormatError nothing more can be read.
func (e *elements) next() (json.RawMessage, error) {
	if !e.begun {
		e.begun = true
		if err := e.open(); err != nil {
			return nil, e.broken(err)
		}
	}
	if !e.dec.More() {
		if _, err := e.dec.Token(); err != nil {
			return nil, e.broken(err)
		}
		return nil, io.EOF
	}
	var raw json.RawMessage
	start := e.dec.InputOffset()
	if err := e.dec.Decode(&raw); err != nil {
		return nil, e.broken(err)
	}
	e.at = e.lines.lineOf(max(start+1, e.dec.InputOffset()-int64(len(raw))))
	return raw, nil
}

// open reads up to the array.
func (e *elements) open() error {
	if e.member == "" {
		_, err := e.dec.Token()
		return err
	}
	for _, want := range []string{"log", e.member} {
		if t, err := e.dec.Token(); err != nil || t != json.Delim('{') {
			return noArray(err, want)
		}
		for {
			if !e.dec.More() {
				return noArray(nil, want)
			}
			name, err := e.dec.Token()
			if err != nil {
				return err
			}
			if name == want {
				break
			}
			var other json.RawMessage
			if err := e.dec.Decode(&other); err != nil {
				return err
			}
		}
	}
	if t, err := e.dec.Token(); err != nil || t != json.Delim('[') {
		return noArray(err, e.member)
	}
	return nil
}

func noArray(err error, name string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("no member %s: not a HAR file", name)
}

// ahead is the offset of what is read next.
func (e *elements) ahead() int64 {
	offset := e.dec.InputOffset()
	rest, _ := io.ReadAll(e.dec.Buffered())
	return offset + int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,"))) + 1
}

// broken: an array that simply ends was cut short.
func (e *elements) broken(err error) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrNotWhole
	}
	if err == errDamaged {
		return &FormatError{e.at, err}
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return &FormatError{e.lines.lineOf(e.ahead()), errors.New("not JSON from here on: " + syntax.Error())}
	}
	return &FormatError{e.at, err}
}

// arrayImport reads a JSON array of entries, or the entries of a HAR file.
type arrayImport struct {
	*imported
	el       *elements
	over     bool
	streams  int
	exchange func(raw json.RawMessage) ([]Record, error)
}

func newArray(br *bufio.Reader) *arrayImport {
	s := &arrayImport{imported: newImported(formArray), el: newElements(br, "")}
	s.exchange, s.more = s.entry, s.records
	s.imported.line = func() int { return s.el.at }
	return s
}

func newHAR(br *bufio.Reader) *arrayImport {
	s := newArray(br)
	s.el = newElements(br, "entries")
	s.called(formHAR)
	s.exchange = s.harEntry
	return s
}

func (s *imported) called(form string) { s.header.By, s.header.Settings["imported"] = form, form }

// Header implements Source; an array's form shows in its first entry.
func (s *arrayImport) Header() Header { return s.header }

func (s *arrayImport) records() ([]Record, error) {
	if s.over {
		return nil, ErrNotWhole
	}
	raw, err := s.el.next()
	if err != nil {
		_, s.over = errors.AsType[*FormatError](err)
		return nil, err
	}
	records, err := s.exchange(raw)
	if err != nil {
		return nil, &FormatError{s.el.at, err}
	}
	for i := range records {
		records[i].Leg, records[i].Line = translate.ClientLeg, s.el.at
	}
	return records, nil
}

// entry reads an entry of one of the Inspector's exports, or of an array of the
// lines lineImport reads.
func (s *arrayImport) entry(raw json.RawMessage) ([]Record, error) {
	v, err := jsonrpc.ParseValue(raw)
	if err != nil || v.Type() != jsonrpc.Object {
		return nil, errors.New("not an entry of an export that is known")
	}
	if v.Get("url").Exists() && v.Get("requestHeaders").Exists() {
		s.called(formNetwork)
		var n networkEntry
		if err := unmarshal(raw, &n); err != nil {
			return nil, err
		}
		return s.networkEntry(&n)
	}
	s.called(formProtocol)
	return s.protocolEntry(v)
}

// protocolEntry reads what the Inspector calls a message: a request carries its
// response.
func (s *arrayImport) protocolEntry(v jsonrpc.Value) ([]Record, error) {
	raw, _ := messageIn(v)
	if raw == nil {
		return nil, errors.New("an entry without a message")
	}
	r := Record{Transport: translate.TransportStdio, Conn: "imported", Time: when(v.Get("timestamp"))}
	msgs, err := messagesOf(raw)
	if err != nil {
		return nil, err
	}
	r.Msg = msgs[0]
	// The member origin is younger than the export; the kind tells enough without
	// it, but for a server's own requests.
	origin, _ := v.Get("origin").Str()
	if r.Dir = direction(origin); r.Dir == 0 {
		if r.Dir = directionOf(v); r.Dir == 0 {
			r.Dir = translate.ToServer
			if m, _ := jsonrpc.Decode(r.Msg, jsonrpc.Limits{}); m.Kind == jsonrpc.Notification && serverSays(m.Method) {
				r.Dir = translate.ToClient
			}
		}
	}
	records := []Record{r}
	if response := v.Get("response"); response.Type() == jsonrpc.Object {
		msgs, err := messagesOf(response.Raw())
		if err != nil {
			return records, err
		}
		answer := r
		answer.Msg, answer.Dir = msgs[0], translate.ToServer+translate.ToClient-r.Dir
		ms, _ := v.Get("duration").Float()
		answer.Time = after(r.Time, ms)
		records = append(records, answer)
	}
	return records, nil
}

// serverSays: notifications only servers send.
func serverSays(method string) bool {
	switch method {
	case "notifications/message", "notifications/resources/updated", "notifications/tasks", "notifications/tasks/status",
		"notifications/subscriptions/acknowledged", "notifications/elicitation/complete":
		return true
	}
	return strings.HasSuffix(method, "/list_changed") && method != "notifications/roots/list_changed"
}

// networkEntry is one of the Inspector's network export.
type networkEntry struct {
	Timestamp       json.RawMessage   `json:"timestamp"`
	Method          string            `json:"method"`
	RequestHeaders  map[string]string `json:"requestHeaders"`
	RequestBody     string            `json:"requestBody"`
	ResponseStatus  int               `json:"responseStatus"`
	ResponseHeaders map[string]string `json:"responseHeaders"`
	ResponseBody    string            `json:"responseBody"`
	Duration        float64           `json:"duration"`
	Category        string            `json:"category"`
}

func (s *arrayImport) networkEntry(n *networkEntry) ([]Record, error) {
	if n.Category == "auth" {
		return nil, nil
	}
	x := webExchange{verb: n.Method, status: n.ResponseStatus, body: []byte(n.RequestBody), reply: []byte(n.ResponseBody)}
	if v, err := jsonrpc.ParseValue(n.Timestamp); err == nil {
		x.began = when(v)
	}
	x.ended = after(x.began, n.Duration)
	each := func(h map[string]string) func(func(string, string)) {
		return func(yield func(string, string)) {
			for name, value := range h {
				yield(name, value)
			}
		}
	}
	x.asked, x.told = each(n.RequestHeaders), each(n.ResponseHeaders)
	for name, value := range n.ResponseHeaders {
		if strings.EqualFold(name, "Content-Type") {
			x.media = value
		}
	}
	return s.web(&x)
}

// harEntry is an entry of HAR 1.2.
type harEntry struct {
	StartedDateTime string  `json:"startedDateTime"`
	Time            float64 `json:"time"`
	Request         struct {
		Method   string      `json:"method"`
		Headers  []harHeader `json:"headers"`
		PostData *struct {
			Text     string `json:"text"`
			Encoding string `json:"encoding"`
		} `json:"postData"`
	} `json:"request"`
	Response struct {
		Status  int         `json:"status"`
		Headers []harHeader `json:"headers"`
		Content struct {
			MimeType string `json:"mimeType"`
			Text     string `json:"text"`
			Encoding string `json:"encoding"`
		} `json:"content"`
	} `json:"response"`
}

type harHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (s *arrayImport) harEntry(raw json.RawMessage) ([]Record, error) {
	var h harEntry
	if err := unmarshal(raw, &h); err != nil {
		return nil, err
	}
	x := webExchange{verb: h.Request.Method, status: h.Response.Status, media: h.Response.Content.MimeType}
	if t, err := time.Parse(time.RFC3339Nano, h.StartedDateTime); err == nil {
		x.began = t.UTC()
	}
	x.ended = after(x.began, h.Time)
	each := func(list []harHeader) func(func(string, string)) {
		return func(yield func(string, string)) {
			for _, one := range list {
				yield(one.Name, one.Value)
			}
		}
	}
	x.asked, x.told = each(h.Request.Headers), each(h.Response.Headers)
	var err error
	if p := h.Request.PostData; p != nil {
		if x.body, err = harText(p.Text, p.Encoding); err != nil {
			return nil, err
		}
	}
	if x.reply, err = harText(h.Response.Content.Text, h.Response.Content.Encoding); err != nil {
		return nil, err
	}
	return s.web(&x)
}

func harText(text, encoding string) ([]byte, error) {
	if encoding != "base64" {
		return []byte(text), nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("a body that says it is base64 and is not")
	}
	return raw, nil
}

// webExchange is one exchange over HTTP.
type webExchange struct {
	verb         string
	status       int
	media        string // of reply
	began, ended time.Time
	asked, told  func(yield func(name, value string))
	body, reply  []byte
}

// web makes records of an exchange, none where it is not of MCP: a browser's
// file holds all it did.
func (s *arrayImport) web(x *webExchange) ([]Record, error) {
	s.streams++
	r := Record{Transport: translate.TransportHTTP, Stream: "x" + strconv.Itoa(s.streams), Dir: translate.ToServer, Verb: strings.ToUpper(x.verb), Time: x.began}
	s.protocolHeaders(&r, x.asked)
	msgs, err := messagesOf(x.body)
	switch r.Verb {
	case http.MethodPost:
		if err != nil && len(r.Header[translate.HeaderSession]) == 0 && len(r.Header[translate.HeaderVersion]) == 0 {
			return nil, nil
		}
	case http.MethodGet:
		if len(r.Header[translate.HeaderSession]) == 0 && !isEvents(x.media) {
			return nil, nil
		}
	case http.MethodDelete:
		if len(r.Header[translate.HeaderSession]) == 0 {
			return nil, nil
		}
	default:
		return nil, nil
	}
	records := spread(r, msgs)
	if x.status == 0 {
		return records, nil
	}
	a := Record{Transport: r.Transport, Stream: r.Stream, Dir: translate.ToClient, Status: x.status, Time: x.ended, Session: r.Session, Principal: r.Principal}
	s.protocolHeaders(&a, x.told)
	return append(records, spread(a, repliesIn(x))...), nil
}

// spread is one record for each message, or one without; what HTTP says stands on
// the first.
func spread(r Record, msgs [][]byte) []Record {
	if len(msgs) == 0 {
		return []Record{r}
	}
	records := make([]Record, len(msgs))
	for i, m := range msgs {
		records[i] = r
		records[i].Msg = m
		if r.Dir == translate.ToClient {
			r.Status, r.Header = 0, nil
		}
	}
	return records
}

func isEvents(media string) bool {
	media, _, _ = strings.Cut(media, ";")
	return strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}

// repliesIn are the messages of a reply: its body's, or its events'.
func repliesIn(x *webExchange) (all [][]byte) {
	if !isEvents(x.media) {
		all, _ = messagesOf(x.reply)
		return all
	}
	events := sse.NewReader(bytes.NewReader(x.reply), len(x.reply)+1)
	for {
		ev, err := events.Next()
		if err != nil {
			return all
		}
		if msgs, err := messagesOf(ev.Data); err == nil {
			all = append(all, msgs...)
		}
	}
}
