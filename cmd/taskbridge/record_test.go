package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session/record"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// verbsOf has a client on lines do what there is to do in its era.
func verbsOf(c *lineClient) {
	c.t.Helper()
	if c.modern {
		modernVerbs(c)
	} else {
		c.initialize()
		legacyVerbs(c)
	}
	c.call("tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}})
	c.call("tools/call", map[string]any{"name": "ask_name", "arguments": map[string]any{}})
	c.call("no/such", nil)
}

func serverPeer(t *testing.T, modern bool, w *witness) string {
	o := peers.ServerOptions{PollInterval: 20 * time.Millisecond, Trace: w.server}
	if modern {
		return peer(t, peers.NewModernServer(o))
	}
	return peer(t, peers.NewLegacyServer(o))
}

func eachEra(t *testing.T, f func(t *testing.T, clientModern, serverModern bool)) {
	for _, client := range []bool{false, true} {
		for _, server := range []bool{false, true} {
			t.Run(eraName(client)+" client, "+eraName(server)+" server", func(t *testing.T) { f(t, client, server) })
		}
	}
}

// Every message on both legs is in the capture once, whatever either side speaks:
// here on standard streams, before a process and before HTTP.
func TestRecordStdio(t *testing.T) {
	for _, process := range []bool{true, false} {
		t.Run(fmt.Sprintf("process %v", process), func(t *testing.T) {
			eachEra(t, func(t *testing.T, clientModern, serverModern bool) {
				key, handles := stateKey(t)
				client, server := newWitness(t, handles), newWitness(t, handles)
				file, log := filepath.Join(t.TempDir(), "a.jsonl.gz"), filepath.Join(t.TempDir(), "log")
				args := []string{"--record", file, "--state-key", key}
				if process {
					args = append(args, "-e", peerLog+"="+log, "-e", asPeer+"="+eraName(serverModern), "--", os.Args[0])
				} else {
					args = append(args, serverPeer(t, serverModern, server))
				}
				c := startStdio(t, clientModern, args...)
				c.saw = client.lines
				verbsOf(c)
				if code := c.end(); code != exitOK {
					t.Fatalf("exit %d", code)
				}
				if process {
					server.file(log+".in", translate.ToServer)
					server.file(log+".out", translate.ToClient)
				}
				records := recorded(t, file)
				exchanges(t, records)
				wantSame(t, translate.ClientLeg, messages(records, translate.ClientLeg), client.all)
				cut := cutOff(records)
				if process {
					// A process that was only asked what it speaks may end before it reads this.
					cut = append(cut, `to-server {"jsonrpc":"2.0","method":"notifications/initialized"}`)
				}
				wantSame(t, translate.ServerLeg, untilEnd(messages(records, translate.ServerLeg)), untilEnd(server.all), cut...)
			})
		})
	}
}

// As TestRecordStdio, over HTTP on both sides.
func TestRecordHTTP(t *testing.T) {
	eachEra(t, func(t *testing.T, clientModern, serverModern bool) {
		key, handles := stateKey(t)
		client, server := newWitness(t, handles), newWitness(t, handles)
		file := filepath.Join(t.TempDir(), "a.jsonl")
		s := serve(t, "--record", file, "--state-key", key, "--upstream", serverPeer(t, serverModern, server))
		ctx := t.Context()
		header := http.Header{"Authorization": {"Bearer s3cret-bearer"}, "Cookie": {"s=s3cret-cookie"}}
		var secrets []string
		if clientModern {
			c := &peers.ModernClient{URL: s.url, Tasks: true, Header: header, Trace: client.client}
			useModern(ctx, t, c)
			c.Close()
		} else {
			c := &peers.LegacyClient{URL: s.url, Header: header, Trace: client.client, OnRequest: peers.Accept(map[string]any{"name": "Ada", "confirm": true})}
			useLegacy(ctx, t, c)
			secrets = append(secrets, c.SessionID())
			c.Close()
		}
		if code := s.end(); code != exitOK {
			t.Fatalf("exit %d: %s", code, s.stderr)
		}
		records := recorded(t, file)
		exchanges(t, records)
		wantSame(t, translate.ClientLeg, messages(records, translate.ClientLeg), client.all)
		wantSame(t, translate.ServerLeg, untilEnd(messages(records, translate.ServerLeg)), untilEnd(server.all), cutOff(records)...)
		noSecret(t, file, "s3cret", "tb1_")
		noSecret(t, file, secrets...)
	})
}

func useModern(ctx context.Context, t *testing.T, c *peers.ModernClient) {
	t.Helper()
	for _, call := range []struct {
		method string
		params any
	}{
		{"server/discover", nil}, {"tools/list", nil}, {"no/such", nil},
		{"tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}}},
	} {
		if _, err := c.Call(ctx, call.method, call.params); err != nil {
			t.Errorf("%s: %v", call.method, err)
		}
	}
	if _, err := c.RunTask(ctx, "confirm_delete", map[string]any{"filename": "x"}, peers.Accept(map[string]any{"confirm": true})); err != nil {
		t.Error(err)
	}
}

func useLegacy(ctx context.Context, t *testing.T, c *peers.LegacyClient) {
	t.Helper()
	if _, err := c.Initialize(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.OpenGET(ctx); err != nil {
		t.Error(err)
	}
	for _, call := range []struct {
		method string
		params any
	}{
		{"ping", nil}, {"tools/list", nil}, {"no/such", nil},
		{"tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}}},
		{"tools/call", map[string]any{"name": "ask_name", "arguments": map[string]any{}}},
	} {
		if _, err := c.Call(ctx, call.method, call.params); err != nil {
			t.Errorf("%s: %v", call.method, err)
		}
	}
	if _, err := c.RunTask(ctx, "confirm_delete", map[string]any{"filename": "x"}, peers.Accept(map[string]any{"confirm": true})); err != nil {
		t.Error(err)
	}
}

// As TestRecordStdio, over WebSocket and HTTP+SSE: two proxies stand in a row, and
// what one says of its server leg the other says of its client leg.
func TestRecordChains(t *testing.T) {
	for _, transport := range []string{translate.TransportWebSocket, translate.TransportSSE} {
		t.Run(transport, func(t *testing.T) {
			eachEra(t, func(t *testing.T, clientModern, serverModern bool) {
				key, handles := stateKey(t)
				client, server := newWitness(t, handles), newWitness(t, handles)
				near, far := filepath.Join(t.TempDir(), "near.jsonl"), filepath.Join(t.TempDir(), "far.jsonl")
				s := serve(t, "--record", far, "--state-key", key, "--upstream", serverPeer(t, serverModern, server))
				args := []string{"--record", near, "--state-key", key}
				if transport == translate.TransportWebSocket {
					args = append(args, "ws"+strings.TrimPrefix(s.url, "http"))
				} else {
					args = append(args, "--upstream-transport", "sse", strings.TrimSuffix(s.url, "/mcp")+"/sse")
				}
				c := startStdio(t, clientModern, args...)
				c.saw = client.lines
				verbsOf(c)
				if code := c.end(); code != exitOK {
					t.Fatalf("exit %d", code)
				}
				if code := s.end(); code != exitOK {
					t.Fatalf("exit %d", code)
				}
				nearby, beyond := recorded(t, near), recorded(t, far)
				exchanges(t, nearby)
				exchanges(t, beyond)
				wantSame(t, translate.ClientLeg, messages(nearby, translate.ClientLeg), client.all)
				wantSame(t, translate.ServerLeg, untilEnd(messages(nearby, translate.ServerLeg)), untilEnd(messages(beyond, translate.ClientLeg)))
				wantSame(t, translate.ServerLeg, untilEnd(messages(beyond, translate.ServerLeg)), untilEnd(server.all), cutOff(beyond)...)
			})
		})
	}
}

// untilEnd leaves out what is still said when a session ends, which the other
// side may have left by then.
func untilEnd(messages []string) []string {
	return slices.DeleteFunc(slices.Clone(messages), func(m string) bool {
		for _, last := range []string{
			"the request ended without an answer", "the upstream server gave no answer", "the session has ended", "the client closed its stream",
			`{"jsonrpc":"2.0","error":`, `{"jsonrpc":"2.0","id":null,"error":`,
		} {
			if strings.Contains(m, last) {
				return true
			}
		}
		return false
	})
}

// noSecret: none of the texts is in the file.
func noSecret(t *testing.T, name string, texts ...string) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if at := bytes.Index(raw, []byte(text)); at >= 0 {
			t.Errorf("%q is in %s: …%s…", text, name, raw[max(0, at-100):min(len(raw), at+100)])
		}
	}
}

// readable counts the records of a capture and says what its end is.
func readable(name string) (n int, err error) {
	f, err := record.Open(name, nil)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for {
		if _, err := f.Next(); err != nil {
			return n, err
		}
		n++
	}
}

// Killed in the middle of traffic a recording can be read up to there, and says
// that it is not whole.
func TestRecordKilled(t *testing.T) {
	for _, ext := range []string{".jsonl", ".jsonl.gz"} {
		file := filepath.Join(t.TempDir(), "a"+ext)
		p := startProcess(t, "--record", file, "--upstream", peerArgs(t, true, false)[0])
		ctx, stop := context.WithCancel(t.Context())
		var calls atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			c := modernClient(t, p.url)
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := c.Call(ctx, "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}}); err != nil {
						return
					}
					calls.Add(1)
				}
			})
		}
		eventually(t, "something is in the file", func() bool {
			info, err := os.Stat(file)
			return err == nil && info.Size() > 10_000
		})
		p.signal(t, os.Kill)
		<-p.done
		stop()
		wg.Wait()
		n, err := readable(file)
		if !errors.Is(err, capture.ErrNotWhole) || n < 10 || n > 4*(int(calls.Load())+8)+20 {
			t.Errorf("%s: %d records of %d calls, ended by %v", ext, n, calls.Load(), err)
		}
	}
}

