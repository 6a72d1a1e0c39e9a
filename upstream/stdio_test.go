package upstream

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

func TestStdio_ModernChildIsShared(t *testing.T) {
	s, _ := newStdio(t, "modern")
	var all sync.WaitGroup
	pids := make([]string, 8)
	for i := range pids {
		all.Go(func() {
			c := dialStdio(t, s, session.Principal(fmt.Sprint("p", i)))
			// All use one id and one token.
			st := do(t, c, modernCallOf("7", "pid", ""))
			m := next(t, st)
			if m.ID.String() != "7" {
				t.Errorf("id %s", m.ID)
			}
			pids[i] = resultText(m)
			if _, err := st.Next(); err != io.EOF {
				t.Errorf("after the answer: %v", err)
			}
		})
	}
	all.Wait()
	for _, pid := range pids[1:] {
		if pid != pids[0] || pid == "" {
			t.Errorf("children %q", pids)
		}
	}
}

func TestStdio_BytesPassButForIDs(t *testing.T) {
	s, _ := newStdio(t, "modern")
	const head, tail = `{"jsonrpc":"2.0","id":`, `,"method":"tools/call","params":{"name":"raw","arguments":{"text":"<&> \u2028 \ud83d \u0000 é"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	out := session.Outgoing{Msg: []byte(head + "\n" + `"\u0061 b"` + "\r\n" + tail), Version: "2026-07-28"}
	m := next(t, do(t, dialStdio(t, s, me), out))
	if m.ID.String() != `"\u0061 b"` {
		t.Errorf("id %s", m.ID)
	}
	sent, err := hex.DecodeString(resultText(m))
	if err != nil || string(sent) != head+"1"+tail+"\n" {
		t.Errorf("the child got %s", sent)
	}
}

// TestStdio_ModernCancel: the end of a stream is a cancel on the wire, with our id;
// no answer of it reaches anybody.
func TestStdio_ModernCancel(t *testing.T) {
	s, l := newStdio(t, "modern")
	c := dialStdio(t, s, me)
	st := do(t, c, modernCallOf("7", "hang", ""))
	m := next(t, st)
	if token, _ := m.At("params", "progressToken").Str(); token != "tok" {
		t.Errorf("progress under %s", m.Raw)
	}
	st.Close()
	eventually(t, "cancel", func() bool { return strings.Contains(l.String(), "cancelled 1") })
	if _, err := st.Next(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestStdio_Listen(t *testing.T) {
	s, l := newStdio(t, "modern")
	c := dialStdio(t, s, me)
	one := do(t, c, modernMessage(`"a"`, "subscriptions/listen", ""))
	two := do(t, c, modernMessage(`"b"`, "subscriptions/listen", ""))
	for id, st := range map[string]session.Stream{"a": one, "b": two} {
		for _, method := range []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed"} {
			m := next(t, st)
			if sub, _ := m.At("params", "_meta", translate.MetaSubscription).Str(); sub != id || m.Method != method {
				t.Errorf("stream %s got %s", id, m.Raw)
			}
		}
	}
	one.Close()
	eventually(t, "cancel", func() bool { return strings.Contains(l.String(), "cancelled 1") })
}

func TestStdio_LegacyChildIsASession(t *testing.T) {
	s, _ := newStdio(t, "legacy")
	c, other := dialStdio(t, s, me), dialStdio(t, s, "other")
	a, _ := openSession(t, c)
	b, _ := openSession(t, c)
	pidA := resultText(next(t, do(t, c, legacyCallOf(a, "1", "pid", ""))))
	pidB := resultText(next(t, do(t, c, legacyCallOf(b, "1", "pid", ""))))
	if pidA == pidB || a == b {
		t.Errorf("sessions %s %s share child %s", a, b, pidA)
	}
	// A session is nobody else's.
	if st := do(t, other, legacyCallOf(a, "1", "pid", "")); st.Envelope().Status != 404 {
		t.Errorf("another's session: %+v", st.Envelope())
	}
	if st := do(t, c, session.Outgoing{Verb: "DELETE", Session: a}); st.Envelope().Status != 200 {
		t.Errorf("DELETE: %+v", st.Envelope())
	}
	if st := do(t, c, legacyCallOf(a, "2", "pid", "")); st.Envelope().Status != 404 {
		t.Errorf("after DELETE: %+v", st.Envelope())
	}
	if pid := resultText(next(t, do(t, c, legacyCallOf(b, "2", "pid", "")))); pid != pidB {
		t.Errorf("the other session moved to %s", pid)
	}
}

func TestStdio_ShareChild(t *testing.T) {
	s, _ := newStdio(t, "legacy", func(o *StdioOptions) { o.Share = true })
	c, other := dialStdio(t, s, me), dialStdio(t, s, "other")
	a, _ := openSession(t, c)
	b, _ := openSession(t, other)
	pidA := resultText(next(t, do(t, c, legacyCallOf(a, "1", "pid", ""))))
	pidB := resultText(next(t, do(t, other, legacyCallOf(b, "1", "pid", ""))))
	if pidA != pidB || a == b {
		t.Errorf("children %s and %s", pidA, pidB)
	}
	// A question goes to who is in a call; nobody else can answer it.
	st := do(t, c, legacyCallOf(a, "2", "ask", ""))
	q := next(t, st)
	if q.Method != "elicitation/create" {
		t.Fatalf("got %s", q.Raw)
	}
	do(t, other, legacyMessage(b, `{"jsonrpc":"2.0","id":"q-1","result":{"action":"stolen"}}`))
	do(t, c, legacyMessage(a, `{"jsonrpc":"2.0","id":"q-1","result":{"action":"mine"}}`))
	if text := resultText(next(t, st)); text != `{"action":"mine"}` {
		t.Errorf("answered %s", text)
	}
}

// TestStdio_UnattachedQuestion: all messages arrive on one channel; a question
// belongs to the latest call, else to the session's own stream.
func TestStdio_UnattachedQuestion(t *testing.T) {
	s, l := newStdio(t, "legacy")
	c := dialStdio(t, s, me)
	sess, get := openSession(t, c)
	hang := do(t, c, legacyMessage(sess, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang","_meta":{"progressToken":5}}}`))
	if m := next(t, hang); string(m.At("params", "progressToken").Raw()) != "5" {
		t.Errorf("%s", m.Raw)
	}
	ask := do(t, c, legacyCallOf(sess, "2", "ask", ""))
	if m := next(t, ask); m.Method != "elicitation/create" {
		t.Fatalf("the asking call got %s", m.Raw)
	}
	do(t, c, legacyMessage(sess, `{"jsonrpc":"2.0","id":"q-1","result":{"action":"accept"}}`))
	next(t, ask)
	// ping is answered here.
	if text := resultText(next(t, do(t, c, legacyCallOf(sess, "3", "ping", "")))); text != "{}" {
		t.Errorf("ping: %s", text)
	}
	// Two calls are in flight, so a log line is nobody's: the session hears it.
	if text := resultText(next(t, do(t, c, legacyCallOf(sess, "4", "log", "")))); text != "logged" {
		t.Errorf("log: %s", text)
	}
	if m := next(t, get); m.Method != "notifications/message" {
		t.Errorf("session stream: %s", m.Raw)
	}
	// The cancel goes up with our id.
	do(t, c, legacyMessage(sess, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	eventually(t, "cancel", func() bool { return strings.Contains(l.String(), "cancelled 2") })
}

// TestCaseB39_ProcessDeath: every caller gets one error at once; a task of the
// child has failed; the next session has a fresh child.
func TestCaseB39_ProcessDeath(t *testing.T) {
	s, l := newStdio(t, "legacy")
	c := dialStdio(t, s, me)
	sess, get := openSession(t, c)
	if m := next(t, do(t, c, legacyCallOf(sess, "1", "task", ""))); m.Kind != jsonrpc.Response {
		t.Fatal(string(m.Raw))
	}
	hang := do(t, c, legacyCallOf(sess, "2", "hang", ""))
	bye := do(t, c, legacyCallOf(sess, "3", "bye", ""))
	for name, st := range map[string]session.Stream{"bye": bye, "hang": hang, "get": get} {
		_, err := st.Next()
		var de *session.DialError
		if !errors.As(err, &de) || de.Fail != session.FailProcess || !strings.Contains(err.Error(), "exit code 3") || !strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
		if _, again := st.Next(); again == nil {
			t.Errorf("%s: a second answer", name)
		}
	}
	if !strings.Contains(l.String(), "server process says") {
		t.Error("standard error was not logged")
	}
	if st := do(t, c, legacyCallOf(sess, "4", "pid", "")); st.Envelope().Status != 404 {
		t.Errorf("dead session: %+v", st.Envelope())
	}
	for _, id := range []string{sess, "another"} {
		m := next(t, do(t, c, legacyMessage(id, `{"jsonrpc":"2.0","id":5,"method":"tasks/get","params":{"taskId":"t9"}}`)))
		if status, _ := m.Result().Get("status").Str(); status != "failed" || m.ID.String() != "5" {
			t.Errorf("task: %s", m.Raw)
		}
		m = next(t, do(t, c, legacyMessage(id, `{"jsonrpc":"2.0","id":6,"method":"tasks/result","params":{"taskId":"t9"}}`)))
		if m.Kind != jsonrpc.ErrorResponse {
			t.Errorf("tasks/result: %s", m.Raw)
		}
	}
	if st := do(t, dialStdio(t, s, "other"), legacyMessage(sess, `{"jsonrpc":"2.0","id":5,"method":"tasks/get","params":{"taskId":"t9"}}`)); st.Envelope().Status != 404 {
		t.Error("another principal sees the task")
	}
	again, _ := openSession(t, c)
	if text := resultText(next(t, do(t, c, legacyCallOf(again, "1", "echo", `"text":"back"`)))); text != "back" {
		t.Errorf("after the restart: %s", text)
	}
}

func TestStdio_ModernDeath(t *testing.T) {
	s, _ := newStdio(t, "modern")
	c := dialStdio(t, s, me)
	next(t, do(t, c, modernCallOf("1", "modern-task", "")))
	if _, err := do(t, c, modernCallOf("2", "bye", "")).Next(); err == nil || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("got %v", err)
	}
	m := next(t, do(t, c, modernMessage("3", "tasks/get", `"taskId":"t9",`)))
	if status, _ := m.Result().Get("status").Str(); status != "failed" || !m.Result().Get("error").Exists() {
		t.Errorf("task: %s", m.Raw)
	}
	if text := resultText(next(t, do(t, c, modernCallOf("4", "echo", `"text":"back"`)))); text != "back" {
		t.Errorf("after the restart: %s", text)
	}
}

