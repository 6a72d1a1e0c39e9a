package session

// countMachine sends how often it was stepped to the stream the event names.
type countMachine struct {
	base
	N int64
}

func (c *countMachine) Step(x *Exec, ev Event) {
	c.N++
	x.Do(Send{Stream: ev.Name, Out: Out{Raw: intRaw(c.N)}})
}

func init() { kinds["count"] = func() machine { return new(countMachine) } }

// Count steps the operation count:NAME; its number goes to stream.
func (r *Runner) Count(name, stream string) {
	r.deliver(OpID("count:"+name), Event{Kind: EvOp, Name: stream})
}
