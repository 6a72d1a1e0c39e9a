package session

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// While the client of a session listens (2025-11-25 basic/transports, Listening
// for Messages), so does each part of the session at another upstream, on a
// stream of the Route's own. What is said there of tasks, and asked, goes on the
// client's stream; what is said of lists and resources does not, since those the
// client knows are the bound upstream's.

// carriers are the streams a Route has open for parts of sessions.
type carriers struct {
	mu   sync.Mutex // protects the fields below
	open map[carrierKey]*carrier
	// refused are the parts whose server offers no stream, till the client listens
	// anew. One that is forgotten is asked once more.
	refused *lru.Cache[carrierKey, struct{}]
}

func newCarriers() *carriers {
	refused, _ := lru.New[carrierKey, struct{}](warmMax)
	return &carriers{open: map[carrierKey]*carrier{}, refused: refused}
}

// carrierKey is a part of a session.
type carrierKey struct {
	session string
	at      *member
}

type carrier struct{ stop context.CancelFunc }

const (
	// carryTries bounds the tries in a row to open a stream at a server that does
	// not let it; one may still believe that another is open.
	carryTries = 5
	// carryWait is the pause before the next; it doubles with each.
	carryWait = time.Second
)

// carriedNotices are the notifications of another upstream that a session's
// client gets; requests it gets all.
var carriedNotices = []string{"notifications/cancelled", "notifications/progress", "notifications/tasks/status", "notifications/elicitation/complete"}

// listens hears that the client of a session has a stream for what belongs to no
// request, or none any more.
func (rt *Route) listens(home *member, id string, on bool) {
	t := rt.table.Load()
	if len(t.all) < 2 {
		return
	}
	for _, u := range t.all {
		if u == home {
			continue
		}
		if !on {
			rt.carriers.end(carrierKey{id, u})
		} else if sess, ok := u.runner.session(id); ok && sess.Guest != "" && sess.Phase == sessionReady {
			rt.carry(home, u, sess)
		}
	}
}

// carry opens a stream at u for a part of a session, if there is none.
func (rt *Route) carry(home, u *member, part *legacySession) {
	ctx, stop := context.WithCancel(rt.ctx)
	key, c := carrierKey{part.ID, u}, &carrier{stop}
	if !rt.carriers.begin(key, c) {
		stop()
		return
	}
	end := func() {
		stop()
		rt.carriers.over(key, c)
	}
	if !rt.later(func(context.Context) {
		defer end()
		if !rt.carryOn(ctx, home, u, part) {
			rt.carriers.refuse(key, c)
		}
	}) {
		end()
	}
}

// carryOn reads what u says while the client listens; false: u offers no stream.
func (rt *Route) carryOn(ctx context.Context, home, u *member, part *legacySession) bool {
	for tries := 0; tries < carryTries && ctx.Err() == nil; tries++ {
		if tries > 0 {
			sleep(ctx, carryWait<<(tries-1))
		}
		if sess, ok := home.runner.session(part.ID); !ok || !sess.listens() {
			return true // what ended it may have come before it began
		}
		begun, status := rt.carryStream(ctx, home, u, part)
		switch {
		case begun:
			tries = 0
		case status == http.StatusMethodNotAllowed:
			return false
		case status == http.StatusNotFound: // the part has gone; what opens it anew begins anew
			return true
		}
	}
	return true
}

// carryStream reads one stream to its end. begun is false where the server
// refused it.
func (rt *Route) carryStream(ctx context.Context, home, u *member, part *legacySession) (begun bool, status int) {
	s := NewClientStream(rt.proc.next(), rt.bytes)
	defer s.Gone()
	in := Inbound{ours: true, Caller: Caller{Era: translate.Legacy, Principal: part.Principal, Open: part.Open, Session: part.ID}}
	in.Frame = translate.Frame{Leg: translate.ClientLeg, Dir: translate.ToServer, Time: rt.clock.Now(), HTTP: &translate.Envelope{Verb: http.MethodGet, Header: http.Header{}}}
	if !u.take(ctx, in, s) {
		return false, http.StatusNotFound
	}
	for {
		o, ok := s.Next(ctx)
		if ok && carried(o.Raw) {
			home.runner.carryOut(ctx, part.ID, Out{Raw: o.Raw, Asks: o.Asks})
		}
		if !ok || o.Final {
			return begun, o.Status
		}
		begun = true
	}
}

func carried(raw []byte) bool {
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	return err == nil && (m.Kind == jsonrpc.Request || slices.Contains(carriedNotices, m.Method))
}

// carryOut says something of another upstream's on a stream the client listens
// on, rather one that is read now.
func (r *Runner) carryOut(ctx context.Context, id string, o Out) {
	sess, ok := r.session(id)
	if !ok || !sess.listens() {
		r.metrics.Dropped("notice")
		return
	}
	x, list := Exec{r: r}, slices.Concat(sess.Gets, sess.Held)
	stream := list[0]
	for _, other := range list {
		if x.detached(stream) {
			stream = other
		}
	}
	if s := r.localStream(stream); s != nil {
		s.waitRoom(ctx, slowClient)
	}
	r.send(stream, o)
}

// begin says whether c is the only one of its key.
func (l *carriers) begin(key carrierKey, c *carrier) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] != nil || l.refused.Contains(key) {
		return false
	}
	l.open[key] = c
	return true
}

// end stops what carries for a part of a session; another may begin.
func (l *carriers) end(key carrierKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.open[key]; c != nil {
		c.stop()
		delete(l.open, key)
	}
	l.refused.Remove(key)
}

// refuse: c has ended, and another would for the same reason.
func (l *carriers) refuse(key carrierKey, c *carrier) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] == c {
		l.refused.Add(key, struct{}{})
	}
}

// over: c has ended.
func (l *carriers) over(key carrierKey, c *carrier) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] == c {
		delete(l.open, key)
	}
}
