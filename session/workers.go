package session

// idleWorkers bounds the goroutines that wait for their next exchange. An
// exchange needs a deep stack for a moment; a worker that has one already
// does not grow it again.
const idleWorkers = 64

// spawn runs f in a goroutine of the runner's; Close waits for it.
func (r *Runner) spawn(f func()) {
	f = r.clock.Work(f)
	select {
	case r.work <- f:
	default:
		r.wg.Go(func() { r.worker(f) })
	}
}

func (r *Runner) worker(f func()) {
	for {
		f()
		if r.idle.Add(1) > idleWorkers {
			r.idle.Add(-1)
			return
		}
		select {
		case f = <-r.work:
			r.idle.Add(-1)
		case <-r.ctx.Done():
			return
		}
	}
}
