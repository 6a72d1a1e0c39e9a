package translate

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"taskbridge/translate/jsonrpc"
)

// Leg names the half of the path a frame travels on.
type Leg uint8

const (
	// ClientLeg lies between the client and the proxy.
	ClientLeg Leg = iota + 1
	// ServerLeg lies between the proxy and the server.
	ServerLeg
)

func (l Leg) String() string {
	if l == ServerLeg {
		return "server"
	}
	return "client"
}

// Direction is the way a message flows, whichever leg it is on.
type Direction uint8

const (
	// ToServer is the way of a client's requests, answers and notifications.
	ToServer Direction = iota + 1
	// ToClient is the way of what a server says.
	ToClient
)

func (d Direction) String() string {
	if d == ToClient {
		return "to-client"
	}
	return "to-server"
}

// Envelope is what the transport said around a message: for HTTP the verb of
// a request or the status of a reply, and the protocol's own headers.
// A nil *Envelope means the transport has none (stdio, WebSocket).
type Envelope struct {
	Verb   string
	Status int
	Header http.Header
	// Proto is the version of HTTP, "1.1" or "2", and Peer who sent a request, as
	// far as the transport knows; of live messages alone, never captured.
	Proto string
	Peer  netip.AddrPort
}

// HTTPVersion is Envelope.Proto of a message over HTTP major.minor.
func HTTPVersion(major, minor int) string {
	switch {
	case major == 1 && minor == 1:
		return "1.1"
	case major < 2:
		return "1.0"
	}
	return strconv.Itoa(major)
}

// How a leg is spoken: Streamable HTTP, standard streams, WebSocket, or HTTP+SSE
// (2024-11-05 basic/transports).
const (
	TransportHTTP      = "http"
	TransportStdio     = "stdio"
	TransportWebSocket = "websocket"
	TransportSSE       = "sse"
)

// Frame is one message on one leg, as transports, captures and operations all
// know it. Msg is nil where the transport spoke without a message (a 401, a
// GET that opens a stream, a stream's end).
type Frame struct {
	Msg    *jsonrpc.Message
	Leg    Leg
	Dir    Direction
	Stream string
	HTTP   *Envelope
	Time   time.Time
	// Transport is how the leg is spoken: one of the Transport names. Conn
	// names the connection of transports that have one.
	Transport string
	Conn      string
	// Session is the legacy session's id and Principal who speaks, as the leg
	// has them: a capture keeps keyed hashes of both.
	Session   string
	Principal string
}
