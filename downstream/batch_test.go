package downstream

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate/jsonrpc"
)

const batchBody = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`

func ids(t *testing.T, raw string) map[string]bool {
	t.Helper()
	got := map[string]bool{}
	msgs, err := jsonrpc.DecodeBatch([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	for _, m := range msgs {
		got[m.ID.String()] = true
	}
	return got
}

func TestCaseB28_Batch(t *testing.T) {
	r := newRig(t, nil, nil)
	for _, lines := range [][]string{
		{"Mcp-Session-Id: s"},
		{"Mcp-Session-Id: s", "MCP-Protocol-Version: 2025-03-26"},
		{"Mcp-Session-Id: s", "Accept: application/json"},
	} {
		got := r.post(batchBody, lines...)
		if got.status != 200 || got.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%v: %+v", lines, got)
		}
		if seen := ids(t, got.body); len(seen) != 2 || !seen["1"] || !seen["2"] {
			t.Errorf("%v: %s", lines, got.body)
		}
	}
	if got := r.post(`[` + notify + `,` + notify + `]`); got.status != 202 || got.body != "" || len(got.header["Content-Type"]) != 0 {
		t.Errorf("only notifications: %+v", got)
	}
	before := len(r.hub.calls())
	for _, tt := range []struct {
		body  string
		lines []string
	}{
		{`[]`, nil},
		{`[]`, []string{"MCP-Protocol-Version: 2025-03-26"}},
		{batchBody, []string{"MCP-Protocol-Version: 2025-06-18"}},
		{batchBody, []string{"MCP-Protocol-Version: 2025-11-25"}},
		{batchBody, []string{"MCP-Protocol-Version: 2024-11-05"}},
		{batchBody, []string{"MCP-Protocol-Version: 2026-07-28"}},
		{`[` + modernList + `]`, nil},
		{`[1]`, nil},
		{`[` + ping + `,{"jsonrpc":"2.0","id":1}]`, nil},
		{`[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}]`, nil},
		{`[` + strings.Repeat(notify+`,`, 100) + notify + `]`, nil},
	} {
		got := r.post(tt.body, tt.lines...)
		if got.status != 400 || !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","error":{"code":-32600,`) {
			t.Errorf("%.60s %v: %+v", tt.body, tt.lines, got)
		}
	}
	if got := r.post(`[` + ping + `,`); got.status != 400 || !strings.Contains(got.body, `-32700`) {
		t.Errorf("broken array: %+v", got)
	}
	if len(r.hub.calls()) != before {
		t.Error("part of a refused array reached the hub")
	}
}

func TestCaseB28_SlowBatchIsAStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hub := &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
			if in.Frame.Msg.Method == "tools/list" {
				time.AfterFunc(5*time.Second, func() { echo(in, s) })
				return
			}
			echo(in, s)
		}}
		r := newRig(t, hub, nil)
		got := r.post(batchBody, "Mcp-Session-Id: s")
		if got.header.Get("Content-Type") != "text/event-stream" || got.body != ": \n\ndata: "+string(result("1"))+"\n\ndata: "+string(result("2"))+"\n\n" {
			t.Errorf("%q", got.body)
		}
		if hub.left() != 3 {
			t.Errorf("%d streams left, want 3", hub.left())
		}
	})
}

func TestCaseB28_AllRefusedKeepsTheStatus(t *testing.T) {
	hub := &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
		s.Send(session.Out{Status: 404, Raw: jsonrpc.NewError(in.Frame.Msg.ID, -32600, "unknown session", nil), Final: true})
	}}
	r := newRig(t, hub, nil)
	got := r.post(batchBody)
	if got.status != 404 || !strings.HasPrefix(got.body, "[") {
		t.Errorf("%+v", got)
	}
}

// Clients read no answers beside a status of failure, so one that is refused
// must not take those of the others along.
func TestCaseB28_OneRefusedKeepsTheAnswers(t *testing.T) {
	hub := &fakeHub{on: func(in session.Inbound, s *session.ClientStream) {
		if in.Frame.Msg.Method == "tools/list" {
			s.Send(session.Out{Status: 503, Raw: jsonrpc.NewError(in.Frame.Msg.ID, -32603, "busy", nil), Final: true})
			return
		}
		echo(in, s)
	}}
	got := newRig(t, hub, nil).post(batchBody)
	if got.status != 200 || !strings.Contains(got.body, `"busy"`) || !strings.Contains(got.body, `"result"`) {
		t.Errorf("%+v", got)
	}
}

func TestBatchClientLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, &fakeHub{on: silent}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		res := r.open(ctx, req("POST", batchBody))
		if b, _ := io.ReadAll(io.LimitReader(res.Body, 4)); string(b) != ": \n\n" || res.StatusCode != http.StatusOK {
			t.Fatalf("%q", b)
		}
		cancel()
		synctest.Wait()
		if r.hub.left() != 3 {
			t.Errorf("%d of 3 streams left", r.hub.left())
		}
	})
}
