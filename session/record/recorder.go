package record

import (
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/capture"
)

// Defaults and bounds.
const (
	// DefaultFrames and DefaultBytes bound what waits to be written.
	DefaultFrames = 32 << 10
	DefaultBytes  = 32 << 20
	// frameOverhead is what a frame is counted for beside its message.
	frameOverhead = 512
	// flushEvery bounds how much later than its traffic a line is in the file.
	flushEvery = 100 * time.Millisecond
	// batchEvery is how long frames are gathered before they are written: to wake
	// the writer for each would cost more than to write it.
	batchEvery = 20 * time.Millisecond
	// retryEvery is how long a rotating recording waits before another part, after
	// one could not be written.
	retryEvery = 10 * time.Second
)

// Options of a Recorder.
type Options struct {
	// File is where to record; required. One that ends in .gz is compressed.
	File string
	// RotateSize begins a new part after so many bytes of file, RotateEvery after
	// so long (0: never). With either the parts are numbered: FILE-0001.jsonl.
	RotateSize  int64
	RotateEvery time.Duration
	// Mask is a keyed hash in letters and digits of a text of a kind; required.
	Mask func(kind, text string) string
	// Redact takes out what the user does not want kept; nil: nothing.
	Redact func(*capture.Record)
	// By is who records, Settings what: capture.Header's.
	By       string
	Settings map[string]string

	Frames  int          // that may wait (0: DefaultFrames)
	Bytes   int64        // of them (0: DefaultBytes)
	Logger  *slog.Logger // nil: discarded
	Dropped func()       // called for each frame that is not recorded; nil: nobody counts
}

// Recorder is a session.Tap that keeps frames in a file. It never makes anybody
// wait: what does not fit into its buffer is left out, counted, and declared in
// the capture where it is missing. Safe for concurrent use.
type Recorder struct {
	o     Options
	wake  chan struct{} // something waits
	hurry chan struct{} // much does
	quit  chan struct{}
	done  chan struct{}

	mu     sync.Mutex // protects the fields below
	queue  []item
	bytes  int64 // of queue
	lost   int   // frames dropped since the last one that was taken
	closed bool

	// The writer's own:
	spare   []item         // an empty queue's memory; handed over with mu
	rec     capture.Record // the one at hand
	conceal *capture.Concealer
	parts   parts
	file    *sink // nil: none can be written at the moment
	part    int
	records int       // in file
	warned  time.Time // of drops, last
	due     time.Time // when the next part begins; zero: never
	again   time.Time // when another is tried
	pending int       // frames dropped that no file declares yet
	err     error     // of the first failure
}

var _ session.RawTap = (*Recorder)(nil)

// item is a frame on its way to the file.
type item struct {
	f    translate.Frame
	raw  []byte // its message's text, where it is not decoded
	lost int    // frames dropped before it
}

