package session

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"taskbridge/translate"
)

// Out is one thing to write to a client. The first Out of a stream decides
// its form: Final at once means a plain reply with Status and Header, else an
// event stream is opened with 200 and Header, and Status is ignored later.
type Out struct {
	Raw    []byte // one JSON-RPC message; nil: headers or end only
	Final  bool   // nothing follows
	Status int    // 0 means 200
	Header http.Header
	// Begin opens the event stream although there is no message yet.
	Begin bool
	// EventID and RetryMS are set toward legacy sessions that can resume.
	EventID string
	RetryMS int
	// Kept: Raw is in the stream's log already, as number Kept, put there by the
	// runner that said it.
	Kept uint64 `json:",omitempty"`
	// Asks: Raw is a request to the client; without it nothing goes on.
	Asks bool
	// Of is the session in which Raw asks the client something, or takes that
	// back, and Trace what it is asked in; for observers. Empty: not said.
	Of    string
	Trace TraceContext
}

// eventLog keeps the events of a legacy client's stream, so that the client
// can fetch them again.
type eventLog interface {
	// open begins the log and returns the event that primes the client to
	// resume; ok is false where none can be kept.
	open() (prime Out, ok bool)
	// add keeps o and returns its event id, empty if it is not kept; ours is
	// false once another connection reads what is kept. It is called under the
	// stream's lock: it must not come back to the stream.
	// What o.Kept names is there already.
	add(o Out) (id string, ours bool)
	// over notes that the final Out was added.
	over()
}

// ClientStream is the way back to a client: one per HTTP request (POST or
// GET), one per connection elsewhere. Operations write, one downstream
// handler reads. Send never blocks: past its byte bound the stream is cut and
// the operation goes on without it. A reader of the server that feeds this
// stream alone waits for room first (waitRoom).
type ClientStream struct {
	ID string
	// version is the client's revision where it numbers errors in a way of its
	// own; set before anything is sent.
	version string
	// seen is the request it answers, for observers; nil: nobody observes. Set
	// before anything is sent.
	seen *seen
	// guest marks ids of requests to the client, see guestOut; set before
	// anything is sent.
	guest string
	// edit changes a response on its way, for a Route; set before anything is sent.
	edit func(raw []byte) []byte
	// opens: what it is answered with opens a session, which is nobody's where
	// the client does not hear of it; set before anything is sent.
	opens bool
	// home is the runner whose operations answer.
	home atomic.Pointer[Runner]

	mu     sync.Mutex // protects the fields below
	queue  []Out
	bytes  int
	max    int
	ended  bool          // nothing more is taken: Final was queued, or a bound was passed
	final  bool          // an operation sent Final itself
	heard  bool          // the reader has taken that, and has not said that it is lost
	gone   bool          // reader left
	signal chan struct{} // something was queued
	room   chan struct{} // something was taken
	onGone func()
	watch  func()   // told whenever something was queued; nil: nobody
	log    eventLog // nil: nothing is kept
	logged bool     // what is sent goes into log, reader or none
}

// NewClientStream returns a stream that holds at most max queued bytes beside
// one message (max <= 0: 1 MiB).
func NewClientStream(id string, max int) *ClientStream {
	if max <= 0 {
		max = 1 << 20
	}
	return &ClientStream{ID: id, max: max, signal: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Send queues o and says whether it was taken: false once the stream has
// ended, its reader has left, or its bound is passed (which ends it). What a
// client may come back for is kept all the same.
func (s *ClientStream) Send(o Out) bool {
	if s.version != "" {
		o.Raw = translate.ErrorToClient(o.Raw, s.version)
	}
	if s.guest != "" {
		o.Raw = guestOut(s.guest, o.Raw)
	}
	if s.edit != nil && o.Final && o.Raw != nil {
		o.Raw = s.edit(o.Raw)
	}
	s.mu.Lock()
	kept := s.logged && !s.final
	ours := true
	if kept {
		o.EventID, ours = s.log.add(o)
	}
	if !ours && !s.ended {
		s.replaced()
	}
	taken := !s.ended && !s.gone
	switch {
	case !taken:
	case s.bytes > 0 && s.bytes+len(o.Raw) > s.max:
		s.cut()
		taken = false
	default:
		s.queue = append(s.queue, o)
		s.bytes += len(o.Raw)
		s.ended = o.Final
	}
	if o.Final && (taken || kept) {
		s.final = true
	}
	watch := s.watch
	s.mu.Unlock()
	if taken {
		notify(s.signal)
		if watch != nil {
			watch()
		}
	}
	if kept && o.Final {
		s.log.over()
	}
	if o.Asks {
		s.seen.asks()
	}
	if o.Final && (taken || kept) {
		s.seen.end(o)
	}
	return taken || kept
}

// OpenEvents says that the reply is an event stream from now on. Where the
// client may come back for its events they have ids from here on: those still
// queued, and first, which was taken from the stream but not written yet (nil:
// none). prime, if ok, is to be written before anything else.
func (s *ClientStream) OpenEvents(first *Out) (prime Out, ok bool) {
	if s.log == nil {
		return Out{}, false
	}
	if prime, ok = s.log.open(); !ok {
		return Out{}, false
	}
	s.mu.Lock()
	s.logged = true
	final := s.final
	if first != nil {
		first.EventID, _ = s.log.add(*first)
	}
	for i := range s.queue {
		s.queue[i].EventID, _ = s.log.add(s.queue[i])
	}
	s.mu.Unlock()
	if final {
		s.log.over()
	}
	return prime, true
}

// away says whether the stream outlives its reader: events are kept and the
// last one has not come.
func (s *ClientStream) away() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged && !s.final
}

// drop ends the reader's side alone; taken as in Cut.
func (s *ClientStream) drop(taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
	case taken:
		s.replaced()
	default:
		s.cut()
	}
}

