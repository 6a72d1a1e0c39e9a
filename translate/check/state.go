package check

import (
	"hash/maphash"
	"strings"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// What is remembered, at most. A request takes about 250 bytes with its place
// in the table; all tables full are about 60 MB.
const (
	maxLanes    = 4096
	maxStreams  = 32768
	maxRequests = 65536
	maxTokens   = 16384
	maxTasks    = 16384
	maxStates   = 16384
	maxTools    = 8192
	maxFound    = 16384
	// maxCaps bounds the capabilities kept of one side of a session, in bytes.
	maxCaps = 64 << 10
	// maxKeys bounds the input requests kept of one task.
	maxKeys = 64
)

var seed = maphash.MakeSeed()

// hash stands for a text that may be long. Two texts with one hash would be
// taken for one: at a million texts the chance is one in ten million.
func hash(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, p := range parts {
		h.WriteString(p)
		h.WriteByte(0xff)
	}
	return h.Sum64()
}

func hashBytes(b []byte) uint64 { return maphash.Bytes(seed, b) }

// table is an LRU that knows whether it forgot something.
type table[K comparable, V any] struct {
	*simplelru.LRU[K, V]
	forgot bool
}

func newTable[K comparable, V any](size int, gone func(K, V)) *table[K, V] {
	t := &table[K, V]{}
	lru, err := simplelru.NewLRU(size, func(k K, v V) {
		t.forgot = true
		if gone != nil {
			gone(k, v)
		}
	})
	if err != nil {
		panic(err) // of a size that is not positive
	}
	t.LRU = lru
	return t
}

// lane is what goes on in one session or on one connection of one leg. One that
// is shared holds the HTTP exchanges that have no session: they may be those of
// many clients, so nothing about order or ids can be said.
type lane struct {
	leg    translate.Leg
	n      uint64 // its own number
	shared bool
	conn   bool // a connection: messages of each direction are in order

	initLine    int
	answered    bool // initialize was
	initialized bool
	went        int // line of the first request behind initialize
	gaps        int // seen when it began
	rev         revision
	version     string
	clientCaps  jsonrpc.Value
	serverCaps  jsonrpc.Value
	modern      bool // carried a modern request
	logAsked    int  // modern requests that asked for log messages
	endedLine   int  // by DELETE or 404
	endedAt     time.Time
}

func (l *lane) began() bool { return l != nil && l.initLine > 0 }

type requestKey struct {
	lane uint64
	dir  translate.Direction
	id   uint64
}

// request is one that was sent.
type request struct {
	line     int
	method   string
	row      *methodRow
	modern   bool
	rev      revision
	id       uint64
	stream   uint64
	answered int // line
	name     string
	token    uint64
	progress float64 // last
	moved    bool    // there was progress
	asTask   bool    // params.task (legacy)
	task     *task   // what became of it, or what it asks about
	taskID   uint64
	gone     bool // the task had ended when it was asked
	caps     caps // declared on a modern request
	level    int8 // log level asked for, -1: none
	listen   *listen
	lacking  bool   // required _meta was missing
	related  uint64 // related-task of a server's question
}

// caps are what a modern client declared on a request.
type caps uint8

const (
	capTasks caps = 1 << iota
	capForm
	capURL
	capSampling
	capSamplingTools
	capRoots
)

// listen is what a subscription asked for.
type listen struct {
	acknowledged bool
	tools        bool
	prompts      bool
	resources    bool
	updates      bool
	tasks        bool
}

// stream is one HTTP exchange.
type stream struct {
	lane     *lane
	verb     string
	line     int
	modern   bool
	version  string // the header's
	rev      revision
	kind     jsonrpc.Kind
	req      *request
	resumes  bool
	moved    bool    // there was progress on a stream that resumes
	token    uint64  // of the last of it
	progress float64 // the last
	refused  bool    // the request could not be read
	told     bool    // its status was seen
	status   int
	events   bool // an event stream
	plain    bool // application/json
	afterEnd bool // sent in a session that had ended
}

type streamKey struct {
	leg  translate.Leg
	name uint64
}

type tokenKey struct {
	lane  uint64
	dir   translate.Direction // of the request
	token uint64
}

type taskKey struct {
	leg   translate.Leg
	owner uint64
	id    uint64
}

// task is what is known of one task on one leg.
type task struct {
	line       int
	modern     bool
	status     string
	terminal   int       // line where it was first seen to have ended
	stream     uint64    // that told so
	ended      time.Time // its lastUpdatedAt then, zero where it had none
	created    uint64
	createdAt  time.Time
	ttl        time.Duration // -1: none
	result     uint64        // of tasks/result
	resultLine int
	keys       map[uint64]uint64
	polled     bool
	seen       bool // as given by a call, not only named
	req        *request
}

type stateKey struct {
	leg   translate.Leg
	state uint64
}

// state is a requestState that was given.
type state struct {
	what uint64 // method and name
	id   uint64
	lane uint64
}

type toolKey struct {
	leg   translate.Leg
	owner uint64
	name  uint64
}

// tool is what a list said of one.
type tool struct {
	support string
	output  bool
	marks   []translate.ParamMark
}

func (c *Checker) laneOf(ev *event) *lane {
	r := ev.r
	var name string
	switch {
	case !isHTTP(r.Transport) && (r.Conn != "" || r.Transport != ""):
		name = r.Transport + "\x00" + r.Conn
	case r.Session != "":
		name = "\x00" + r.Session
	default:
		name = "\x00\x00" + r.Principal
	}
	key := hash(r.Leg.String(), name)
	if l, ok := c.lanes.Get(key); ok {
		return l
	}
	l := c.newLane(r.Leg)
	l.conn = !isHTTP(r.Transport)
	l.shared = !l.conn && r.Session == ""
	c.lanes.Add(key, l)
	return l
}

func (c *Checker) newLane(leg translate.Leg) *lane {
	c.named++
	return &lane{leg: leg, n: c.named, gaps: -1}
}

// isHTTP: each message has an exchange of its own. HTTP+SSE posts messages, but
// their answers come on the connection's one event stream.
func isHTTP(transport string) bool { return transport == "" || transport == translate.TransportHTTP }

// keepCaps copies capabilities, which outlive their record.
func keepCaps(v jsonrpc.Value) jsonrpc.Value {
	if v.Type() != jsonrpc.Object || len(v.Raw()) > maxCaps {
		return jsonrpc.Value{}
	}
	own, err := jsonrpc.ParseValue([]byte(strings.Clone(string(v.Raw()))))
	if err != nil {
		return jsonrpc.Value{}
	}
	return own
}