// New makes the file and begins to record.
func New(o Options) (*Recorder, error) {
	if o.Frames == 0 {
		o.Frames = DefaultFrames
	}
	if o.Bytes == 0 {
		o.Bytes = DefaultBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Dropped == nil {
		o.Dropped = func() {}
	}
	r := &Recorder{
		o: o, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		conceal: capture.NewConcealer(o.Mask),
		parts:   parts{name: o.File, rotates: o.RotateSize > 0 || o.RotateEvery > 0},
	}
	if err := r.open(time.Now()); err != nil {
		return nil, err
	}
	go r.write()
	return r, nil
}

// File is the name of the file that is written to first.
func (r *Recorder) File() string { return r.o.File }

// Frame implements session.Tap.
func (r *Recorder) Frame(f translate.Frame) {
	var raw []byte
	if f.Msg != nil {
		raw = f.Msg.Raw
	}
	r.take(f, raw)
}

// RawFrame implements session.RawTap.
func (r *Recorder) RawFrame(f translate.Frame, raw []byte) { r.take(f, raw) }

func (r *Recorder) take(f translate.Frame, raw []byte) {
	if f.Time.IsZero() {
		f.Time = time.Now()
	}
	size := int64(frameOverhead + len(raw))
	r.mu.Lock()
	// A message larger than all of the buffer still has its place in an empty one.
	full := len(r.queue) >= r.o.Frames || r.bytes+size > r.o.Bytes && r.bytes > 0
	switch {
	case r.closed:
		r.mu.Unlock()
		return
	case full:
		r.lost++
		r.mu.Unlock()
		r.o.Dropped()
		return
	}
	first := len(r.queue) == 0
	r.queue = append(r.queue, item{f, raw, r.lost})
	r.bytes += size
	r.lost = 0
	much := len(r.queue) > r.o.Frames/4 || r.bytes > r.o.Bytes/4
	r.mu.Unlock()
	if first {
		notify(r.wake)
	}
	if much {
		notify(r.hurry)
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close writes what waits and the capture's last line. Frames that come later
// are not recorded. The error is that of the first failure, if there was one.
// It may be called twice.
func (r *Recorder) Close() error {
	r.mu.Lock()
	was := r.closed
	r.closed = true
	r.mu.Unlock()
	if !was {
		close(r.quit)
	}
	<-r.done
	return r.err
}

// write runs until Close.
func (r *Recorder) write() {
	defer close(r.done)
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	pause := time.NewTimer(batchEvery)
	defer pause.Stop()
	for {
		select {
		case <-r.wake:
			pause.Reset(batchEvery)
			select {
			case <-pause.C:
			case <-r.hurry:
			case <-r.quit:
			}
			r.drain()
		case now := <-flush.C:
			r.tick(now)
		case <-r.quit:
			r.finish()
			return
		}
	}
}

// drain records what waits. What is written counts as waiting until it was.
func (r *Recorder) drain() {
	r.mu.Lock()
	batch := r.queue
	r.queue, r.spare = r.spare[:0], nil
	r.mu.Unlock()
	for i := range batch {
		size := int64(frameOverhead + len(batch[i].raw))
		r.record(&batch[i])
		batch[i] = item{}
		r.mu.Lock()
		r.bytes -= size
		r.mu.Unlock()
	}
	if cap(batch) <= keptQueue {
		r.spare = batch
	}
}

// keptQueue is the longest queue whose memory is used again.
const keptQueue = 4 << 10

// tick does what is due without traffic.
func (r *Recorder) tick(now time.Time) {
	switch {
	case r.file == nil:
		r.reopen(now)
	case !r.due.IsZero() && !now.Before(r.due) && r.records > 0:
		r.rotate(now)
	case r.fail(r.file.flush()) && r.file.full(r.o.RotateSize) && r.records > 0:
		r.rotate(now)
	}
}

// finish records what is left.
func (r *Recorder) finish() {
	r.drain()
	r.mu.Lock()
	r.pending += r.lost
	r.lost = 0
	r.mu.Unlock()
	if r.file == nil {
		return
	}
	r.declare(time.Now())
	if r.file != nil {
		r.fail(r.end(false))
	}
}

// record writes one frame.
func (r *Recorder) record(it *item) {
	r.pending += it.lost
	if r.file == nil {
		r.reopen(time.Now())
	}
	if r.file != nil {
		r.declare(it.f.Time.UTC())
	}
	f := &it.f
	r.rec = capture.Record{
		Time: f.Time.UTC(), Leg: f.Leg, Dir: f.Dir, Transport: f.Transport, Conn: f.Conn, Stream: f.Stream,
		Session: f.Session, Principal: f.Principal, Msg: it.raw,
	}
	if f.HTTP != nil {
		r.rec.Verb, r.rec.Status, r.rec.Header = f.HTTP.Verb, f.HTTP.Status, f.HTTP.Header
	}
	r.conceal.Message(&r.rec, f.Msg) // it must hear of requests whose answers are recorded
	if r.o.Redact != nil {
		r.o.Redact(&r.rec)
	}
	if r.file == nil || !r.fail(r.file.w.Write(&r.rec)) {
		r.pending++
		r.o.Dropped()
		return
	}
	r.records++
	if r.file.full(r.o.RotateSize) {
		r.rotate(time.Now())
	}
}

// declare says how many frames are missing here.
func (r *Recorder) declare(at time.Time) {
	if r.pending == 0 {
		return
	}
	n := r.pending
	r.pending = 0
	if now := time.Now(); now.Sub(r.warned) > time.Minute {
		r.warned = now
		r.o.Logger.Warn("recording cannot keep up; frames were left out, which the capture says", "frames", n)
	}
	if !r.fail(r.file.w.Write(&capture.Record{Time: at, Dropped: n})) {
		r.pending += n
	}
}

// open begins a file.
func (r *Recorder) open(now time.Time) error {
	f, err := r.parts.create()
	if err != nil {
		return err
	}
	h := capture.Header{Created: now.UTC(), By: r.o.By, Settings: maps.Clone(r.o.Settings)}
	if r.parts.rotates {
		h.Part = r.part + 1
	}
	s, err := newSink(f, h)
	if err != nil {
		f.Close()
		return err
	}
	r.file, r.part, r.records = s, r.part+1, 0
	if r.o.RotateEvery > 0 {
		r.due = now.Add(r.o.RotateEvery)
	}
	return nil
}

// rotate goes on in a new part.
func (r *Recorder) rotate(now time.Time) {
	if !r.fail(r.end(true)) {
		return
	}
	if err := r.open(now); err != nil {
		r.giveUp(err)
	}
}

// end ends the file.
func (r *Recorder) end(continued bool) error {
	s := r.file
	r.file = nil
	return s.end(continued)
}

// fail settles an error of writing and says whether there was none: the file is
// given up, so that it is not whole.
func (r *Recorder) fail(err error) bool {
	if err == nil {
		return true
	}
	if r.file != nil {
		r.file.f.Close()
		r.file = nil
	}
	r.giveUp(err)
	return false
}

// giveUp: nothing can be recorded. What serves traffic goes on.
func (r *Recorder) giveUp(err error) {
	if r.err == nil {
		r.err = err
	}
	r.again = time.Now().Add(retryEvery)
	advice := "frames are dropped until another part can be written"
	if !r.parts.rotates {
		advice = "nothing more is recorded"
	}
	r.o.Logger.Error("recording failed; "+advice, "file", r.o.File, "err", plainError(err))
}

func (r *Recorder) reopen(now time.Time) {
	if !r.parts.rotates || now.Before(r.again) {
		return
	}
	if err := r.open(now); err != nil {
		r.giveUp(err)
		return
	}
	r.o.Logger.Info("recording goes on", "file", r.file.f.Name())
}

// plainError leaves out what a path error repeats.
func plainError(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}
