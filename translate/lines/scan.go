package lines

import "taskbridge/translate/jsonrpc"

const (
	maxKey   = 64   // of a top-level member's name as written; longer ones are none of ours
	maxIDLen = 1024 // of an id as written
)

// idScanner finds the top-level id of a message that is too long to be kept.
// It reads bytes once and knows brackets and strings only: what it looks at is
// refused anyway, so a text that is no JSON gives no id or a wrong one, never
// more.
type idScanner struct {
	depth  int
	str    bool // inside a string
	esc    bool // after a backslash
	begun  bool
	key    []byte // of the top-level member being read; nil: a key is expected
	keyEnd bool   // its colon was seen: a value is being read
	long   bool   // the key or the id is too long to be kept

	id     []byte
	ids    int
	method bool
}

// scan reads the next piece.
func (s *idScanner) scan(p []byte) {
	for _, c := range p {
		if s.str {
			s.inString(c)
			continue
		}
		switch c {
		case ' ', '\t', '\r', '\n': // events have line ends
			continue
		case '"':
			s.str = true
			if s.depth == 1 && !s.keyEnd {
				s.key, s.long = s.key[:0], false
			}
			s.keep(c)
		case '{', '[':
			s.depth++
			s.keep(c)
		case '}', ']':
			if s.depth--; s.depth == 0 {
				s.member()
			}
		case ':':
			if s.depth == 1 && !s.keyEnd {
				s.value()
			}
		case ',':
			if s.depth == 1 {
				s.member()
			}
		default:
			s.keep(c)
		}
	}
}

func (s *idScanner) inString(c byte) {
	s.keep(c)
	switch {
	case s.esc:
		s.esc = false
	case c == '\\':
		s.esc = true
	case c == '"':
		s.str = false
	}
}

// keep collects the bytes of a top-level key or of the id.
func (s *idScanner) keep(c byte) {
	if s.long {
		return
	}
	switch {
	case s.depth == 1 && !s.keyEnd:
		if s.long = len(s.key) >= maxKey; !s.long {
			s.key = append(s.key, c)
		}
	case s.keyEnd && s.begun:
		if s.long = len(s.id) >= maxIDLen; !s.long {
			s.id = append(s.id, c)
		}
	}
}

// value: the colon behind a key.
func (s *idScanner) value() {
	s.keyEnd = true
	name := ""
	if v, err := jsonrpc.ParseValue(s.key); err == nil && !s.long {
		name, _ = v.Str()
	}
	s.long = false
	switch name {
	case "id":
		s.ids++
		s.id, s.begun = s.id[:0], true
	case "method":
		s.method = true
	}
}

// member: the end of a top-level member.
func (s *idScanner) member() {
	if s.begun && s.long {
		s.ids++ // it cannot be used
	}
	s.key, s.keyEnd, s.begun, s.long = s.key[:0], false, false, false
}

// found is the id if there is exactly one that can be one.
func (s *idScanner) found() (id jsonrpc.ID, call bool) {
	if s.ids == 1 {
		id, _ = jsonrpc.IDFromRaw(s.id)
	}
	return id, s.method
}
