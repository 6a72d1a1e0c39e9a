package usage

import "time"

// class is what a client wants with a method, as far as it matters to who needs
// the dialect.
type class uint8

const (
	// operation: something was asked of the server.
	operation class = iota
	// probe: the handshake, or a question whether somebody is there. Health
	// checks and scanners ask nothing else.
	probe
	// follow: about a task that an operation began; polls are no operations.
	follow
	// fetch: likewise, and its answer is the operation's.
	fetch
	// listen: a stream asked for by a request. That its client leaves is how it
	// ends.
	listen
)

// classes: methods not named here are operations.
var classes = map[string]class{
	"initialize":           probe,
	"ping":                 probe,
	"server/discover":      probe,
	"tasks/get":            follow,
	"tasks/cancel":         follow,
	"tasks/update":         follow,
	"tasks/result":         fetch,
	"subscriptions/listen": listen,
}

// longHold: a stream held open for so long is somebody's who waits for what the
// server has to say, not a check that the endpoint is alive.
const longHold = time.Minute
