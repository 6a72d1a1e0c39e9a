package main

import (
	"errors"
	"fmt"
	"io"

	"taskbridge/session/record"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// captured is a capture's client leg, and what is to be known of the rest.
type captured struct {
	header capture.Header
	ops    []*operation.Operation
	// whole: the capture has its end, and no line was left out or dropped.
	whole bool
	why   string // it is not
	// server is the era of the server behind the proxy that recorded it; unknown
	// where that leg is not in the capture.
	server translate.Era
}

// readCapture reads a capture's client leg. What cannot be read in it is told,
// and passed over.
func (a *app) readCapture(name string) (*captured, error) {
	file, err := record.Open(name, a.stdin)
	if err != nil {
		return nil, usagef("%w", err)
	}
	defer file.Close()
	g := operation.NewGatherer(translate.ClientLeg)
	c := &captured{header: file.Header()}
	for {
		r, err := file.Next()
		bad, unreadable := errors.AsType[*capture.FormatError](err)
		switch {
		case err == nil:
			c.look(&r)
			g.Add(&r)
			continue
		case unreadable:
			c.lacks("%v", bad)
			fmt.Fprintf(a.stderr, "%s: %v; the line is left out\n", file.Name, bad)
			continue
		case errors.Is(err, capture.ErrNotWhole):
			c.lacks("%v", err)
			fmt.Fprintf(a.stderr, "%s: %v\n", file.Name, err)
		case !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		break
	}
	if n := g.Dropped(); n > 0 {
		c.lacks("%d frames were dropped while it was recorded", n)
	}
	c.ops, c.whole = g.Operations(), c.why == ""
	return c, nil
}

func (c *captured) lacks(format string, args ...any) {
	if c.why == "" {
		c.why = fmt.Sprintf(format, args...)
	}
}

// look learns the server's era from the first thing it was asked beside the
// handshakes, of which a probe sends both.
func (c *captured) look(r *capture.Record) {
	if c.server != translate.EraUnknown || r.Leg != translate.ServerLeg || r.Dir != translate.ToServer || r.Msg == nil {
		return
	}
	m, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.Request {
		return
	}
	switch {
	case m.Method == "initialize" || m.Method == "server/discover" || m.Method == "ping":
	case m.At("params", "_meta", translate.MetaVersion).Exists():
		c.server = translate.Modern
	default:
		c.server = translate.Legacy
	}
}
