package capture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// lineImport reads lines of JSON, each with a message and the direction it went.
// Three forms are read alike, line by line:
//
//   - mcpsnoop's: direction c2s or s2c, raw;
//   - mcporter's: a message with a member _meta more, whose dir is send or recv;
//   - anybody's: a member that names the direction and one that holds the message.
type lineImport struct {
	*imported
	lineReader
	last time.Time
	over bool
}

func newLines(br *bufio.Reader) (*lineImport, error) {
	s := &lineImport{imported: newImported(formLines), lineReader: newLineReader(br)}
	s.more = s.records
	s.imported.line = func() int { return s.lineReader.line }
	line, err := s.next()
	if err == io.EOF {
		return nil, &FormatError{1, errors.New("the file is empty")}
	}
	if err != nil {
		return nil, err
	}
	// The first line tells the form. It is read again as a record.
	first, err := s.read(line)
	if err != nil {
		return nil, &FormatError{s.lineReader.line, err}
	}
	if v, e := jsonrpc.ParseValue(line); e == nil {
		s.form(v)
	}
	again := s.more
	s.more = func() ([]Record, error) {
		s.more = again
		return first, nil
	}
	return s, nil
}

// Line implements Source.
func (s *lineImport) Line() int { return s.lineReader.line }

func (s *lineImport) form(v jsonrpc.Value) {
	form := formLines
	switch {
	case v.Get("_meta").Get("dir").Exists():
		form = formPorter
	case v.Get("session_id").Exists() && v.Get("direction").Exists():
		form = formSnoop
	}
	s.header.By, s.header.Settings["imported"] = form, form
}

func (s *lineImport) records() ([]Record, error) {
	if s.over {
		return nil, ErrNotWhole
	}
	line, err := s.next()
	if err != nil {
		_, s.over = errors.AsType[*FormatError](err) // nothing can be read behind it
		return nil, err
	}
	records, err := s.read(line)
	switch {
	case err != nil && s.cut:
		return nil, ErrNotWhole // its writer was stopped in the middle of a line
	case err != nil:
		return nil, &FormatError{s.lineReader.line, err}
	}
	return records, nil
}

var errNoForm = errors.New("neither a capture of taskbridge nor a line with a JSON-RPC message and its direction (direction, dir, from or type beside message, msg, payload, data or raw)")

func (s *lineImport) read(line []byte) ([]Record, error) {
	v, err := jsonrpc.ParseValue(line)
	if err != nil {
		return nil, fmt.Errorf("not JSON that can be read: %s", err.(*jsonrpc.DecodeError).Msg)
	}
	r := Record{Leg: translate.ClientLeg, Transport: translate.TransportStdio, Line: s.lineReader.line}
	var messages [][]byte
	var skip bool
	if meta := v.Get("_meta"); v.Get("jsonrpc").Exists() && meta.Get("dir").Exists() {
		messages, skip, err = porter(&r, v, meta)
	} else {
		messages, skip, err = s.wrapped(&r, v)
	}
	if err != nil || skip {
		return nil, err
	}
	if r.Time.IsZero() {
		r.Time = s.last // it came no earlier
	}
	s.last = r.Time
	if r.Conn == "" {
		r.Conn = "imported"
	}
	if len(messages) == 0 {
		return []Record{r}, nil
	}
	records := make([]Record, len(messages))
	for i, m := range messages {
		records[i] = r
		records[i].Msg = m
	}
	return records, nil
}

// porter reads a line of mcporter's.
func porter(r *Record, v, meta jsonrpc.Value) (messages [][]byte, skip bool, err error) {
	dir, _ := meta.Get("dir").Str()
	if dir == "lifecycle" {
		return nil, true, nil
	}
	if r.Dir = direction(dir); r.Dir == 0 {
		return nil, false, fmt.Errorf("_meta.dir %q: want send or recv", clip(dir))
	}
	r.Conn, _ = meta.Get("server").Str()
	r.Time = when(meta.Get("ts"))
	e := v.Edit()
	e.Delete(v.Get("_meta"))
	messages, err = messagesOf(e.Bytes())
	return messages, false, err
}

// The names under which lines hold what is wanted, the likeliest first.
var (
	messageNames   = []string{"message", "msg", "payload", "raw", "data", "body", "frame", "json", "jsonrpc_message"}
	directionNames = []string{"direction", "dir", "from", "source", "sender", "origin", "type", "kind", "event", "to"}
	timeNames      = []string{"timestamp", "ts", "time", "at", "date"}
	connNames      = []string{"session_id", "sessionId", "connection", "conn", "server", "server_label"}
)

// wrapped reads a line with a message in it.
func (s *lineImport) wrapped(r *Record, v jsonrpc.Value) (messages [][]byte, skip bool, err error) {
	if v.Type() != jsonrpc.Object {
		return nil, false, errNoForm
	}
	word, _ := v.Get("direction").Str()
	if word == "stderr" || word == "meta" || word == "lifecycle" { // mcpsnoop's beside the messages
		return nil, true, nil
	}
	raw, holder := messageIn(v)
	status := v.Get("status")
	if raw == nil && !(status.Exists() && word != "") {
		return nil, false, errNoForm
	}
	if holder == "" && v.Get("jsonrpc").Exists() && directionOf(v) == 0 {
		return nil, false, errors.New("a JSON-RPC message without the direction it went; add a member such as \"dir\":\"send\" around it")
	}
	if r.Dir = directionOf(v); r.Dir == 0 {
		return nil, false, errNoForm
	}
	for _, name := range timeNames {
		if r.Time = when(v.Get(name)); !r.Time.IsZero() {
			break
		}
	}
	for _, name := range connNames {
		if text, ok := v.Get(name).Str(); ok && text != "" {
			r.Conn = s.name("c", text)
			break
		}
	}
	if conn, ok := v.Get("conn_id").Str(); ok && conn != "" {
		r.Conn += "." + s.name("c", conn)
	}
	s.snoopHTTP(r, v)
	if raw == nil {
		return nil, false, nil
	}
	messages, err = messagesOf(raw)
	return messages, false, err
}

