package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/session/replay"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

// result sets members of what a method is answered with.
func result(method string, members map[string]any) func(string, []byte) []byte {
	return func(m string, msg []byte) []byte {
		var whole map[string]json.RawMessage
		if m != method || json.Unmarshal(msg, &whole) != nil || whole["result"] == nil {
			return msg
		}
		var r map[string]any
		_ = json.Unmarshal(whole["result"], &r)
		for key, v := range members {
			if f, ok := v.(func() any); ok {
				v = f()
			}
			r[key] = v
		}
		whole["result"], _ = json.Marshal(r)
		out, _ := json.Marshal(whole)
		return out
	}
}

// verdicts replays before h and says how the operations of a method came out.
func verdicts(t *testing.T, h peer, ops []*operation.Operation, method string, o replay.Options) (v []compare.Verdict, notes []string) {
	t.Helper()
	o.Plan, o.Hub = replay.NewPlan(ops, nil, everyTool), newRunner(t, h)
	out, err := replay.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range out.Report(compare.Options{}, nil).Pairs {
		if p.A.Method == method {
			v = append(v, p.Verdict)
			for _, d := range p.Differences {
				notes = append(notes, d.Text)
			}
		}
	}
	for _, r := range out.Results {
		if r.Op.Method == method {
			notes = append(notes, r.Notes...)
		}
	}
	return v, notes
}

var cursor = regexp.MustCompile(`"cursor":"c\d"`)

// TestHostileServers: none of them holds a replay up for ever, and each is told.
func TestHostileServers(t *testing.T) {
	var n atomic.Int64
	for _, c := range []struct {
		name   string
		f      func(peer) peer
		method string
		note   string
	}{
		{"a list without an end", func(h peer) peer {
			return &faulty{
				peer: h, say: result("tools/list", map[string]any{"nextCursor": func() any { return fmt.Sprint("c", n.Add(1)%3) }}),
				ask: func(_ string, _ http.Header, body []byte) []byte {
					return cursor.ReplaceAll(body, []byte(`"cursor":""`))
				},
			}
		}, "tools/list", "no end"},
		{"rounds without an end", said(result("tools/call", map[string]any{"resultType": "input_required", "requestState": "s", "inputRequests": map[string]any{}})), "tools/call", ""},
		{"questions without an end", said(result("tools/call", map[string]any{"resultType": "input_required", "inputRequests": map[string]any{
			"k": map[string]any{"method": "elicitation/create", "params": map[string]any{"message": "Your password?"}}}})), "tools/call", "no answer"},
		{"no answer at all", func(h peer) peer {
			return &faulty{peer: h, late: func(ctx context.Context, m string, _ []byte) {
				if m == "resources/read" {
					<-ctx.Done()
				}
			}}
		}, "resources/read", "not over after"},
		{"garbage", func(h peer) peer {
			return &faulty{peer: h, say: func(m string, msg []byte) []byte {
				if m == "prompts/get" {
					return []byte(`{"jsonrpc":"2.0","id":`)
				}
				return msg
			}}
		}, "prompts/get", ""},
	} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(c.name+", "+era, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					ops := recorded(t, newPeer(era), playModern(t))
					v, notes := verdicts(t, c.f(newPeer(era)), ops, c.method, replay.Options{Timeout: 20 * time.Second})
					if len(v) == 0 || !slices.Contains(v, compare.Different) && !slices.Contains(v, compare.Inconclusive) {
						t.Errorf("verdicts %v", v)
					}
					if c.note != "" && !(era == "legacy" && strings.Contains(c.name, "without an end") && c.method == "tools/call") &&
						!strings.Contains(strings.Join(notes, "\n"), c.note) {
						t.Errorf("notes %q, want %q", notes, c.note)
					}
				})
			})
		}
	}
}

// TestFull: what is too much to keep is not compared.
func TestFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ops := recorded(t, newPeer("modern"), playModern(t))
		size := int64(0)
		for _, op := range ops {
			for _, p := range op.Parts {
				size += int64(len(p.Record.Msg))
			}
		}
		full := 0
		for _, p := range replayed(t, newPeer("modern"), ops, replay.Options{MaxBytes: size / 2}) {
			if p.Full {
				full++
			}
		}
		if full == 0 || full == len(ops) {
			t.Errorf("%d of %d operations are not kept", full, len(ops))
		}
	})
}

// TestNeverSent: what must not go up does not, neither in a body nor in a header.
func TestNeverSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ops := recorded(t, newPeer("legacy"), playLegacy(t))
		for _, op := range ops {
			if op.Name == "greet" {
				op.Parts[0].Record.Redacted = []string{"secrets"}
			}
		}
		h := &faulty{peer: newPeer("legacy"), ask: func(_ string, h http.Header, body []byte) []byte {
			if bytes.Contains(body, []byte("greet")) {
				t.Errorf("sent: %s", body)
			}
			for name, v := range h {
				if strings.Contains(strings.Join(v, " "), "hash of") {
					t.Errorf("the capture's word for a session was sent: %s: %s", name, v)
				}
			}
			return body
		}}
		for _, p := range replayed(t, h, ops, replay.Options{}) {
			if p.Op.Name == "greet" && (p.Send || p.Reason != replay.Redacted || p.New != nil) {
				t.Errorf("operation %d: %+v", p.Op.N, p.Step)
			}
		}
	})
}
