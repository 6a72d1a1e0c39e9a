package session

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"taskbridge/translate/jsonrpc"
)

// Bounds of what is kept of event streams toward legacy clients, so that these
// may resume them (2025-11-25 basic/transports, Resumability and Redelivery).
const (
	resumeEntries = 256     // events of one stream
	resumeBytes   = 1 << 20 // of one stream, beside its newest event
	resumeStreams = 32      // streams of one session
	// overFor is how long a log stays after its end where the client was there
	// for it: it may not have got the last event.
	overFor = time.Minute
	// resumeRetry is how long we ask a client to wait before it comes back.
	resumeRetry = time.Second
)

// clientLog is an event stream toward a legacy client that may be resumed: it
// outlives its connections. Its events are in the store's log; this says whose
// they are and who reads them.
type clientLog struct {
	base
	Stream  string `json:",omitempty"` // also the client stream of the first connection
	Session string `json:",omitempty"`
	Op      OpID   `json:",omitempty"` // answers on the stream
	ID      []byte `json:",omitempty"` // of the request; empty: a GET stream
	// Reader is the client stream of the present connection, if there is one. It
	// alone is written to: what another connection finds out of the store before
	// it writes an event decides, not when its runner hears that it was replaced.
	Reader string   `json:",omitempty"`
	Over   bool     `json:",omitempty"` // the last event is in the log
	Last   uint64   `json:",omitempty"` // the number of the last message then
	Index  string   `json:",omitempty"`
	Asked  []uint64 `json:",omitempty"` // events that are requests to the client
	Guest  string   `json:",omitempty"` // legacySession.Guest
}

// maxAsked bounds the requests to a client that are told apart in a log.
const maxAsked = 64

func logOp(stream string) OpID       { return OpID("log:" + stream) }
func logName(stream string) string   { return "events/" + stream }
func logIndex(session string) string { return "logs/" + session + "/" }

// The values of a log's record in its session's index.
const (
	indexLive = "live"
	indexOver = "over"
)

func (l *clientLog) Step(x *Exec, ev Event) {
	switch {
	case ev.Name == "open" && l.Session == "":
		l.open(x, ev)
	case l.Session == "":
		x.Do(Done{}) // an event for a log that is gone
	case ev.Kind == EvTimer, ev.Name == "drop":
		l.end(x)
	case ev.Name == "op":
		l.Op = OpID(ev.Data)
	case ev.Name == "asked":
		if n, err := strconv.ParseUint(string(ev.Data), 10, 64); err == nil {
			l.Asked = append(l.Asked, n)
			l.Asked = l.Asked[max(0, len(l.Asked)-maxAsked):]
		}
	case ev.Name == "away":
		if l.Reader == string(ev.Data) {
			l.away(x)
		}
	case ev.Name == "resume":
		if l.Reader != "" && l.Reader != string(ev.Data) {
			x.Do(Cut{Stream: l.Reader, Taken: true}) // the newest connection is the one that lives
		}
		l.Reader = string(ev.Data)
		if !l.Over {
			x.Do(Unwake{Name: "expire"})
		}
	case ev.Name == "over":
		if !l.Over {
			if l.Reader != "" {
				x.Do(Wake{Name: "expire", At: x.Now.Add(min(x.Policy.ResumeFor, overFor))})
			}
			l.Over = true
			l.Last, _ = strconv.ParseUint(string(ev.Data), 10, 64)
			x.Do(Put{Key: l.Index, Value: []byte(indexOver)})
		}
	}
}

func (l *clientLog) open(x *Exec, ev Event) {
	if json.Unmarshal(ev.Data, l) != nil || l.Session == "" {
		x.Do(Done{})
		return
	}
	l.Reader = l.Stream
	l.Index = logIndex(l.Session) + hex16(uint64(x.Now.UnixMicro())) + "-" + l.Stream
	x.Do(Put{Key: l.Index, Value: []byte(indexLive)})
}

// away: the client has until a moment from now to come back.
func (l *clientLog) away(x *Exec) {
	l.Reader = ""
	if l.Over {
		return
	}
	x.Do(Wake{Name: "expire", At: x.Now.Add(x.Policy.ResumeFor)})
	if l.Op.Kind() == "ltask" {
		x.Do(Tell{To: l.Op, Name: "away"}) // another stream may take its questions
	}
}

// end drops the log. A client that still reads its first connection is not
// disturbed; one that is away has left for good.
func (l *clientLog) end(x *Exec) {
	first := l.Reader == l.Stream
	if !first && l.Reader != "" {
		x.Do(Cut{Stream: l.Reader})
	}
	x.Do(DropLog{Stream: l.Stream, Live: first && !l.Over}, Del{Key: l.Index})
	if !first && !l.Over && l.Op != "" {
		x.Do(Gone{Op: l.Op, Stream: l.Stream})
	}
	x.Do(Done{})
}

