package check

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// Side is who did something.
type Side string

// The sides. Recording is a fault of the capture itself.
const (
	Client    Side = "client"
	Server    Side = "server"
	Proxy     Side = "proxy"
	Recording Side = "recording"
)

// Finding is one place where a rule is broken.
type Finding struct {
	// Line is the record's line in its file, from 1.
	Line int
	Rule *Rule
	// Severity is the rule's, unless it was lowered.
	Severity Severity
	// Message says what is wrong here. It may quote a peer: escape it.
	Message string
	// Leg is where; zero for what is wrong with the capture.
	Leg translate.Leg
	// Side is who is at fault. A fault that the proxy only passed on is that of
	// the peer it had it from.
	Side Side
	// See is an earlier record this one disagrees with, 0 for none.
	See int
	// Modern says which era's rule it is; Version the revision spoken, where the
	// capture tells.
	Modern  bool
	Version string
	// Method is the message's own or of what it answers.
	Method string
}

// Reference is where the specification has the rule.
func (f *Finding) Reference() Reference { return f.Rule.Reference(f.Modern) }

// Options of a Checker.
type Options struct {
	// Direct: there is no proxy between the two sides: what came over either leg
	// is the client's or the server's own.
	Direct bool
	// Middle: recording began when there was traffic already, so the beginning
	// of what is seen first may be missing.
	Middle bool
}

// OptionsFor reads them from a capture's header: only what we recorded
// ourselves has a proxy in it, and a first part begins with the proxy.
func OptionsFor(h capture.Header) Options {
	own := strings.HasPrefix(h.By, "taskbridge")
	return Options{Direct: !own, Middle: !own || h.Part > 1}
}

// Checker holds records against the rules, in the order given. It keeps nothing
// of a record but hashes and short words.
type Checker struct {
	o    Options
	emit func(Finding)

	lanes    *table[uint64, *lane]
	streams  *table[streamKey, *stream]
	requests *table[requestKey, *request]
	tokens   *table[tokenKey, *request]
	tasks    *table[taskKey, *task]
	states   *table[stateKey, *state]
	tools    *table[toolKey, *tool]
	found    *table[uint64, struct{}] // faults of peers, by what was said
	once     map[onceKey]bool
	named    uint64
	gaps     int
	assigns  [3]assigned // by leg
}

// assigned counts the sessions that answers to initialize gave and did not.
type assigned struct{ given, not int }

type onceKey struct {
	rule *Rule
	leg  translate.Leg
	side Side
}

// New makes a checker that gives every finding to emit.
func New(o Options, emit func(Finding)) *Checker {
	c := &Checker{o: o, emit: emit, once: map[onceKey]bool{}}
	c.lanes = newTable(maxLanes, func(_ uint64, l *lane) { c.laneEnds(l) })
	c.streams = newTable[streamKey, *stream](maxStreams, nil)
	c.requests = newTable[requestKey, *request](maxRequests, nil)
	c.tokens = newTable[tokenKey, *request](maxTokens, nil)
	c.tasks = newTable[taskKey, *task](maxTasks, nil)
	c.states = newTable[stateKey, *state](maxStates, nil)
	c.tools = newTable[toolKey, *tool](maxTools, nil)
	c.found = newTable[uint64, struct{}](maxFound, nil)
	return c
}

// event is one record on its way through the rules.
type event struct {
	r       *capture.Record
	m       *jsonrpc.Message // nil: HTTP alone
	lane    *lane
	st      *stream // nil: not HTTP, or unknown
	by      sender
	modern  bool
	rev     revision
	guessed bool // the revision was not told
	req     *request
	row     *methodRow
	body    jsonrpc.Value // params, result or error, with what definitions look at
}

