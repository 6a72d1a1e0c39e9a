package replay_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session/replay"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

// playFaults is what the planted faults show themselves in.
func playFaults(t *testing.T, c caller) {
	t.Helper()
	for _, call := range []struct {
		method string
		params any
	}{
		{"tools/call", tool("greet", map[string]any{"name": "Ada"})},
		{"tools/call", tool("greet", map[string]any{})},
		{"tools/call", tool("echo", map[string]any{"n": 1})},
		{"tools/call", tool("slow_plain", map[string]any{"seconds": 0.1})},
		{"tools/call", tool("ask_name", map[string]any{})},
		{"resources/read", map[string]any{"uri": "demo://none"}},
	} {
		if _, err := c.Call(t.Context(), call.method, call.params); err != nil {
			t.Fatal(err)
		}
	}
	cursor := ""
	for {
		params := map[string]string{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		r, err := c.Call(t.Context(), "tools/list", params)
		var page struct{ NextCursor string }
		if err == nil {
			err = r.Decode(&page)
		}
		if err != nil {
			t.Fatal(err)
		}
		if cursor = page.NextCursor; cursor == "" {
			return
		}
	}
}

func faultsLegacy(t *testing.T, hc *http.Client) {
	c := &peers.LegacyClient{URL: testURL, HTTP: hc, OnRequest: peers.Accept(map[string]any{"name": "Ada", "confirm": true})}
	if _, err := c.Initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	playFaults(t, c)
	progress := map[string]any{"name": "progress", "arguments": map[string]any{"steps": 3}, "_meta": map[string]any{"progressToken": "p"}}
	if _, err := c.Call(t.Context(), "tools/call", progress); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RunTask(t.Context(), "confirm_delete", map[string]any{"filename": "a.txt"}, nil); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func faultsModern(t *testing.T, hc *http.Client) {
	c := &peers.ModernClient{URL: testURL, HTTP: hc, Tasks: true}
	accept := peers.Accept(map[string]any{"name": "Ada", "confirm": true})
	playFaults(t, c)
	if _, err := c.RunTask(t.Context(), "ask_name", map[string]any{}, accept); err != nil {
		t.Fatal(err)
	}
	// One that can do nothing but listen gets no task made of its call.
	plain := &peers.ModernClient{URL: testURL, HTTP: hc, Capabilities: map[string]any{}}
	progress := map[string]any{"name": "progress", "arguments": map[string]any{"steps": 3}, "_meta": map[string]any{"progressToken": "p"}}
	if _, err := plain.Call(t.Context(), "tools/call", progress); err != nil {
		t.Fatal(err)
	}
	_ = plain.Close()
	if _, err := c.RunTask(t.Context(), "confirm_delete", map[string]any{"filename": "a.txt"}, accept); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// plant is a fault, where it shows, and what it is to be called.
type plant struct {
	name  string
	f     func(h peer) peer
	where string // method and name of the one operation that differs
	kind  compare.Kind
	grave compare.Severity
	path  string // begins the difference's
}

func said(say func(string, []byte) []byte) func(peer) peer {
	return func(h peer) peer { return &faulty{peer: h, say: say} }
}

var plants = []plant{
	{"wrong text", said(instead("tools/call", "Hello, Ada!", "Hello, Eve!")), "tools/call", compare.KindValue, compare.Changed, "$.result.content[0].text"},
	{"error code", said(func(m string, msg []byte) []byte {
		return instead("resources/read", `"code":-32602`, `"code":-32603`)(m, instead("resources/read", `"code":-32002`, `"code":-32603`)(m, msg))
	}), "resources/read demo://none", compare.KindCode, compare.Changed, "$.error.code"},
	{"1.0 for 1", said(instead("tools/call", `"structuredContent":{"n":1}`, `"structuredContent":{"n":1.0}`)), "tools/call echo", compare.KindSpelling, compare.Changed, "$.result.structuredContent.n"},
	{"missing notice", said(func(_ string, msg []byte) []byte {
		if strings.Contains(string(msg), "step 2 of 3") {
			return nil
		}
		return msg
	}), "tools/call progress", compare.KindNoNotice, "", "$.notices"},
	{"all notices missing", said(func(_ string, msg []byte) []byte {
		if strings.Contains(string(msg), `"notifications/progress"`) {
			return nil
		}
		return msg
	}), "tools/call progress", compare.KindNoNotice, compare.Worse, "$.notices"},
	{"other order", said(func(_ string, msg []byte) []byte {
		s := strings.NewReplacer("step 1 of 3", "step 2 of 3", "step 2 of 3", "step 1 of 3").Replace(string(msg))
		return []byte(s)
	}), "tools/call progress", "", "", "$.notices"},
	{"broken page", func(h peer) peer {
		return &faulty{peer: h, ask: func(m string, _ http.Header, body []byte) []byte {
			if m != "tools/list" {
				return body
			}
			return []byte(strings.Replace(string(body), `"cursor":"`, `"cursor":"not-`, 1))
		}}
	}, "tools/list", compare.KindOutcome, compare.Worse, "$.outcome"},
	{"changed schema", said(instead("tools/list", `"required":["name"]`, `"required":["name","age"]`)), "tools/list", compare.KindSchema, compare.Worse, "$.result.tools"},
	{"dropped tool", said(instead("tools/list", `"name":"greet"`, `"name":"salute"`)), "tools/list", compare.KindGone, compare.Worse, "$.result.tools"},
	{"isError flipped", said(instead("tools/call", `"text":"greet needs a name","type":"text"}],"isError":true`, `"text":"greet needs a name","type":"text"}],"isError":false`)), "tools/call greet", compare.KindOutcome, compare.Better, "$.outcome"},
	{"task that never ends", func(h peer) peer { return &faulty{peer: h, say: hanging, late: never} }, "tools/call confirm_delete", compare.KindOutcome, compare.Worse, "$.outcome"},
	{"question not asked", func(h peer) peer { return &faulty{peer: h, ask: otherTool("ask_name", "greet", `{"name":"Ada"}`)} }, "tools/call ask_name", compare.KindNotAsked, compare.Worse, "$.questions"},
	{"answer ignored", func(h peer) peer {
		return &faulty{peer: h, ask: func(_ string, _ http.Header, body []byte) []byte {
			return []byte(strings.ReplaceAll(string(body), `"action":"accept"`, `"action":"decline"`))
		}}
	}, "tools/call", compare.KindValue, compare.Changed, "$.result.content[0].text"},
	{"ten times slower", func(h peer) peer { return &faulty{peer: h, late: slowly} }, "tools/call slow_plain", compare.KindSlower, compare.Worse, "$"},
}

// TestPlantedFaults: each is found where it is and called what it is, and
// nothing else is.
func TestPlantedFaults(t *testing.T) {
	for _, play := range []struct {
		client string
		play   func(*testing.T, *http.Client)
	}{{"legacy", faultsLegacy}, {"modern", faultsModern}} {
		for _, era := range []string{"legacy", "modern"} {
			serve := func() peer {
				if era == "legacy" {
					return peers.NewLegacyServer(peers.ServerOptions{PageSize: 5})
				}
				return peers.NewModernServer(peers.ServerOptions{PageSize: 5})
			}
			t.Run(play.client+" client "+era+" server", func(t *testing.T) {
				var ops []*operation.Operation
				bubble(t, func(t *testing.T) {
					ops = recorded(t, serve(), func(hc *http.Client) { play.play(t, hc) })
				})
				for _, p := range slices.Concat([]plant{{name: "none", f: func(h peer) peer { return h }}}, plants) {
					t.Run(p.name, func(t *testing.T) {
						bubble(t, func(t *testing.T) { p.check(t, serve(), ops) })
					})
				}
			})
		}
	}
}

func (p plant) check(t *testing.T, server peer, ops []*operation.Operation) {
	all := replayed(t, p.f(server), ops, replay.Options{Concurrency: 8, Timeout: 10 * time.Second})
	found := 0
	for _, one := range all {
		if !one.Send || one.New == nil {
			if one.Reason != replay.Unfinished {
				t.Errorf("operation %d (%s %s) was not compared: %s %q", one.Op.N, one.Op.Method, one.Op.Name, one.Reason, one.Notes)
			}
			continue
		}
		r := compare.Operations(one.Op, one.New, compare.Options{Slower: compare.Slower{By: 100 * time.Millisecond, Factor: 2}})
		for _, d := range r.Differences {
			if d.Severity == compare.Note {
				continue
			}
			t.Logf("%s %s: %s %s at %s: %s: %s → %s", one.Op.Method, one.Op.Name, d.Severity, d.Kind, d.Path, d.Text, d.Was, d.Now)
			where := one.Op.Method + " " + one.Op.Name
			if p.where == "" || !strings.HasPrefix(where, p.where) {
				t.Errorf("a difference where nothing was planted: %s", where)
			}
			if (p.kind == "" || d.Kind == p.kind) && (p.grave == "" || d.Severity == p.grave) && strings.HasPrefix(d.Path, p.path) {
				found++
			}
		}
	}
	if (found == 0) != (p.where == "") {
		t.Errorf("found %d times", found)
	}
}
