package downstream

import (
	"strings"
	"sync"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// linkBatch gathers the answers to an array of messages (2025-03-26 basic,
// Batching).
type linkBatch struct {
	mu    sync.Mutex // protects the fields below
	left  int
	parts []string
}

func (s *clientLink) takeBatch(raw []byte) {
	s.mu.Lock()
	version := s.legacy.version
	s.mu.Unlock()
	if f, ok := translate.Lookup(version); !ok || !f.Batch {
		s.refuseLine(raw, jsonrpc.ErrBatch)
		return
	}
	msgs, err := jsonrpc.DecodeBatch(raw, jsonrpc.Limits{})
	if err != nil {
		s.refuseLine(raw, err)
		return
	}
	b := &linkBatch{}
	for _, m := range msgs {
		if m.Kind == jsonrpc.Request {
			b.left++
		}
		if m.Method == "initialize" || m.At("params", "_meta", translate.MetaVersion).Exists() {
			s.refuseLine(raw, &jsonrpc.DecodeError{Code: jsonrpc.CodeInvalidRequest, Msg: "this message cannot be part of a batch"})
			return
		}
	}
	for _, m := range msgs {
		s.message(m, b)
	}
}

// answer writes an answer, or keeps it until all of its batch are there.
func (s *clientLink) answer(b *linkBatch, stream string, raw []byte) {
	s.show(stream, raw)
	if b == nil {
		s.write(raw)
		return
	}
	b.mu.Lock()
	b.parts = append(b.parts, string(raw))
	b.left--
	done := b.left == 0
	b.mu.Unlock()
	if done {
		s.write([]byte("[" + strings.Join(b.parts, ",") + "]"))
	}
}
