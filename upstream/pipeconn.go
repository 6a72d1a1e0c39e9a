package upstream

import (
	"context"
	"net/http"

	"taskbridge/session"
	"taskbridge/translate/jsonrpc"
)

// openPipe is the conn of a probe: every message goes over this one link.
type openPipe struct {
	p *pipe
	f *face
}

var _ session.Conn = openPipe{}

// Do implements session.Conn.
func (c openPipe) Do(ctx context.Context, out session.Outgoing) (session.Stream, error) {
	m, err := jsonrpc.Decode(out.Msg, jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	if m.Kind != jsonrpc.Request {
		if err := c.p.notify(ctx, c.f, m); err != nil {
			return nil, err
		}
		return c.p.s.statusStream(http.StatusAccepted), nil
	}
	st := c.p.s.newStream(nil)
	if err := c.p.request(ctx, c.f, m, st); err != nil {
		return nil, err
	}
	return st, nil
}

// Close implements session.Conn; the link is the probe's to end.
func (c openPipe) Close() error { return nil }