// TestSafetyS56_StderrTail: callers on other machines get a reference.
func TestSafetyS56_StderrTail(t *testing.T) {
	s, l := newStdio(t, "legacy", func(o *StdioOptions) { o.ShowTail = false })
	c := dialStdio(t, s, me)
	sess, _ := openSession(t, c)
	_, err := do(t, c, legacyCallOf(sess, "3", "bye", "")).Next()
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "exit code 3") {
		t.Fatalf("got %v", err)
	}
	_, ref, _ := strings.Cut(err.Error(), "reference ")
	ref, _, _ = strings.Cut(ref, " ")
	if ref == "" || !strings.Contains(l.String(), "reference="+ref) {
		t.Errorf("reference %q is not in the log", ref)
	}
}

// TestSafetyS30_Stdio: answers to nothing are dropped, a second answer too.
func TestSafetyS30_Stdio(t *testing.T) {
	s, l := newStdio(t, "legacy")
	c := dialStdio(t, s, me)
	sess, _ := openSession(t, c)
	do(t, c, legacyCallOf(sess, "1", "hang", ""))
	st := do(t, c, legacyCallOf(sess, "2", "noise", ""))
	if text := resultText(next(t, st)); text != "first" {
		t.Errorf("got %s", text)
	}
	if m, err := st.Next(); err != io.EOF {
		t.Errorf("then %v %v", m, err)
	}
	if text := resultText(next(t, do(t, c, legacyCallOf(sess, "3", "echo", `"text":"on"`)))); text != "on" {
		t.Errorf("got %s", text)
	}
	if !strings.Contains(l.String(), "no JSON-RPC message") {
		t.Error("noise was not logged")
	}
}

