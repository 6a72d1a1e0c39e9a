package session

import (
	"slices"
	"strconv"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// Exec is what a step may read and where it leaves its effects.
type Exec struct {
	ID     OpID
	Now    time.Time
	Policy *Policy

	r       *Runner
	effects []Effect
	done    bool
	heard   string // the exchange the event came from
	from    origin // on whose behalf the step is taken
}

// Do adds effects, carried out in order once the state is stored.
func (x *Exec) Do(effects ...Effect) {
	for _, e := range effects {
		if _, ok := e.(Done); ok {
			x.done = true
		}
	}
	x.effects = append(x.effects, effects...)
}

// Get reads a record another operation Put.
func (x *Exec) Get(key string) ([]byte, bool) {
	e, err := x.r.store.Get(x.r.ctx, key)
	return e.Value, err == nil
}

// List reads records by prefix, in key order.
func (x *Exec) List(prefix, after string, limit int) []Entry {
	list, err := x.r.store.List(x.r.ctx, prefix, after, limit)
	if err != nil {
		x.r.storeFailed("list records", err, "prefix", prefix)
	}
	return list
}

// Keep puts a message aside for a later step: its bytes are stored as they
// are, not inside the state, and leave with the operation.
func (x *Exec) Keep(b *base, slot string, raw []byte) {
	if !b.kept(slot) {
		b.Slots = append(b.Slots, slot)
	}
	x.Do(Put{Key: blobKey(x.ID, slot), Value: raw})
}

// Kept returns what an earlier step put aside.
func (x *Exec) Kept(slot string) []byte {
	raw, _ := x.Get(blobKey(x.ID, slot))
	return raw
}

// Unkeep drops one slot early.
func (x *Exec) Unkeep(b *base, slot string) {
	if i := slices.Index(b.Slots, slot); i >= 0 {
		b.Slots = slices.Delete(b.Slots, i, i+1)
		x.Do(Del{Key: blobKey(x.ID, slot)})
	}
}

func (b *base) kept(slot string) bool { return slices.Contains(b.Slots, slot) }

func blobKey(id OpID, slot string) string { return "blob/" + string(id) + "/" + slot }

// The slots operations use.
const (
	slotRequest = "request"
	slotPayload = "payload"
	slotRetry   = "retry" // the request's newest round
)

// Count reads a counter that Add effects move.
func (x *Exec) Count(name string) int64 {
	return readCount(x.r.ctx, x.r.counts, countKey(name))
}

func countKey(name string) string { return "count/" + name }

// Snapshot reads the bounded cache that Snap fills; a miss costs a round trip.
func (x *Exec) Snapshot(key string) ([]byte, bool) { return x.r.snaps.Get(key) }

// Reserve sets room aside for a result only the proxy will hold.
func (x *Exec) Reserve(key string) bool { return x.r.held.Reserve(key, reservation) }

// Free gives held room back.
func (x *Exec) Free(key string) { x.r.held.Free(key) }

// Grow makes a reservation as large as what is held; false: over the budget by
// more than one message.
func (x *Exec) Grow(key string, n int64) bool {
	return x.r.held.Grow(key, n, x.Policy.MessageLimit)
}

// reservation is what each admitted task call sets aside.
const reservation = 64 << 10

// NextID returns the next integer of a sequence, from 1, never twice over all
// runners of the store. A step that is run again leaves a gap.
func (x *Exec) NextID(sequence string) int64 { return x.r.nextID(sequence) }

// AskID returns the next id of our requests to the client of a session: 1, 2,
// 3, over all runners.
func (x *Exec) AskID(session string) int64 { return x.r.reserveIDs("askseq/"+session, 1) }

// Token returns n random bytes as header-safe text.
func (x *Exec) Token(n int) string { return x.r.token(n) }

// Handles seals and opens.
func (x *Exec) Handles() *Handles { return x.r.handles }

// reply sends the final answer of a request.
func (x *Exec) reply(stream string, raw []byte) {
	x.Do(Send{Stream: stream, Out: Out{Raw: raw, Final: true}})
}

// lose counts what a rule had to leave out.
func (x *Exec) lose(lost []translate.Loss) {
	for _, l := range lost {
		x.Do(Loss{What: string(l)})
	}
}

// fit makes a result fit the revision of a legacy session, and counts what was
// and is lost.
func (x *Exec) fit(method string, sess *legacySession, raw []byte, lost []translate.Loss) []byte {
	x.lose(lost)
	if sess.Version == "" { // the session is over
		return raw
	}
	raw, lost = translate.FitRevision(method, raw, sess.Version)
	x.lose(lost)
	return raw
}

// refuse sends the final error of a request by the table of conditions.
func (x *Exec) refuse(stream string, era translate.Era, id jsonrpc.ID, c translate.Cond, message string, data []byte) {
	x.Do(Send{Stream: stream, Out: refusal(era, id, c, message, data)})
}

// refusal renders a condition for one era.
func refusal(era translate.Era, id jsonrpc.ID, c translate.Cond, message string, data []byte) Out {
	rep := translate.ReplyFor(c, era)
	if message == "" {
		message = string(c)
	}
	out := Out{Raw: jsonrpc.NewError(id, rep.Code, message, data), Final: true, Status: rep.Status}
	if rep.Status == 503 || rep.Status == 429 {
		out.Header = map[string][]string{"Retry-After": {"1"}}
	}
	return out
}

// waiter is a request that waits for something an operation will know later.
type waiter struct {
	Stream  string `json:"s,omitempty"`
	ID      []byte `json:"i,omitempty"`
	Session string `json:"n,omitempty"`
	// Driven: a plain call whose task is driven here; it gets the bare result.
	Driven bool `json:"d,omitempty"`
	// Op: an operation that asked, told by Tell instead of a stream.
	Op OpID `json:"o,omitempty"`
	// Token: progress token of the waiting request.
	Token []byte `json:"t,omitempty"`
}

// end forgets where a waiting tasks/result is to be found.
func (w waiter) end(x *Exec) {
	if w.Session != "" {
		x.Do(Del{Key: waitKey(w.Session, w.id())})
	}
}

func (w waiter) id() jsonrpc.ID { return rawID(w.ID) }

// rawID reads an id that was kept raw.
func rawID(raw []byte) jsonrpc.ID {
	id, err := jsonrpc.IDFromRaw(raw)
	if err != nil {
		return jsonrpc.ID{}
	}
	return id
}

// dropStream removes the waiters of a stream and says whether there were any.
func dropStream(list []waiter, stream string) ([]waiter, bool) {
	kept := list[:0]
	for _, w := range list {
		if w.Stream != stream || w.Stream == "" {
			kept = append(kept, w)
		}
	}
	return kept, len(kept) != len(list)
}

// Raw JSON in a state is []byte, not json.RawMessage: the encoder writes it as
// base64 in one go instead of checking and compacting it at every step.

// base is the part of every machine the runner looks after.
type base struct {
	// Wakes are the timers still due; Ups the open exchanges by label, each
	// "runner.number" of the runner that holds its socket.
	Wakes map[string]time.Time `json:"w,omitempty"`
	Ups   map[string]string    `json:"u,omitempty"`
	// Slots name the messages kept beside the state (Exec.Keep).
	Slots []string `json:"b,omitempty"`
	// By is the runner that took the last step.
	By string `json:"r,omitempty"`
	// From is on whose behalf the operation works, for observers.
	From origin `json:"o,omitzero"`
}

func (b *base) ops() *base { return b }

// up says whether an exchange is open.
func (b *base) up(label string) bool { _, ok := b.Ups[label]; return ok }

type machine interface {
	Machine
	ops() *base
}

// kinds makes the zero machine of each kind of operation.
var kinds = map[string]func() machine{
	"session": func() machine { return new(legacySession) },
	"pass":    func() machine { return new(passCall) },
	"log":     func() machine { return new(clientLog) },
	"own":     func() machine { return new(ownedTask) },
	"lcall":   func() machine { return new(legacyCall) },
	"ltask":   func() machine { return new(legacyTask) },
	"llist":   func() machine { return new(legacyList) },
	"marks":   func() machine { return new(headerMarks) },
	"lwatch":  func() machine { return new(taskWatch) },
	"mcall":   func() machine { return new(modernCall) },
	"mtask":   func() machine { return new(modernTask) },
	"pool":    func() machine { return new(poolSession) },
	"listen":  func() machine { return new(listenCall) },
}

func opKey(id OpID) string { return "op/" + string(id) }

func streamRunner(stream string) string {
	for i := range len(stream) {
		if stream[i] == '.' {
			return stream[:i]
		}
	}
	return ""
}

func intRaw(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
