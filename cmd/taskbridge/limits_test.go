package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
)

const initializeCall = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// begin opens a legacy session and returns its id.
func (f *fileBridge) begin(path string) (status int, session string) {
	f.t.Helper()
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	status, header, _ := ask(f.t, http.MethodPost, f.root+path, h, initializeCall)
	return status, header.Get("Mcp-Session-Id")
}

// listen opens a GET stream, which stays open until the test ends.
func (f *fileBridge) listen(path, session string) int {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.root+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header = http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {session}, "Mcp-Protocol-Version": {"2025-11-25"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { resp.Body.Close() })
	return resp.StatusCode
}

// The limits at the top count over all routes, also those with limits of their
// own; a route's own count beside them, from when they are given.
func TestLimits_OverAllRoutes(t *testing.T) {
	up := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	const head = "listen: 127.0.0.1:0\nlimits: {total: {sessions: 4, streams: 3}}\nroutes:\n"
	route := func(name, limits string) string {
		return fmt.Sprintf("  - {name: %s, path: /%s, upstream: %q%s}\n", name, name, up, limits)
	}
	f := startFile(t, head+route("a", ", limits: {total: {sessions: 2, streams: 1}}")+route("b", "")+route("c", ""))
	var sessions []string
	begin := func(path string, want int) {
		t.Helper()
		status, id := f.begin(path)
		if status != want {
			t.Fatalf("a session at %s: %d, want %d", path, status, want)
		}
		sessions = append(sessions, id)
	}
	listen := func(path, id string, want int) {
		t.Helper()
		if status := f.listen(path, id); status != want {
			t.Fatalf("a stream at %s: %d, want %d", path, status, want)
		}
	}
	begin("/a", 200)
	begin("/a", 200)
	begin("/a", 429) // the route's own
	begin("/b", 200)
	listen("/a", sessions[0], 200)
	listen("/a", sessions[1], 429) // the route's own
	listen("/b", sessions[3], 200)
	if err := f.put(head + route("a", "") + route("b", ", limits: {total: {sessions: 1, streams: 2}}") + route("c", "")); err != nil {
		t.Fatal(err)
	}
	begin("/b", 429) // its own, which counts what was there before
	begin("/c", 200)
	begin("/c", 429) // over all
	begin("/a", 429)
	listen("/b", sessions[3], 200)
	listen("/c", sessions[5], 429) // over all
	if status, _, body := ask(t, http.MethodDelete, f.root+"/a", http.Header{"Mcp-Session-Id": {sessions[1]}}, ""); status != 200 {
		t.Fatalf("DELETE: %d %s", status, strings.TrimSpace(body))
	}
	begin("/c", 200)
}
