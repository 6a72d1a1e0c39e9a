package downstream

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

const (
	// linkBytes bounds what waits for a client to read, beside one message.
	linkBytes = 1 << 20
	// eventOverhead is what a queued event is counted for beside its bytes.
	eventOverhead = 512
)

// sseLink is one client of HTTP+SSE: its event stream is its session, and what it
// posts is one conversation, as on standard streams. Its messages are led by a
// clientLink; only how they come and go differs.
type sseLink struct {
	id     string
	caller session.Caller // who opened it
	conv   *clientLink
	s      *Server
	wake   chan struct{} // something is there to do for the stream's writer
	room   *semaphore.Weighted

	mu     sync.Mutex // protects the fields below
	events [][]byte   // messages for the client
	posts  map[*jsonrpc.Message]*linkPost
	closed bool // nothing more is taken
	// until is when the newest token the caller has shown here expires; zero:
	// never.
	until time.Time
}

// linkPost is a request that was posted and has not been answered.
type linkPost struct {
	heard chan session.Out // nil: nobody waits any more; closed: it is under way
	took  reservation
	dues  dues
}

var _ flightWatch = (*sseLink)(nil)

func newSSELink(x *exchange) *sseLink {
	s, caller, ctx := x.s, x.caller, context.WithoutCancel(x.r.Context())
	k := &sseLink{
		caller: caller, s: s, wake: make(chan struct{}, 1),
		room: semaphore.NewWeighted(linkBytes), posts: map[*jsonrpc.Message]*linkPost{},
	}
	k.conv = newClientLink(ctx, linkOptions{
		Hub: s.o.Hub, Who: caller, Post: k.put, Watch: k, Crowded: true, Limited: s.o.Metrics.Limited, Logger: s.o.Logger,
		Tap: s.o.Tap, Transport: translate.TransportSSE, Conn: s.connName("sse"),
		Peer: clientAddr(x.r, s.o.TrustedProxies), Proto: translate.HTTPVersion(x.r.ProtoMajor, x.r.ProtoMinor),
	})
	k.conv.opened = true // a client here hears of a server that is not there by an error
	return k
}

// put takes one message for the client, which nobody changes any more. It waits while the client does not
// read, until its stream is given up.
func (k *sseLink) put(raw []byte) error {
	if err := k.room.Acquire(k.conv.ctx, eventSize(raw)); err != nil {
		return err
	}
	k.mu.Lock()
	k.events = append(k.events, raw)
	k.mu.Unlock()
	k.notify()
	return nil
}

func eventSize(ev []byte) int64 { return min(int64(len(ev))+eventOverhead, linkBytes) }

func (k *sseLink) notify() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest event for the client, nil if there is none.
func (k *sseLink) next() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.events) == 0 {
		return nil
	}
	ev := k.events[0]
	k.events[0] = nil
	k.events = k.events[1:]
	return ev
}

// idle: no request is under way. That a listen stream has none holds nobody up.
func (k *sseLink) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.posts) == 0 && len(k.events) == 0
}

// run leads a message beside others; done is closed once it was handed over. It
// is false where the client has left.
func (k *sseLink) run(f func()) (done chan struct{}, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, false
	}
	done = make(chan struct{})
	k.conv.wg.Go(func() { defer close(done); f() })
	return done, true
}

// begin notes a request and takes over what its body holds of the budget.
func (k *sseLink) begin(m *jsonrpc.Message, took reservation, due dues) <-chan session.Out {
	p := &linkPost{heard: make(chan session.Out, 1), took: took, dues: due}
	k.mu.Lock()
	k.posts[m] = p
	k.mu.Unlock()
	k.s.enter()
	return p.heard
}

// heard implements flightWatch: the post is answered once its request is under
// way, or with a status where that is all there is to say.
func (k *sseLink) heard(f *flight, out session.Out) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.posts[f.msg]
	if p == nil || p.heard == nil {
		return false
	}
	told := out.Final && out.Raw == nil && out.Status >= 400
	if told {
		p.heard <- out
	}
	close(p.heard)
	p.heard = nil
	return told
}

// accept says that the post is answered now: its request's end goes to the
// stream, whatever it is. It is false where a status came just before.
func (k *sseLink) accept(m *jsonrpc.Message) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.posts[m]
	if p == nil || p.heard == nil {
		return false
	}
	p.heard = nil
	return true
}

// over implements flightWatch.
func (k *sseLink) over(f *flight) { k.end(f.msg) }

// end forgets a request, once.
func (k *sseLink) end(m *jsonrpc.Message) {
	k.mu.Lock()
	p := k.posts[m]
	delete(k.posts, m)
	if p != nil && p.heard != nil {
		close(p.heard)
		p.heard = nil
	}
	k.mu.Unlock()
	if p == nil {
		return
	}
	p.took.release()
	p.dues.letGo()
	k.s.leave()
	k.notify()
}

// flies says whether m is under way.
func (k *sseLink) flies(m *jsonrpc.Message) bool {
	k.conv.mu.Lock()
	defer k.conv.mu.Unlock()
	f := k.conv.flying[m.ID.Key()]
	return f != nil && f.msg == m
}

// as is the caller of one message: whose session it is does not change, its
// credential may, and with it how long the link is let be.
func (k *sseLink) as(c session.Caller, until time.Time) {
	k.conv.mu.Lock()
	k.conv.who = c
	k.conv.mu.Unlock()
	k.mu.Lock()
	if until.After(k.until) {
		k.until = until
	}
	k.mu.Unlock()
}

// expires is when the link ends; zero: of itself never.
func (k *sseLink) expires() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.until
}

func (k *sseLink) batches() bool {
	k.conv.mu.Lock()
	defer k.conv.mu.Unlock()
	f, ok := translate.Lookup(k.conv.legacy.version)
	return ok && f.Batch
}

func (k *sseLink) hasSession() bool { return k.conv.legacyCaller().Session != "" }

// close ends the session of a client that has left: nobody can come back to
// what is under way, so it is cancelled, except that tasks live on (2024-11-05
// basic/transports: the client ends the connection by closing its stream).
func (k *sseLink) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.conv.mu.Lock()
	var cancels [][]byte
	for _, f := range k.conv.flying {
		if f.caller.Session != "" && !f.msg.At("params", "task").Exists() {
			params := jsonrpc.NewObject().Raw("requestId", f.id.Raw()).Str("reason", "the client closed its stream").Bytes()
			cancels = append(cancels, jsonrpc.NewNotification("notifications/cancelled", params))
		}
	}
	k.conv.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.conv.ctx), goodbyeFor)
	defer cancel()
	for _, raw := range cancels {
		m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
		if err != nil {
			continue
		}
		stream := k.s.o.Hub.NewStream()
		k.s.o.Hub.Client(ctx, k.conv.inbound(stream.ID, m, k.conv.legacyCaller(), http.MethodPost), stream)
		stream.Gone()
	}
	k.conv.end(errClientEnded)
	k.conv.leave()
	k.mu.Lock()
	left := slices.Collect(maps.Keys(k.posts))
	k.mu.Unlock()
	for _, m := range left {
		k.end(m)
	}
}
