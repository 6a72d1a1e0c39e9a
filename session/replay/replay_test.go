package replay_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"taskbridge/cmd/peers"
	"taskbridge/session/replay"
)

// playLegacy is a day of a legacy client.
func playLegacy(t *testing.T) func(*http.Client) {
	return func(hc *http.Client) {
		c := &peers.LegacyClient{URL: testURL, HTTP: hc, OnRequest: peers.Accept(map[string]any{"name": "Ada", "confirm": true})}
		if _, err := c.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.OpenGET(t.Context()); err != nil {
			t.Fatal(err)
		}
		playCalls(t, c)
		progress := map[string]any{"name": "progress", "arguments": map[string]any{"steps": 3}, "_meta": map[string]any{"progressToken": "p"}}
		if _, err := c.Call(t.Context(), "tools/call", progress); err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"confirm_delete", "failing_job", "multi_input", "protocol_error_job"} {
			if _, err := c.RunTask(t.Context(), tool, map[string]any{"filename": "a.txt"}, nil); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Close()
	}
}

type caller interface {
	Call(ctx context.Context, method string, params any) (peers.Reply, error)
}

// playCalls are calls that look the same in both eras.
func playCalls(t *testing.T, c caller) {
	t.Helper()
	for _, call := range []struct {
		method string
		params any
	}{
		{"tools/list", nil},
		{"tools/call", tool("greet", map[string]any{"name": "Ada"})},
		{"tools/call", tool("greet", map[string]any{})},
		{"tools/call", tool("echo", json.RawMessage(`{"n":1.0,"deep":{"a":[1,2]}}`))},
		{"tools/call", tool("nothing_like_it", nil)},
		{"resources/read", map[string]any{"uri": "demo://readme"}},
		{"resources/read", map[string]any{"uri": "demo://none"}},
		{"prompts/get", map[string]any{"name": "hello", "arguments": map[string]string{"name": "Ada"}}},
	} {
		if _, err := c.Call(t.Context(), call.method, call.params); err != nil {
			t.Fatal(err)
		}
	}
}

func tool(name string, args any) map[string]any {
	p := map[string]any{"name": name}
	if args != nil {
		p["arguments"] = args
	}
	return p
}

// playModern is a day of a modern client. Two of one caller's that ask the same
// at the same time could not be told apart in a capture.
func playModern(t *testing.T) func(*http.Client) { return playModernWith(t, "a.txt") }

func playModernWith(t *testing.T, file string) func(*http.Client) {
	return func(hc *http.Client) {
		c := &peers.ModernClient{URL: testURL, HTTP: hc, Tasks: true}
		if _, err := c.Discover(t.Context()); err != nil {
			t.Fatal(err)
		}
		playCalls(t, c)
		for _, name := range []string{"confirm_delete", "failing_job", "multi_input", "ask_name", "protocol_error_job"} {
			_, err := c.RunTask(t.Context(), name, map[string]any{"filename": file}, peers.Accept(map[string]any{"name": "Ada", "confirm": true}))
			if err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Close()
	}
}

func newPeer(era string) peer {
	if era == "legacy" {
		return peers.NewLegacyServer(peers.ServerOptions{})
	}
	return peers.NewModernServer(peers.ServerOptions{})
}

// TestSameServer: what clients did before a server ends the same before another
// of its kind.
func TestSameServer(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		for name, play := range map[string]func(*testing.T) func(*http.Client){"legacy": playLegacy, "modern": playModern} {
			t.Run(name+" client "+era+" server", func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					ops := recorded(t, newPeer(era), play(t))
					wantSame(t, replayed(t, newPeer(era), ops, replay.Options{Concurrency: 8}))
				})
			})
		}
	}
}

// TestOtherServer: and before one of the other era, with the same tools.
func TestOtherServer(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		other := map[string]string{"legacy": "modern", "modern": "legacy"}[era]
		for name, play := range map[string]func(*testing.T) func(*http.Client){"legacy": playLegacy, "modern": playModern} {
			t.Run(name+" client from "+era+" to "+other, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					ops := recorded(t, newPeer(era), play(t))
					wantNoOther(t, replayed(t, newPeer(other), ops, replay.Options{Concurrency: 8}), bridged(t))
				})
			})
		}
	}
}
