package downstream

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// tapState is what the tap was shown of one HTTP exchange. Each message is shown
// once, before it is sent.
type tapState struct {
	to        session.Tap // nil: nobody looks
	transport string      // empty: Streamable HTTP
	conn      string      // of transports that have one
	stream    string
	msg       *jsonrpc.Message // of a request that may yet be refused
	asked     bool             // the request was shown
	told      bool             // what HTTP says of the reply was
	// parts: what is written is shown by those who have its parts, of a batch or
	// of a link.
	parts bool
}

// connName is a new name for a connection.
func (s *Server) connName(kind string) string {
	return kind + "-" + strconv.FormatInt(s.o.Shared.names.Add(1), 10)
}

// stream names the exchange, also where the hub never hears of it.
func (x *exchange) stream() string {
	if x.tap.stream == "" && x.tap.to != nil {
		x.tap.stream = x.s.connName("refused")
	}
	return x.tap.stream
}

// frame is the request as the hub and the tap get it.
func (x *exchange) frame(stream string, msg *jsonrpc.Message) translate.Frame {
	f := x.place(stream)
	f.Msg, f.Dir, f.Time = msg, translate.ToServer, x.start
	f.HTTP = &translate.Envelope{
		Verb: x.r.Method, Header: protocolHeaders(x.r.Header),
		Proto: translate.HTTPVersion(x.r.ProtoMajor, x.r.ProtoMinor), Peer: clientAddr(x.r, x.s.o.TrustedProxies),
	}
	if msg == nil {
		f.Msg = x.tap.msg
	}
	return f
}

// place is a frame of this exchange without what it says.
func (x *exchange) place(stream string) translate.Frame {
	f := translate.Frame{
		Leg:       translate.ClientLeg,
		Stream:    stream,
		Transport: translate.TransportHTTP,
		Session:   x.caller.Session,
		Principal: string(x.caller.Principal),
	}
	if x.caller.Era != translate.Modern && f.Session == "" {
		f.Session = x.r.Header.Get(translate.HeaderSession)
	}
	if x.tap.transport != "" {
		f.Transport, f.Conn, f.Session = x.tap.transport, x.tap.conn, ""
	}
	return f
}

// showRequest shows the request, once; a batch's messages are one each.
func (x *exchange) showRequest(f translate.Frame) {
	if x.tap.to == nil || x.tap.asked && !x.tap.parts {
		return
	}
	x.tap.asked = true
	x.tap.to.Frame(f)
}

// showReply shows what is about to be written; raw nil: there is no message.
func (x *exchange) showReply(status int, raw []byte) {
	if x.tap.to == nil || x.tap.parts || raw == nil && x.tap.told {
		return
	}
	f := x.replyFrame(x.stream())
	if !x.tap.told {
		x.tap.told = true
		h := protocolHeaders(x.w.Header())
		f.HTTP = &translate.Envelope{Status: status, Header: h}
		if id := h.Get(translate.HeaderSession); id != "" {
			f.Session = id
		}
	}
	session.Show(x.tap.to, f, raw)
}

// showPart shows what comes back for one message of a batch.
func (x *exchange) showPart(stream string, out session.Out) {
	if x.tap.to == nil || out.Raw == nil && !out.Final {
		return
	}
	f := x.replyFrame(stream)
	if out.Final {
		f.HTTP = &translate.Envelope{Status: max(out.Status, http.StatusOK), Header: protocolHeaders(out.Header)}
	}
	session.Show(x.tap.to, f, out.Raw)
}

func (x *exchange) replyFrame(stream string) translate.Frame {
	f := x.place(stream)
	f.Dir, f.Time = translate.ToClient, time.Now()
	return f
}

// protocolHeaders are the headers that belong to the protocol: what the tap
// sees. They carry no credentials.
func protocolHeaders(in http.Header) http.Header {
	out := make(http.Header, 4)
	for name, v := range in {
		switch name {
		case translate.HeaderLastEvent, "Traceparent", "Tracestate", "Accept", "Content-Type", "Www-Authenticate", "Retry-After", "Allow":
			out[name] = v
		default:
			if strings.HasPrefix(name, "Mcp-") {
				out[name] = v
			}
		}
	}
	return out
}

// hear shows a message of the client and names what belongs to it.
func (s *clientLink) hear(m *jsonrpc.Message) (stream string) {
	if s.o.Tap == nil {
		return ""
	}
	stream = s.o.Conn + "." + strconv.FormatInt(s.took.Add(1), 10)
	f := s.frame(stream)
	f.Msg, f.Dir = m, translate.ToServer
	s.o.Tap.Frame(f)
	return stream
}

// tell writes a message that is no part of a batch.
func (s *clientLink) tell(stream string, raw []byte) {
	s.show(stream, raw)
	s.write(raw)
}

// show shows a message that is about to be written.
func (s *clientLink) show(stream string, raw []byte) {
	if s.o.Tap == nil {
		return
	}
	session.Show(s.o.Tap, s.frame(stream), raw)
}

// showStatus shows an end that is a status alone.
func (s *clientLink) showStatus(stream string, out session.Out) {
	if s.o.Tap == nil {
		return
	}
	f := s.frame(stream)
	f.HTTP = &translate.Envelope{Status: out.Status, Header: protocolHeaders(out.Header)}
	s.o.Tap.Frame(f)
}

// frame is one toward the client.
func (s *clientLink) frame(stream string) translate.Frame {
	f := translate.Frame{
		Leg: translate.ClientLeg, Dir: translate.ToClient, Stream: stream, Time: time.Now(),
		Transport: s.o.Transport, Conn: s.o.Conn,
	}
	s.mu.Lock()
	f.Session, f.Principal = s.legacy.id, string(s.who.Principal)
	s.mu.Unlock()
	return f
}