// Capture reads all of src. The error is that of the file: what is wrong with a
// line is a finding. tick, if not nil, is called after every record.
func (c *Checker) Capture(src capture.Source, tick func()) error {
	for {
		r, err := src.Next()
		switch bad, isFormat := errors.AsType[*capture.FormatError](err); {
		case err == nil:
			c.Record(&r)
		case err == io.EOF:
			c.Finish()
			return nil
		case errors.Is(err, capture.ErrNotWhole):
			c.Finish()
			c.say(Finding{Line: src.Line(), Rule: ruleByID["capture/not-whole"], Message: "the last line is missing: recording was cut short"})
			return nil
		case isFormat:
			c.gaps++
			c.say(Finding{Line: bad.Line, Rule: ruleByID["capture/line"], Message: bad.Err.Error()})
		default:
			return err
		}
		if tick != nil {
			tick()
		}
	}
}

func (c *Checker) say(f Finding) {
	f.Side = Recording
	if f.Severity == 0 {
		f.Severity = f.Rule.Severity
	}
	c.emit(f)
}

// Finish looks at what was left open. Nothing may come after it.
func (c *Checker) Finish() {
	for _, l := range c.lanes.Values() {
		c.laneEnds(l)
	}
}

// Record looks at one record.
func (c *Checker) Record(r *capture.Record) {
	if r.Dropped > 0 {
		c.gaps++
		c.say(Finding{Line: r.Line, Rule: ruleByID["capture/dropped"], Message: fmt.Sprintf("%d frames are missing here", r.Dropped)})
		return
	}
	ev := &event{r: r, by: byClient}
	if r.Dir == translate.ToClient {
		ev.by = byServer
	}
	if r.Msg == nil {
		c.silent(ev)
		return
	}
	m, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{MaxMembers: maxNodes})
	if err == nil {
		ev.m = m
		c.message(ev)
		return
	}
	if errors.Is(err, jsonrpc.ErrBatch) {
		c.batch(ev)
		return
	}
	c.place(ev)
	c.unread(ev, err)
}

// known says whether all that came before in the event's lane was seen.
func (c *Checker) known(ev *event) bool {
	if c.requests.forgot || c.lanes.forgot || ev.lane == nil {
		return false
	}
	if ev.lane.began() {
		return ev.lane.gaps == c.gaps
	}
	return !c.o.Middle && c.gaps == 0
}

// find tells a finding about the sender of the event's message.
func (c *Checker) find(ev *event, id string, format string, args ...any) {
	c.findSee(ev, 0, id, format, args...)
}

func (c *Checker) findSee(ev *event, see int, id string, format string, args ...any) {
	rule := ruleByID[id]
	if rule == nil {
		panic("check: no rule " + id)
	}
	if rule.History && !c.known(ev) {
		return
	}
	text := rule.Says
	if format != "" {
		text = fmt.Sprintf(format, args...)
	}
	f := Finding{
		Line: ev.r.Line, Rule: rule, Severity: rule.Severity, Message: text, Leg: ev.r.Leg, See: see,
		Side: c.blame(ev, rule, text), Modern: ev.modern, Method: ev.method(),
	}
	if ev.modern {
		f.Version = revisions[r20260728-1]
	} else if !ev.guessed && ev.rev > 0 {
		f.Version = revisions[ev.rev-1]
	}
	if rule.Once {
		key := onceKey{rule, f.Leg, f.Side}
		if c.once[key] {
			return
		}
		c.once[key] = true
	}
	c.emit(f)
}

func (ev *event) method() string {
	switch {
	case ev.m != nil && ev.m.Method != "":
		return ev.m.Method
	case ev.req != nil:
		return ev.req.method
	}
	return ""
}

// blame says who is at fault: the sender, unless the proxy passed on what a peer
// did before on the other leg.
func (c *Checker) blame(ev *event, rule *Rule, text string) Side {
	peer := Client
	if ev.by == byServer {
		peer = Server
	}
	if c.o.Direct {
		return peer
	}
	key := hash(rule.ID, ev.r.Dir.String(), text)
	if (ev.r.Leg == translate.ClientLeg) == (ev.by == byClient) {
		c.found.Add(key, struct{}{})
		return peer
	}
	if c.found.Contains(key) {
		return peer
	}
	return Proxy
}
