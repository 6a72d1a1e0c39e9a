package jsonrpc

import "strings"

// trackedPaths lists the objects and arrays whose members Decode records, one a
// row: names from the envelope down, parted by a blank, "*" for any member or
// element. The containers on the way to a row are recorded too.
//
// A repeated member is refused only here, because only here would a rule and the
// peer behind us pick different ones of the two. What no rule looks into
// (arguments, content, structuredContent, schemas, messages) stays untracked:
// its grammar is checked, its inside is never recorded.
var trackedPaths = []string{
	"params",
	"params _meta",
	"params _meta *", // clientInfo, clientCapabilities, related-task
	"params _meta io.modelcontextprotocol/clientCapabilities elicitation",
	"params _meta io.modelcontextprotocol/clientCapabilities sampling",
	"params _meta io.modelcontextprotocol/clientCapabilities roots",
	"params _meta io.modelcontextprotocol/clientCapabilities extensions",
	"params _meta io.modelcontextprotocol/clientCapabilities tasks",
	"params task",
	"params clientInfo",
	"params capabilities elicitation",
	"params capabilities sampling",
	"params capabilities roots",
	"params capabilities extensions",
	"params capabilities tasks",
	"params capabilities experimental",
	"params notifications taskIds",
	"params notifications resourceSubscriptions",
	"params inputResponses *",
	"params ref",
	"params inputRequests * params _meta",
	"params result _meta", // a DetailedTask inside notifications/tasks
	"params error",

	"result",
	"result _meta *",
	"result task _meta",
	"result tasks *",
	"result tools * execution",
	"result inputRequests * params _meta",
	"result result _meta",
	"result error",
	"result capabilities extensions",
	"result capabilities tools",
	"result capabilities resources",
	"result capabilities prompts",
	"result capabilities logging",
	"result capabilities completions",
	"result capabilities experimental",
	"result capabilities tasks requests tools",
	"result serverInfo",
	"result supportedVersions",

	"error data supported",
	"error data elicitations",
	"error data requiredCapabilities extensions",
}

// track says how to go on below a container whose members are recorded. A nil
// *track means the value is only checked.
type track struct {
	names []namedTrack
	any   *track
}

type namedTrack struct {
	name string
	sub  *track
}

var (
	trackEnvelope   = compilePaths(trackedPaths)
	trackEverything = newTrackEverything()
)

func newTrackEverything() *track {
	t := &track{}
	t.any = t
	return t
}

// child returns what to track of the member with this decoded name.
func (t *track) child(name []byte) *track {
	for i := range t.names {
		if t.names[i].name == string(name) {
			return t.names[i].sub
		}
	}
	return t.any
}

func compilePaths(rows []string) *track {
	root := &track{}
	for _, row := range rows {
		at := root
		for name := range strings.FieldsSeq(row) {
			at = at.step(name)
		}
	}
	root.mergeAny()
	return root
}

func (t *track) step(name string) *track {
	if name == "*" {
		if t.any == nil {
			t.any = &track{}
		}
		return t.any
	}
	for i := range t.names {
		if t.names[i].name == name {
			return t.names[i].sub
		}
	}
	sub := &track{}
	t.names = append(t.names, namedTrack{name, sub})
	return sub
}

// mergeAny copies what "*" tracks into the named siblings, so that a look-up
// needs one step only. It recurses over our own table, never over peer data.
func (t *track) mergeAny() {
	if t.any != nil {
		for i := range t.names {
			t.names[i].sub.add(t.any)
		}
		t.any.mergeAny()
	}
	for i := range t.names {
		t.names[i].sub.mergeAny()
	}
}

func (t *track) add(from *track) {
	for _, n := range from.names {
		t.step(n.name).add(n.sub)
	}
	if from.any != nil {
		t.step("*").add(from.any)
	}
}

// Paths says which objects and arrays of a text are recorded, where Decode's own
// choice is not the right one. It is safe for concurrent use.
type Paths struct{ t *track }

// NewPaths compiles rows like those Decode has: the names from the root down to
// an object or array whose members are wanted, "*" for any member or element.
// The containers on the way are recorded too, and so is the root.
func NewPaths(rows [][]string) *Paths {
	root := &track{}
	for _, row := range rows {
		at := root
		for _, name := range row {
			at = at.step(name)
		}
	}
	root.mergeAny()
	return &Paths{root}
}

// Parse reads a JSON text of any type, recording what the paths name; a
// repeated member is refused there only. Errors are *DecodeError.
func (p *Paths) Parse(raw []byte, lim Limits) (Value, error) {
	q := newParser(raw, lim)
	defer q.release()
	if err := q.parseWhole(p.t); err != nil {
		return Value{}, err
	}
	return Value{d: &doc{raw: raw, nodes: q.takeNodes()}, parent: noParent}, nil
}