// snoopHTTP reads what mcpsnoop says of HTTP around a message.
func (s *lineImport) snoopHTTP(r *Record, v jsonrpc.Value) {
	if !v.Get("transport").Is("http") {
		return
	}
	if n, ok := v.Get("status").Int(); ok && n > 0 && n < 1000 {
		r.Status = int(n)
	}
	set := func(name string, v jsonrpc.Value) {
		if text, ok := v.Str(); ok && text != "" {
			if r.Header == nil {
				r.Header = http.Header{}
			}
			r.Header.Add(name, text)
		}
	}
	set(translate.HeaderMethod, v.Get("mcp_method"))
	set(translate.HeaderName, v.Get("mcp_name"))
	set(translate.HeaderVersion, v.Get("mcp_protocol_version"))
	for p := range v.Get("mcp_param_headers").Elems() {
		if name, _ := p.Get("name").Str(); strings.HasPrefix(http.CanonicalHeaderKey(name), translate.HeaderParamPrefix) {
			set(http.CanonicalHeaderKey(name), p.Get("value"))
		}
	}
	if challenge, ok := v.Get("auth_challenge").Str(); ok && challenge != "" {
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("Www-Authenticate", CleanChallenge(challenge))
	}
}

// messageIn is the message a line holds: an object, an array, or text of one.
func messageIn(v jsonrpc.Value) (raw []byte, name string) {
	for _, name := range messageNames {
		m := v.Get(name)
		switch m.Type() {
		case jsonrpc.Object, jsonrpc.Array:
			if looksRPC(m) {
				return m.Raw(), name
			}
		case jsonrpc.String:
			text, _ := m.Str()
			if t := strings.TrimSpace(text); strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[") {
				return []byte(t), name
			}
		}
	}
	if !v.Get("jsonrpc").Exists() {
		return nil, ""
	}
	// A message with members beside its own.
	e := v.Edit()
	for name, m := range v.Members() {
		switch name {
		case "jsonrpc", "id", "method", "params", "result", "error":
		default:
			e.Delete(m)
		}
	}
	return e.Bytes(), ""
}

func looksRPC(v jsonrpc.Value) bool {
	if v.Type() == jsonrpc.Array {
		for el := range v.Elems() {
			return looksRPC(el)
		}
		return false
	}
	return v.Get("jsonrpc").Exists() || v.Get("method").Type() == jsonrpc.String ||
		v.Get("id").Exists() && (v.Get("result").Exists() || v.Get("error").Exists())
}

// directionOf finds the member that names the direction.
func directionOf(v jsonrpc.Value) translate.Direction {
	for _, name := range directionNames {
		word, ok := v.Get(name).Str()
		if !ok {
			continue
		}
		if name == "to" {
			word = "to-" + word
		}
		if d := direction(word); d != 0 {
			return d
		}
	}
	return 0
}

// direction reads a word for one. Who sends and receives is the client, as long as
// nothing else is said: it is its log.
func direction(word string) translate.Direction {
	w := strings.ToLower(strings.Map(func(r rune) rune {
		switch r {
		case ' ', '_', '-', '>', '→', '.':
			return -1
		}
		return r
	}, word))
	switch w {
	case "c2s", "clienttoserver", "client2server", "clientserver", "toserver", "send", "sent", "sending", "out", "outgoing", "outbound",
		"tx", "write", "client", "request", "req", "upstream":
		return translate.ToServer
	case "s2c", "servertoclient", "server2client", "serverclient", "toclient", "recv", "receive", "received", "receiving", "in", "incoming",
		"inbound", "rx", "read", "server", "response", "resp", "res", "downstream":
		return translate.ToClient
	}
	switch strings.TrimSpace(word) {
	case "→", "->", "-->", ">", ">>", ">>>":
		return translate.ToServer
	case "←", "<-", "<--", "<", "<<", "<<<":
		return translate.ToClient
	}
	return 0
}

// newlineCounter knows the line of any offset in what was read.
type newlineCounter struct {
	r     io.Reader
	at    int64
	lines []int64 // offsets of line ends not passed yet
	line  int     // line ends passed
}

func (c *newlineCounter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	for from := 0; ; {
		i := bytes.IndexByte(p[from:n], '\n')
		if i < 0 {
			break
		}
		c.lines = append(c.lines, c.at+int64(from+i))
		from += i + 1
	}
	c.at += int64(n)
	return n, err
}

// lineOf is the line of an offset, which do not fall.
func (c *newlineCounter) lineOf(offset int64) int {
	i := 0
	for i < len(c.lines) && c.lines[i] < offset {
		i++
	}
	c.line += i
	c.lines = c.lines[i:]
	return c.line + 1
}