func TestCaseB59_Stdio(t *testing.T) {
	s, _ := newStdio(t, "legacy", func(o *StdioOptions) { o.MaxMessage = 1 << 20 })
	c := dialStdio(t, s, me)
	sess, _ := openSession(t, c)
	hang := do(t, c, legacyCallOf(sess, "9", "hang", ""))
	// The id is found in what is discarded, the rest goes on.
	for _, tool := range []string{"big-id-last", "big"} {
		_, err := do(t, c, legacyCallOf(sess, "1", tool, `"bytes":2000000`)).Next()
		var de *session.DialError
		if !errors.As(err, &de) || de.Fail != session.FailTooLarge {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if text := resultText(next(t, do(t, c, legacyCallOf(sess, "2", "big", `"bytes":1000000`)))); len(text) != 1000000 {
		t.Errorf("%d bytes", len(text))
	}
	// A line that never ends: the child ends, each pending call gets one error.
	endless := do(t, c, legacyCallOf(sess, "3", "endless", ""))
	if _, err := endless.Next(); err == nil {
		t.Error("an answer without end came")
	}
	if _, err := hang.Next(); err == nil || !strings.Contains(err.Error(), "without an end") {
		t.Errorf("the other call: %v", err)
	}
}

func TestStdio_TwelveMiB(t *testing.T) {
	s, _ := newStdio(t, "legacy")
	c := dialStdio(t, s, me)
	sess, _ := openSession(t, c)
	if text := resultText(next(t, do(t, c, legacyCallOf(sess, "1", "big", `"bytes":12582912`)))); len(text) != 12<<20 {
		t.Errorf("%d bytes came", len(text))
	}
	big := strings.Repeat("y", 12<<20)
	if text := resultText(next(t, do(t, c, legacyCallOf(sess, "2", "echo", `"text":"`+big+`"`)))); text != big {
		t.Errorf("%d bytes came back", len(text))
	}
	// Killed in the middle of one: an error, no half message.
	if _, err := do(t, c, legacyCallOf(sess, "3", "half", "")).Next(); err == nil || !strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("half a message: %v", err)
	}
}

// TestStdio_ChildDoesNotRead: who writes to it waits, within its context.
func TestStdio_ChildDoesNotRead(t *testing.T) {
	s, _ := newStdio(t, "legacy", func(o *StdioOptions) {
		o.Command, o.MaxMessage = []string{"sleep", "60"}, 1<<20
	})
	c := dialStdio(t, s, me)
	st, err := c.Do(t.Context(), legacyMessage("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	sess := st.Envelope().Header.Get("Mcp-Session-Id")
	big := strings.Repeat("y", 1<<19)
	for i := range 10 {
		if _, err = c.Do(ctx, legacyCallOf(sess, fmt.Sprint(i+2), "echo", `"text":"`+big+`"`)); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("everything was taken")
	}
}

func TestStdio_MaxChildren(t *testing.T) {
	s, _ := newStdio(t, "legacy", func(o *StdioOptions) { o.MaxChildren = 1 })
	c := dialStdio(t, s, me)
	sess, _ := openSession(t, c)
	_, err := c.Do(t.Context(), legacyMessage("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`))
	var de *session.DialError
	if !errors.As(err, &de) || de.Fail != session.FailBusy {
		t.Errorf("got %v", err)
	}
	do(t, c, session.Outgoing{Verb: "DELETE", Session: sess})
	openSession(t, c)
}

// TestCaseB55_NeverAnswers: a child that never answers is ended at the start
// limit.
func TestCaseB55_NeverAnswers(t *testing.T) {
	s, _ := newStdio(t, "silent", func(o *StdioOptions) { o.StartLimit = 300 * time.Millisecond })
	_, err := do(t, dialStdio(t, s, me), legacyMessage("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)).Next()
	if err == nil || !strings.Contains(err.Error(), "initialize within 300ms") {
		t.Errorf("got %v", err)
	}
	eventually(t, "no child left", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.pipes) == 0 })
}

func TestStdioProbe(t *testing.T) {
	for _, c := range probeCases("exit code 7") {
		t.Run(c.how, func(t *testing.T) {
			s, _ := newStdio(t, c.how, func(o *StdioOptions) {
				if c.how == "silent" {
					o.StartLimit = time.Second
				}
			})
			r, err := s.Probe(t.Context(), ProbeOptions{Upstream: "up", LegacyFace: true})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v", err)
				}
				if de, ok := errors.AsType[*session.DialError](err); !ok || de.Fail != session.FailProcess && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("not known as a failed start: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Era != c.era || r.Version != c.version || r.Dual != c.dual {
				t.Errorf("%+v", r)
			}
			kept := 0
			if c.era == translate.Modern {
				kept = 1
			}
			eventually(t, "children of the probe are gone", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.pipes) == kept })
		})
	}
}

func TestStdio_NotThere(t *testing.T) {
	s, _ := newStdio(t, "", func(o *StdioOptions) { o.Command = []string{"no-such-server"} })
	_, err := s.Probe(t.Context(), ProbeOptions{})
	if err == nil || !strings.Contains(err.Error(), "no-such-server") || !strings.Contains(err.Error(), "PATH") {
		t.Errorf("got %v", err)
	}
}
