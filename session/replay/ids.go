package replay

import (
	"context"
	"sync"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// ids are the tasks made here, by the ids their models have in the capture.
type ids struct {
	mu    sync.Mutex // protects made
	made  map[string]string
	known map[string]chan struct{} // closed when it is certain what made holds
}

func newIDs(p *Plan) *ids {
	s := &ids{made: map[string]string{}, known: map[string]chan struct{}{}}
	for id, step := range p.makers {
		if step.Send {
			s.known[id] = make(chan struct{})
		}
	}
	return s
}

// put notes the task made in place of recorded; an empty id: none was.
func (s *ids) put(recorded, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known[recorded]
	if c == nil {
		return
	}
	select {
	case <-c:
		return // it is known already
	default:
	}
	if id != "" {
		s.made[recorded] = id
	}
	close(c)
}

// get is the task made in place of recorded, once that is certain. Without one
// it is recorded itself.
func (s *ids) get(ctx context.Context, recorded string) string {
	if c := s.known[recorded]; c != nil {
		select {
		case <-c:
		case <-ctx.Done():
			return recorded
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := s.made[recorded]; ok {
		return id
	}
	return recorded
}

// recorded is get's inverse: the task an id made here stands for, or "".
func (s *ids) recorded(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for was, is := range s.made {
		if is == id {
			return was
		}
	}
	return ""
}

// edits begins the edit of a message of the client's: its task ids are those of
// the tasks made here. Nothing but what a rule names is looked at: an id inside
// a tool's arguments is the tool's own.
func (s *ids) edits(ctx context.Context, m *jsonrpc.Message, method string) *jsonrpc.Edit {
	e := m.Edit()
	for _, v := range translate.Facts(m, method).TaskIDs {
		old, _ := v.Str()
		if id := s.get(ctx, old); id != old {
			e.Replace(v, jsonrpc.Quote(id))
		}
	}
	return e
}