// replaced ends a stream that another connection goes on with: what was not
// written yet is told there. It needs s.mu.
func (s *ClientStream) replaced() {
	clear(s.queue)
	s.queue, s.bytes = s.queue[:0], 0
	s.cut()
}

// cut ends a stream whose reader is too slow; it needs s.mu.
func (s *ClientStream) cut() {
	s.ended = true
	s.queue = append(s.queue, Out{Final: true})
	notify(s.signal)
	if s.watch != nil {
		s.watch()
	}
}

// notify sets a one-place signal.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// waitRoom holds a writer of its own back until the reader has taken most of
// what is queued. Past limit the stream is cut.
func (s *ClientStream) waitRoom(ctx context.Context, limit time.Duration) {
	var timeout <-chan time.Time
	for {
		s.mu.Lock()
		if s.bytes <= s.max/2 || s.ended || s.gone {
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if timeout == nil {
			t := time.NewTimer(limit)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-s.room:
		case <-timeout:
			s.mu.Lock()
			if !s.ended {
				s.cut()
			}
			s.mu.Unlock()
			return
		case <-ctx.Done():
			return
		}
	}
}

// Next waits for the next Out. ok is false when nothing more will come or ctx
// is done (its cause is then ctx's).
func (s *ClientStream) Next(ctx context.Context) (o Out, ok bool) {
	o, ok, _ = s.NextBefore(ctx, nil, nil)
	return o, ok
}

// NextOn is Next by a clock's measure: work of that clock may wait in it. It
// ends with ctx, which is one of the clock's.
func (s *ClientStream) NextOn(ctx context.Context, c Clock) (o Out, ok bool) {
	gate := c.Gate()
	s.mu.Lock()
	s.watch = gate.Open
	s.mu.Unlock()
	stop := c.OnCancel(ctx, gate.Open)
	defer stop()
	for {
		if o, ok, over := s.take(); ok || over || ctx.Err() != nil {
			return o, ok
		}
		gate.Wait()
	}
}

// take is Next without waiting; over: nothing will come any more.
func (s *ClientStream) take() (o Out, ok, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return Out{}, false, s.ended || s.gone
	}
	o = s.queue[0]
	s.queue[0] = Out{}
	s.queue = s.queue[1:]
	s.bytes -= len(o.Raw)
	s.heard = o.Final && s.final
	notify(s.room)
	return o, true, false
}

// NextBefore is Next that stops waiting, too, when timeout fires, which
// timedOut reports, or when stop is closed. It spares its caller a context for
// each wait.
func (s *ClientStream) NextBefore(ctx context.Context, timeout <-chan time.Time, stop <-chan struct{}) (o Out, ok, timedOut bool) {
	for {
		if o, ok, over := s.take(); ok || over {
			return o, ok, false
		}
		select {
		case <-s.signal:
		case <-timeout:
			return Out{}, false, true
		case <-stop:
			return Out{}, false, false
		case <-ctx.Done():
			return Out{}, false, false
		}
	}
}

// Gone tells operations that the reader has left: the client closed its side.
// It is called once by the downstream handler after its last Next.
func (s *ClientStream) Gone() {
	s.mu.Lock()
	was := s.gone
	s.gone = true
	f := s.onGone
	s.mu.Unlock()
	notify(s.room)
	if !was && f != nil {
		f()
	}
}

// Lost says that the final Out was taken and did not reach the client. It is
// called before Gone.
func (s *ClientStream) Lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = false
}

// Unheard says whether the reader has left without the final Out.
func (s *ClientStream) Unheard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone && !s.heard
}

// finished says whether the final Out was queued, so that nobody needs to
// hear that the reader left.
func (s *ClientStream) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.final
}

// Inbound is one message of a client as a downstream transport hands it over:
// already decoded, its era decided, its caller known.
type Inbound struct {
	Caller Caller
	Frame  translate.Frame // Leg ClientLeg, Dir ToServer; Msg nil for GET and DELETE
	Batch  bool            // it came in an array of messages

	ours  bool          // a Route's own message, nobody's request
	guest *guestSession // of a Route's own initialize
}

// Caller is who stands on the client's side of a message.
type Caller struct {
	Principal Principal
	// Open: no credential was seen on a listener where callers cannot be told
	// apart; tasks.list is not offered.
	Open bool
	// Address is the peer's address, cut to the network one host owns (IPv6:
	// /64); limits count by it where callers cannot be told apart.
	Address string
	Era     translate.Era
	// Version is the modern _meta version, or the legacy header's (may be
	// empty: the session's own counts).
	Version string
	// Session is the legacy Mcp-Session-Id as the client sent it.
	Session string
	// look: a Route asks whether this server knows a task by an id of its own.
	look bool
	// Credential is what goes upstream on the caller's behalf.
	Credential http.Header
	// Header holds the listed request headers that go up with this message.
	Header http.Header
}
