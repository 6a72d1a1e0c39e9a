package upstream

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// messageOverhead is what a queued message is counted for beside its bytes.
const messageOverhead = 512

// sendQueue writes messages to a server in the order they were put. A server
// that does not read holds up who puts, each for as long as its context
// allows, and nobody else.
type sendQueue struct {
	write func([][]byte) error
	room  *semaphore.Weighted
	max   int64

	mu     sync.Mutex // protects the fields below
	queue  []queued
	closed bool
	wake   chan struct{}
}

// queued is a message, which may come in parts. shown, if set, is called just before it is written,
// dropped where it never will be.
type queued struct {
	msg     [][]byte
	shown   func()
	dropped func()
}

func newSendQueue(write func([][]byte) error, max int64) *sendQueue {
	return &sendQueue{write: write, room: semaphore.NewWeighted(max), max: max, wake: make(chan struct{}, 1)}
}

func (q *sendQueue) size(msg [][]byte) int64 {
	n := int64(messageOverhead)
	for _, piece := range msg {
		n += int64(len(piece))
	}
	return min(n, q.max)
}

// put queues a message, which nobody changes any more.
func (q *sendQueue) put(ctx context.Context, next queued) error {
	if err := q.room.Acquire(ctx, q.size(next.msg)); err != nil {
		return context.Cause(ctx)
	}
	if !q.push(next) {
		q.room.Release(q.size(next.msg))
		return ErrClosed
	}
	return nil
}

// tryPut is put for what is no caller's: it gives up where put would wait.
func (q *sendQueue) tryPut(msg [][]byte, shown func()) bool {
	if !q.room.TryAcquire(q.size(msg)) {
		return false
	}
	if !q.push(queued{msg: msg, shown: shown}) {
		q.room.Release(q.size(msg))
		return false
	}
	return true
}

func (q *sendQueue) push(msg queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.queue = append(q.queue, msg)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// close drops what is queued; run returns, and so does who waits for room.
func (q *sendQueue) close() {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	dropped := q.queue
	q.closed, q.queue = true, nil
	close(q.wake)
	q.mu.Unlock()
	for _, m := range dropped {
		if m.dropped != nil {
			m.dropped()
		}
		q.room.Release(q.size(m.msg))
	}
}

// run writes until close or an error of write.
func (q *sendQueue) run() error {
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return nil
		}
		var next queued
		if len(q.queue) > 0 {
			next = q.queue[0]
			q.queue[0] = queued{}
			q.queue = q.queue[1:]
		}
		q.mu.Unlock()
		msg := next.msg
		if msg == nil {
			<-q.wake
			continue
		}
		if next.shown != nil {
			next.shown()
		}
		err := q.write(msg)
		q.room.Release(q.size(msg))
		if err != nil {
			return err
		}
	}
}