// clientLog reads the log of a stream, if there is one.
func (r *Runner) clientLog(stream string) (*clientLog, bool) {
	l := new(clientLog)
	ok := r.load(logOp(stream), l)
	return l, ok && l.Session != ""
}

// streamLog is the eventLog of one client stream of this runner.
type streamLog struct {
	r       *Runner
	stream  string
	session string
	id      []byte // of the request; nil: a GET stream
	primes  bool   // the client takes an event without data
	guest   string // legacySession.Guest

	token string      // of the event ids; set by open
	dead  atomic.Bool // nothing is kept any more
	given atomic.Bool // the client has an id it may come back with
	last  atomic.Uint64
}

// keepEvents lets a legacy client resume what comes on s. It is called before
// s is handed to its operation.
func (r *Runner) keepEvents(s *ClientStream, sess *legacySession, m *jsonrpc.Message) {
	l := &streamLog{r: r, stream: s.ID, session: sess.ID, primes: sess.primes(), guest: sess.Guest}
	if m != nil {
		l.id = m.ID.Raw()
	}
	s.log = l
}

func (l *streamLog) open() (Out, bool) {
	r := l.r
	r.mu.Lock()
	a := r.streams[l.stream]
	r.mu.Unlock()
	if a == nil || !r.roomForLog(l.session) {
		return Out{}, false
	}
	l.token = r.eventToken(l.session, l.stream, l.id)
	r.makeRoom(l.stream, logCost)
	r.deliver(logOp(l.stream), Event{Kind: EvOp, Name: "open",
		Data: mustJSON(clientLog{Stream: l.stream, Session: l.session, Op: a.op, ID: l.id, Guest: l.guest})})
	if !l.primes {
		return Out{}, true
	}
	l.given.Store(true)
	return Out{EventID: l.token + "0", RetryMS: int(resumeRetry.Milliseconds())}, true
}

func (l *streamLog) add(o Out) (id string, ours bool) {
	if o.Raw == nil && !o.Final || l.dead.Load() {
		return "", true
	}
	seq, err := o.Kept, error(nil)
	if seq == 0 {
		seq, err = l.r.keepEvent(l.stream, o)
	}
	if err != nil {
		l.r.storeFailed("keep event", err)
		l.dead.Store(true)
		l.r.tellLog(l.stream, "drop", nil)
		return "", true
	}
	log, kept := l.r.clientLog(l.stream)
	ours = !kept || log.Reader == l.stream
	if o.Raw == nil {
		return "", ours
	}
	l.last.Store(seq)
	l.given.Store(true)
	return l.token + strconv.FormatUint(seq, 10), ours
}

func (l *streamLog) over() { l.r.overLog(l.stream, l.last.Load()) }

func (r *Runner) overLog(stream string, last uint64) {
	r.tellLog(stream, "over", strconv.AppendUint(nil, last, 10))
}

// tellLog tells a log from within another operation's step, which must not
// wait for it.
func (r *Runner) tellLog(stream, name string, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() == nil { // Close waits for what is begun before
		r.spawn(func() { r.deliver(logOp(stream), Event{Kind: EvOp, Name: name, Data: data}) })
	}
}

// roomForLog makes room for one more log of a session: the oldest that is over
// leaves. Where all are live the new stream cannot be resumed.
func (r *Runner) roomForLog(session string) bool {
	list, err := r.store.List(r.ctx, logIndex(session), "", resumeStreams)
	if err != nil || len(list) < resumeStreams {
		return err == nil
	}
	for _, e := range list {
		if string(e.Value) == indexOver {
			r.dropLog(streamOfIndex(e.Key))
			return true
		}
	}
	return false
}

func streamOfIndex(key string) string {
	_, rest, _ := strings.Cut(key[len("logs/"):], "/")
	_, stream, _ := strings.Cut(rest, "-")
	return stream
}

func (r *Runner) dropLog(stream string) {
	r.deliver(logOp(stream), Event{Kind: EvOp, Name: "drop"})
}

// sessionLogs names the streams of a session that are kept.
func (r *Runner) sessionLogs(session string) (streams []string) {
	list, err := r.store.List(r.ctx, logIndex(session), "", 0)
	if err != nil {
		r.storeFailed("list event logs", err)
	}
	for _, e := range list {
		streams = append(streams, streamOfIndex(e.Key))
	}
	return streams
}

// A kept event is one byte of these and the message.
const (
	keptFinal = 1 << iota
	keptAsks
	keptNot // it was too large, only its place is kept
)

// keepEvent appends to a stream's log and returns the event's number. Logs
// that have to leave for it are dropped.
func (r *Runner) keepEvent(stream string, o Out) (uint64, error) {
	kind := byte(0)
	if o.Final {
		kind |= keptFinal
	}
	if o.Asks {
		kind |= keptAsks
	}
	raw := o.Raw
	if int64(len(raw)) > r.policy().ResumeBytes/8 {
		kind, raw = kind|keptNot, nil
	}
	value := append([]byte{kind}, raw...)
	r.makeRoom(stream, int64(len(value))+eventCost)
	seq, err := r.store.Append(r.ctx, logName(stream), value, LogBound{Entries: resumeEntries, Bytes: resumeBytes})
	if err == nil && o.Asks {
		r.tellLog(stream, "asked", strconv.AppendUint(nil, seq, 10))
	}
	return seq, err
}

