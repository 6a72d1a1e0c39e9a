package peers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// task is the state machine both eras share; only its rendering differs. All
// fields past the first group are protected by the store's mutex.
type task struct {
	id      string
	seq     int    // creation order, for the cursor of tasks/list
	session string // the legacy session that created it
	created time.Time
	ttl     time.Duration
	token   json.RawMessage // progress token of the creating request

	status  string
	message string
	updated time.Time
	open    []*openQuestion
	result  json.RawMessage
	err     *RPCError
	gone    bool
	changed chan struct{} // closed at the next change
	waiters []*outbox     // streams of tasks/result, for progress
	cancel  context.CancelFunc
	expiry  *time.Timer
}

// openQuestion is an input request without an answer.
type openQuestion struct {
	question
	done   chan struct{}
	answer json.RawMessage // valid once done is closed
	err    *RPCError
	holder *outbox // the legacy stream it went out on, nil when it has none
}

// taskStore holds a server's tasks. onChange runs with mu held after each
// change, so it must not block or call back.
type taskStore struct {
	clock    func() time.Time
	onChange func(t *task, statusChanged bool)

	mu    sync.Mutex // protects everything below and the tasks
	byID  map[string]*task
	count int
}

func (s *taskStore) create(session string, ttl time.Duration, token json.RawMessage, cancel context.CancelFunc) *task {
	now := s.clock().UTC()
	// rand.Text has 128 bits: task IDs act as bearer tokens (tasks extension,
	// "Security Considerations").
	t := &task{id: rand.Text(), session: session, created: now, updated: now, ttl: ttl, token: token,
		status: StatusWorking, changed: make(chan struct{}), cancel: cancel}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	t.seq = s.count
	s.byID[t.id] = t
	t.expiry = time.AfterFunc(ttl, func() { s.remove(t) })
	return t
}

// remove forgets a task, as a receiver may after its ttl, and ends its work.
func (s *taskStore) remove(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.gone {
		return
	}
	t.gone = true
	delete(s.byID, t.id)
	t.expiry.Stop()
	close(t.changed)
	t.cancel()
}

func (s *taskStore) removeAll(match func(*task) bool) {
	s.mu.Lock()
	tasks := slices.Collect(maps.Values(s.byID))
	s.mu.Unlock()
	for _, t := range tasks {
		if match(t) {
			s.remove(t)
		}
	}
}

// get finds a task; session limits it to that session's tasks unless empty.
func (s *taskStore) get(id, session string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.byID[id]
	if t == nil || session != "" && t.session != session {
		return nil
	}
	return t
}

// change applies f unless the task is in a terminal status, which it then
// keeps for ever (2025-11-25 tasks, "Task Status Lifecycle").
func (s *taskStore) change(t *task, f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.gone || terminal(t.status) {
		return false
	}
	before := t.status
	f()
	t.updated = s.clock().UTC()
	if terminal(t.status) {
		t.open = nil
	}
	close(t.changed)
	t.changed = make(chan struct{})
	if s.onChange != nil {
		s.onChange(t, t.status != before)
	}
	return true
}

// ask opens questions, waits until all are answered and returns the answers.
// opened, if given, runs once they are open.
func (s *taskStore) ask(ctx context.Context, t *task, qs []question, opened func([]*openQuestion)) (map[string]json.RawMessage, *RPCError) {
	open := make([]*openQuestion, len(qs))
	for i, q := range qs {
		open[i] = &openQuestion{question: q, done: make(chan struct{})}
	}
	s.change(t, func() {
		t.open = slices.Clone(open)
		t.status = StatusInputRequired
	})
	if opened != nil {
		opened(open)
	}
	answers := map[string]json.RawMessage{}
	for _, q := range open {
		select {
		case <-q.done:
			if q.err != nil {
				return nil, q.err
			}
			answers[q.key] = q.answer
		case <-ctx.Done():
			return nil, cancelledError(context.Cause(ctx))
		}
	}
	return answers, nil
}

