package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// stdioLines runs taskbridge stdio on the lines of in, which end it, and
// returns what it wrote.
func stdioLines(t *testing.T, in string, args ...string) (code int, lines []string, stderr string) {
	t.Helper()
	var out, errs buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code = run(ctx, append([]string{"stdio", "--drain-timeout", "20s"}, args...), strings.NewReader(in), &out, &errs)
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("standard output has %q", line)
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return code, lines, errs.String()
}

const (
	initLine  = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"
	readyLine = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
)

func opening(version string) string { return fmt.Sprintf(initLine, version) + readyLine }

// has finds an answer by its id.
func answerOf(lines []string, id string) string {
	for _, l := range lines {
		if strings.Contains(l, `"id":`+id+`,`) || strings.Contains(l, `"id":`+id+`}`) {
			return l
		}
	}
	return ""
}

// TestStdio_BadLines: each bad line is answered for itself and the connection
// goes on.
func TestStdio_BadLines(t *testing.T) {
	in := opening("2025-11-25") +
		"no JSON\n" +
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}\n" + // case B29
		`{"jsonrpc":"2.0","id":2,"method":"ping","params":{},"id":3}` + "\n" +
		`[{"jsonrpc":"2.0","id":4,"method":"ping"}]` + "\n" +
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"greet","arguments":{"name":"` + strings.Repeat("x", 2<<20) + `"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"` + strings.Repeat("x", 2<<20) + `"},"id":6}` + "\n" +
		"\r\n   \n" +
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"}}}` + "\r\n" +
		`{"jsonrpc":"2.0","id":8,"method":"ping"}` // the last line needs no end
	code, lines, stderr := stdioLines(t, in, append([]string{"--max-message", "1MiB"}, peerArgs(t, false, true)...)...)
	if code != exitOK {
		t.Errorf("exit %d: %s", code, stderr)
	}
	for id, want := range map[string]string{
		"1": `-32700`, "5": "over the limit", "6": "over the limit", "7": "Hello, Ada!", "8": `"result":{}`, "null": "error",
	} {
		if got := answerOf(lines, id); !strings.Contains(got, want) {
			t.Errorf("id %s: got %q, want %q", id, got, want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(lines, "\n")[:3000])
	}
}

// TestStdio_Batch: 2025-03-26 has batches; all answers come in one array.
func TestStdio_Batch(t *testing.T) {
	in := opening("2025-03-26") + `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]` + "\n"
	_, lines, stderr := stdioLines(t, in, peer(t, peers.NewModernServer(peers.ServerOptions{})))
	last := lines[len(lines)-1]
	var batch []lineMessage
	if err := json.Unmarshal([]byte(last), &batch); err != nil || len(batch) != 2 {
		t.Errorf("%v: %s\n%s", err, last, stderr)
	}
}

// TestCaseB59_StdioClient: a line without end ends the connection; others of
// this process are not concerned, for there are none.
func TestCaseB59_StdioClient(t *testing.T) {
	in := io.MultiReader(strings.NewReader(opening("2025-11-25")+`{"jsonrpc":"2.0","id":1,"method":"`), endlessText{})
	var out, errs buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code := run(ctx, append([]string{"stdio", "--max-message", "1MiB"}, peerArgs(t, false, true)...), in, &out, &errs)
	if code != exitFailed || !strings.Contains(errs.String(), "four times") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if got := answerOf(strings.Split(out.String(), "\n"), "1"); !strings.Contains(got, "over the limit") {
		t.Errorf("the call was answered %q", got)
	}
}

type endlessText struct{}

func (endlessText) Read(p []byte) (int, error) {
	return copy(p, bytes.Repeat([]byte{'x'}, len(p))), nil
}