// makeRoom counts n more bytes of a stream's log; those that have to leave for
// it are dropped.
func (r *Runner) makeRoom(stream string, n int64) {
	for _, old := range r.kept.grow(r, stream, n) {
		old.by.tellLog(old.stream, "drop", nil)
	}
}

// keepAway takes what an operation says to a client that is away, or reads at
// another runner, and returns its number; 0: it is not kept.
func (r *Runner) keepAway(l *clientLog, o Out) uint64 {
	if o.Kept != 0 {
		if o.Final {
			r.endAway(l.Stream, o, true)
		}
		return o.Kept
	}
	if l.Over || o.Raw == nil && !o.Final {
		return 0
	}
	if l.Guest != "" {
		o.Raw = guestOut(l.Guest, o.Raw)
	}
	seq, err := r.keepEvent(l.Stream, o)
	if err != nil {
		r.storeFailed("keep event", err)
		r.tellLog(l.Stream, "drop", nil) // better none than one with a gap
		return 0
	}
	if o.Final {
		last := seq
		if o.Raw == nil {
			last-- // what came before is the last message
		}
		r.overLog(l.Stream, last)
		r.endAway(l.Stream, o, true)
	}
	return seq
}

// keptLogs counts what the streams of a process keep in the store. Over the
// bound the logs nothing was added to for longest leave. Safe for concurrent
// use.
type keptLogs struct {
	max int64

	mu    sync.Mutex // protects the fields below
	lru   *simplelru.LRU[string, keptLog]
	bytes int64
	out   []keptLog // left in the present call
}

// keptLog is a stream's log with what it counts.
type keptLog struct {
	stream string
	bytes  int64
	by     *Runner
}

// What a log and an event cost beside the messages, roughly.
const (
	logCost   = 1 << 10
	eventCost = 128
)

// maxLogs bounds the logs of a process.
const maxLogs = 1 << 16

func newKeptLogs(bytes int64) *keptLogs {
	k := &keptLogs{max: bytes}
	k.lru, _ = simplelru.NewLRU(maxLogs, func(_ string, l keptLog) {
		k.bytes -= l.bytes
		k.out = append(k.out, l)
	})
	return k
}

// grow notes n more bytes of a stream's log and names the logs to drop.
func (k *keptLogs) grow(by *Runner, stream string, n int64) (drop []keptLog) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old, _ := k.lru.Get(stream)
	grown := min(old.bytes+n, max(resumeBytes, n))
	k.bytes += grown - old.bytes
	k.out = nil
	k.lru.Add(stream, keptLog{stream, grown, by})
	for k.bytes > k.max && k.lru.Len() > 1 {
		k.lru.RemoveOldest()
	}
	return k.out
}

func (k *keptLogs) remove(stream string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lru.Remove(stream)
}

// leave forgets all of a runner that is closed.
func (k *keptLogs) leave(by *Runner) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.lru.Values() {
		if l.by == by {
			k.lru.Remove(l.stream)
		}
	}
	k.out = nil
}

// eventToken begins the event ids of a stream: what kind it is, the stream, the
// request it answers, and a mark that binds them to the session. So an id says
// which request is to be answered when nothing else is known any more.
func (r *Runner) eventToken(session, stream string, id []byte) string {
	kind := "get"
	if id != nil {
		kind = "post"
	}
	if len(id) > maxTokenID {
		id = nil
	}
	token := kind + "/" + stream + "/" + base64.RawURLEncoding.EncodeToString(id)
	return token + "/" + r.handles.mark("event", session+"\x00"+token)[:8] + "/"
}

// maxTokenID bounds the request ids that are put into event ids.
const maxTokenID = 64

// eventID is an event id read back.
type eventID struct {
	stream string
	get    bool
	id     []byte // of the request, empty if it was too long
	seq    uint64
}

// parseEventID reads an id this session's client was given.
func (r *Runner) parseEventID(session, text string) (eventID, bool) {
	parts := strings.Split(text, "/")
	if len(text) > 256 || len(parts) != 5 {
		return eventID{}, false
	}
	id, err := base64.RawURLEncoding.DecodeString(parts[2])
	seq, err2 := strconv.ParseUint(parts[4], 10, 64)
	e := eventID{stream: parts[1], get: parts[0] == "get", id: id, seq: seq}
	token := strings.Join(parts[:3], "/")
	ok := err == nil && err2 == nil && r.handles.mark("event", session+"\x00"+token)[:8] == parts[3]
	return e, ok
}
