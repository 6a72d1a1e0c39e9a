package upstream

import (
	"context"
	"io"
	"sync"

	"golang.org/x/sync/semaphore"
)

// lineOverhead is what a queued message is counted for beside its bytes.
const lineOverhead = 512

// lineQueue writes messages to a child in the order they were put, one a line.
// A child that does not read holds up who puts, each for as long as its context
// allows, and nobody else.
type lineQueue struct {
	w    io.Writer
	room *semaphore.Weighted
	max  int64

	mu     sync.Mutex // protects the fields below
	lines  [][]byte
	closed bool
	wake   chan struct{}
}

func newLineQueue(w io.Writer, max int64) *lineQueue {
	return &lineQueue{w: w, room: semaphore.NewWeighted(max), max: max, wake: make(chan struct{}, 1)}
}

func (q *lineQueue) size(line []byte) int64 { return min(int64(len(line))+lineOverhead, q.max) }

// put queues line, which has no line end and is the queue's from then on.
func (q *lineQueue) put(ctx context.Context, line []byte) error {
	if err := q.room.Acquire(ctx, q.size(line)); err != nil {
		return context.Cause(ctx)
	}
	if !q.push(line) {
		q.room.Release(q.size(line))
		return ErrClosed
	}
	return nil
}

// tryPut is put for what is no caller's: it gives up where put would wait.
func (q *lineQueue) tryPut(line []byte) bool {
	if !q.room.TryAcquire(q.size(line)) {
		return false
	}
	if !q.push(line) {
		q.room.Release(q.size(line))
		return false
	}
	return true
}

func (q *lineQueue) push(line []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.lines = append(q.lines, line)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// close drops what is queued; run returns.
func (q *lineQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed, q.lines = true, nil
		close(q.wake)
	}
}

// run writes until close or an error of the writer.
func (q *lineQueue) run() error {
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return nil
		}
		var line []byte
		if len(q.lines) > 0 {
			line = q.lines[0]
			q.lines[0] = nil
			q.lines = q.lines[1:]
		}
		q.mu.Unlock()
		if line == nil {
			<-q.wake
			continue
		}
		_, err := q.w.Write(append(line, '\n'))
		q.room.Release(q.size(line))
		if err != nil {
			return err
		}
	}
}