// A refusal is a status alone on both legs; of its challenge stays what is no
// secret.
func TestRecordRefusals(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="m", nonce="s3cret"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer up.Close()
	file := filepath.Join(t.TempDir(), "a.jsonl")
	s := serve(t, "--record", file, "--upstream", up.URL, "--upstream-era", "legacy")
	ask(t, "POST", s.url, http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer s3cret"}},
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	ask(t, "POST", s.url, http.Header{"Content-Type": {"text/plain"}}, `s3cret`)
	ask(t, "GET", s.url, http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {"s3cret"}}, "")
	s.end()
	records := recorded(t, file)
	exchanges(t, records)
	var got strings.Builder
	for _, r := range records {
		method := ""
		if m, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{}); err == nil {
			method = m.Kind.String() + " " + m.Method
		}
		got.WriteString(fmt.Sprintf("%s %s %s%d %s %s\n", r.Leg, r.Dir, r.Verb, r.Status, method, r.Header.Get("WWW-Authenticate")))
	}
	want := `client to-server POST0 request initialize 
server to-server POST0 request initialize 
server to-client 401  Bearer realm="m"
client to-client 401  Bearer realm="m"
client to-server POST0  
client to-client 415 error response  
client to-server GET0  
client to-client 404 error response  
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	noSecret(t, file, "s3cret")
}

// What is redacted is in no message, header or setting of either leg.
func TestRecordRedacted(t *testing.T) {
	for _, modern := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "a.jsonl")
		s := serve(t, "--record", file, "--redact", "value:Ad[a]", "--redact", "key:message", "--upstream", peerArgs(t, modern, false)[0])
		r, err := modernClient(t, s.url).Call(t.Context(), "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}})
		if err != nil || r.Text() != "Hello, Ada!" {
			t.Errorf("%v %s", err, r.Raw)
		}
		s.end()
		noSecret(t, file, "Ada", "Ad[a]")
		out := filepath.Join(t.TempDir(), "b.jsonl")
		if code, _, stderr := runArgs(t, "translate", file, "--to", "2025-11-25", "-o", out, "--redact", "value:Hello"); code != exitOK {
			t.Errorf("translate: exit %d, %s", code, stderr)
		}
		noSecret(t, out, "Hello")
		took := 0
		for _, r := range recorded(t, file) {
			if slices.Contains(r.Redacted, "value") {
				took++
			}
		}
		if took != 4 {
			t.Errorf("%d records say that something was taken", took)
		}
	}
}

func TestRecordFlags(t *testing.T) {
	there := filepath.Join(t.TempDir(), "a.jsonl")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"--redact secrets", "--redact: nothing is recorded"},
		{"--redact key --record x.jsonl", `--redact: "key": want secrets`},
		{"--record-rotate-every 1h", "--record-rotate-every: nothing is recorded"},
		{"--record " + there, there + " exists, and a recording overwrites nothing"},
		{"--record " + filepath.Dir(there) + "/none/a.jsonl", "no such file"},
	} {
		code, _, stderr := runArgs(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1/mcp"}, strings.Fields(tt.args)...)...)
		if code != exitUsage || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s: exit %d, %s", tt.args, code, stderr)
		}
	}
}

// Commands that read captures read what other programs keep as well.
func TestImportedCapture(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "a.ndjson"), filepath.Join(dir, "b.jsonl")
	lines := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}},"_meta":{"dir":"send","server":"s","ts":"2026-01-01T00:00:00Z"}}
{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}},"_meta":{"dir":"recv","server":"s","ts":"2026-01-01T00:00:01Z"}}
{"jsonrpc":"2.0","method":"notifications/initialized","_meta":{"dir":"send","server":"s","ts":"2026-01-01T00:00:02Z"}}
{"jsonrpc":"2.0","id":2,"method":"tools/list","_meta":{"dir":"send","server":"s","ts":"2026-01-01T00:00:03Z"}}
{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]},"_meta":{"dir":"recv","server":"s","ts":"2026-01-01T00:00:04Z"}}
`
	if err := os.WriteFile(in, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runArgs(t, "translate", in, "--to", "2026-07-28", "-o", out); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var methods strings.Builder
	for _, r := range recorded(t, out) {
		if m, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{}); err == nil && m.Method != "" {
			methods.WriteString(m.Method + " ")
		}
	}
	if !strings.Contains(methods.String(), "tools/list") || strings.Contains(methods.String(), "initialize") {
		t.Error(methods.String())
	}
}