// TestCaseB55_Opening: a server that is not there is exit 3, or 4 for a
// credential it refuses. A legacy client is told; to a modern one any JSON-RPC
// error would mean "legacy".
func TestCaseB55_Opening(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(refusing.Close)
	legacy := fmt.Sprintf(initLine, "2025-11-25")
	modern := `{"jsonrpc":"2.0","id":"i","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
	for _, c := range []struct {
		name, in string
		args     []string
		code     int
		says     string
	}{
		{"no such program", legacy, []string{"--", "no-such-program"}, exitUnreachable, "no-such-program"},
		{"no such program, modern", modern, []string{"--", "no-such-program"}, exitUnreachable, "no-such-program"},
		{"exits at once", legacy, []string{"--", "sh", "-c", "echo key=hunter2 >&2; exit 7"}, exitUnreachable, "exit code 7"},
		{"silent", modern, []string{"--start-timeout", "300ms", "--", "sleep", "60"}, exitUnreachable, ""},
		{"nobody listens", legacy, []string{"http://127.0.0.1:1/mcp"}, exitUnreachable, ""},
		{"401", legacy, []string{refusing.URL + "/mcp"}, exitRefused, "authorization"},
		{"401, modern", modern, []string{refusing.URL + "/mcp"}, exitRefused, "authorization"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inR, inW := io.Pipe() // which does not end by itself
			defer inW.Close()
			var out, errs buffer
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			go io.WriteString(inW, c.in)
			code := run(ctx, append([]string{"stdio"}, c.args...), inR, &out, &errs)
			if code != c.code || !strings.Contains(errs.String(), c.says) {
				t.Errorf("exit %d: %s", code, errs.String())
			}
			if told := strings.Contains(out.String(), `"error"`); told != (c.in == legacy) {
				t.Errorf("wrote %q", out.String())
			}
		})
	}
}

// TestServe_Child: HTTP clients of both eras before a server that is a process.
func TestServe_Child(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(eraName(modern)+" server", func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pids")
			s := serve(t, append([]string{"-e", "TASKBRIDGE_TEST_PIDS=" + file, "--admin", "127.0.0.1:0"}, peerArgs(t, modern, true)...)...)
			m := modernClient(t, s.url)
			r, err := m.Call(t.Context(), "tools/call", map[string]any{"name": "greet", "arguments": map[string]any{"name": "Ada"}})
			if err != nil || r.Text() != "Hello, Ada!" {
				t.Errorf("modern client: %v %s", err, r.Raw)
			}
			l := legacyClient(t, s.url)
			r, err = l.Call(t.Context(), "tools/call", map[string]any{"name": "ask_name"})
			if err != nil || !strings.Contains(r.Text(), "Ada") {
				t.Errorf("legacy client: %v %s", err, r.Raw)
			}
			if r, err = m.Call(t.Context(), "no/such", nil); err != nil || r.Status != http.StatusNotFound {
				t.Errorf("an unknown method: %v HTTP %d %s", err, r.Status, r.Raw)
			}
			if status, _, _ := ask(t, "GET", s.admin+"/readyz", nil, ""); status != http.StatusOK {
				t.Errorf("readyz: %d", status)
			}
			if code := s.end(); code != exitOK {
				t.Errorf("exit %d: %s", code, s.stderr)
			}
		})
	}
}

// TestSafetyS56_Serve: what a process said before it ended is for callers on
// this machine; with a public URL callers may come from elsewhere.
func TestSafetyS56_Serve(t *testing.T) {
	for _, local := range []bool{true, false} {
		args := []string{"--upstream-era", "legacy"}
		if !local {
			args = append(args, "--public-url", "https://mcp.example/mcp")
		}
		s := serve(t, append(args, "--", "sh", "-c", "echo key=hunter2 >&2; exit 7")...)
		c := &peers.LegacyClient{URL: s.url}
		_, err := c.Initialize(t.Context())
		text := fmt.Sprint(err)
		if !strings.Contains(text, "exit code 7") || strings.Contains(text, "hunter2") != local || strings.Contains(text, "reference") == local {
			t.Errorf("local %v: %s", local, text)
		}
		if !strings.Contains(s.stderr.String(), "hunter2") {
			t.Errorf("the log does not have it: %s", s.stderr)
		}
		_ = c.Close()
		s.end()
	}
}
