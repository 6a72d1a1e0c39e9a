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

// Late tells an operation of every kind that is over of a timer and of a
// client that has gone.
func (r *Runner) Late() {
	for kind := range kinds {
		r.deliver(OpID(kind+":over"), Event{Kind: EvTimer, Name: "idle"})
		r.deliver(OpID(kind+":over"), Event{Kind: EvClientGone, Label: "stream"})
	}
}

// MarkOf is what records and event ids are named with.
func (h *Handles) MarkOf(kind, s string) string { return h.mark(kind, s) }

// Observe is what Client does for observers first.
func (r *Runner) Observe(in Inbound, s *ClientStream) {
	r.observe(in, s)
	s.seen.begin()
	_ = s.seen.origin()
}

// PickByWeight is what a Route decides by where no pin does.
func PickByWeight(names []string, weights []int, key string) string {
	t := &routeTable{}
	for i, name := range names {
		t.entries = append(t.entries, &routeEntry{member: &member{name: name}, weight: weights[i]})
	}
	if m := t.best(key, func(e *routeEntry) float64 { return float64(e.weight) }); m != nil {
		return m.name
	}
	return ""
}

// OnChoice has f called between the choice of an upstream for new work and its
// being counted there.
func (rt *Route) OnChoice(f func()) { rt.chosen = f }

// Say is what an operation's Send does.
func (r *Runner) Say(stream string, o Out) { r.send(stream, o) }

// KeepEvents begins the log of a stream of r, as for the reply to a request.
func (r *Runner) KeepEvents(s *ClientStream, session string) {
	s.log = &streamLog{r: r, stream: s.ID, session: session, id: []byte("1")}
	s.OpenEvents(nil)
}

// TakeOver lets the connection by read what is kept of a stream.
func (r *Runner) TakeOver(stream, by string) {
	r.deliver(logOp(stream), Event{Kind: EvOp, Name: "resume", Data: []byte(by)})
}

// StatusReads changes how many records of a kind Route.Status reads.
func StatusReads(n int) (back func()) {
	was := statusReads
	statusReads = n
	return func() { statusReads = was }
}