// answer settles the open question of that key; others are ignored, as the
// tasks extension says of unknown and answered keys ("Task Update Requests").
// The task works on once nothing is open.
func (s *taskStore) answer(t *task, key string, answer json.RawMessage, err *RPCError) {
	s.mu.Lock()
	i := slices.IndexFunc(t.open, func(q *openQuestion) bool { return q.key == key })
	s.mu.Unlock()
	if i < 0 {
		return
	}
	s.change(t, func() {
		i := slices.IndexFunc(t.open, func(q *openQuestion) bool { return q.key == key })
		if i < 0 {
			return
		}
		q := t.open[i]
		q.answer, q.err = answer, err
		close(q.done)
		t.open = slices.Delete(t.open, i, i+1)
		if len(t.open) == 0 {
			t.status = StatusWorking
		}
	})
}

// cancelTask moves to cancelled and stops the work; false if it was over.
func (s *taskStore) cancelTask(t *task) bool {
	ok := s.change(t, func() {
		t.status = StatusCancelled
		t.message = "The task was cancelled by request."
	})
	if ok {
		t.cancel()
	}
	return ok
}

// list returns one page of tasks, oldest first, and the next cursor.
func (s *taskStore) list(session, cursor string, size int, view func(*task) json.RawMessage) ([]json.RawMessage, string, *RPCError) {
	after, rerr := decodeCursor(cursor)
	if rerr != nil {
		return nil, "", rerr
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tasks := slices.SortedFunc(maps.Values(s.byID), func(a, b *task) int { return a.seq - b.seq })
	page := []json.RawMessage{}
	last := 0
	for _, t := range tasks {
		if t.seq <= after || session != "" && t.session != session {
			continue
		}
		if len(page) == size {
			return page, encodeCursor(last), nil
		}
		page = append(page, view(t))
		last = t.seq
	}
	return page, "", nil
}

const cursorPrefix = "after:"

func encodeCursor(n int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + strconv.Itoa(n)))
}

func decodeCursor(cursor string) (int, *RPCError) {
	if cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if text, ok := strings.CutPrefix(string(b), cursorPrefix); err == nil && ok {
		if n, err := strconv.Atoi(text); err == nil {
			return n, nil
		}
	}
	return 0, rpcErrorf(CodeInvalidParams, "invalid cursor")
}

// legacyView renders a Task of 2025-11-25. The store's mutex must be held.
func (t *task) legacyView(poll time.Duration) json.RawMessage {
	pairs := []any{"taskId", t.id, "status", t.status}
	if t.message != "" {
		pairs = append(pairs, "statusMessage", t.message)
	}
	return object(append(pairs,
		"createdAt", timestamp(t.created), "lastUpdatedAt", timestamp(t.updated),
		"ttl", milliseconds(t.ttl), "pollInterval", milliseconds(poll))...)
}

// modernView renders a DetailedTask of the tasks extension. The store's mutex
// must be held.
func (t *task) modernView(poll time.Duration) json.RawMessage {
	pairs := []any{"taskId", t.id, "status", t.status}
	if t.message != "" {
		pairs = append(pairs, "statusMessage", t.message)
	}
	pairs = append(pairs,
		"createdAt", timestamp(t.created), "lastUpdatedAt", timestamp(t.updated),
		"ttlMs", milliseconds(t.ttl), "pollIntervalMs", milliseconds(poll))
	switch t.status {
	case StatusInputRequired:
		qs := make([]question, len(t.open))
		for i, q := range t.open {
			qs[i] = q.question
		}
		pairs = append(pairs, "inputRequests", inputRequests(qs))
	case StatusCompleted:
		pairs = append(pairs, "result", t.result)
	case StatusFailed:
		pairs = append(pairs, "error", t.err)
	}
	return object(pairs...)
}

// inputRequests renders the map of 2026-07-28 MRTR, "InputRequests".
func inputRequests(qs []question) json.RawMessage {
	var pairs []any
	for _, q := range qs {
		pairs = append(pairs, q.key, object("method", "elicitation/create", "params", q.params))
	}
	return object(pairs...)
}

func timestamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000Z07:00") }
