package check

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate/capture"
)

// ruleCase is a script that breaks a rule, and one that is like it and does not.
type ruleCase struct{ rule, broken, kept string }

const toolList = `
> - {"jsonrpc":"2.0","id":"l","method":"tools/list"}
< - {"jsonrpc":"2.0","id":"l","result":{"tools":[{"name":"must","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},{"name":"never","inputSchema":{"type":"object"}},{"name":"out","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]}}
`

func replaced(s, old, by string) string {
	if !strings.Contains(s, old) {
		panic("no " + old + " in " + s)
	}
	return strings.ReplaceAll(s, old, by)
}

// without leaves lines out.
func without(s, part string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if !strings.Contains(line, part) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// strings2025 is the session in 2025-03-26, which has arrays and no tasks.
func strings2025(s string) string {
	s = replaced(s, "2025-11-25", "2025-03-26")
	return strings.Replace(s, `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`, "", 1)
}

func related(task string) string {
	return `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + task + `"}}`
}

func ask(message string) string {
	return `{"method":"elicitation/create","params":{"message":"` + message + `","requestedSchema":{"type":"object","properties":{}}}}`
}

func TestEachRule(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range slices.Concat(legacyCases, taskCases, modernCases) {
		tested[c.rule] = true
		broken := findings(t, Options{Direct: true}, c.broken)
		if !slices.ContainsFunc(broken, func(f Finding) bool { return f.Rule.ID == c.rule }) {
			t.Errorf("%s is not found in\n%s\nonly:\n%s", c.rule, c.broken, show(broken))
		}
		kept := findings(t, Options{Direct: true}, c.kept)
		for _, f := range kept {
			// What both scripts break is not what the case is about.
			if f.Severity > Note && !slices.Contains(ids(broken), f.Rule.ID) || f.Rule.ID == c.rule {
				t.Errorf("%s: found in what keeps it:\n%s\n%s", c.rule, show(kept), c.kept)
				break
			}
		}
		for _, f := range broken {
			if ref := f.Reference(); ref.URL == "" || ref.Text == "" || f.Leg == 0 || f.Side == Proxy || f.Line < 2 {
				t.Errorf("%s: says too little: %+v %+v", c.rule, f, ref)
			}
		}
	}
	for _, r := range rules {
		if group, _, _ := strings.Cut(r.ID, "/"); !tested[r.ID] && group != "capture" {
			t.Errorf("%s has no case", r.ID)
		}
	}
}

func TestWholeFile(t *testing.T) {
	read := func(text string) (got []Finding, err error) {
		src, err := capture.NewReader(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		err = New(Options{}, func(f Finding) { got = append(got, f) }).Capture(src, nil)
		return got, err
	}
	var b bytes.Buffer
	w, _ := capture.NewWriter(&b, capture.Header{By: "taskbridge"})
	for _, r := range script(t, opened+"drop 3\n") {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	cut := b.String()
	if got, err := read(cut + "{\"leg\":\n"); err != nil || strings.Join(ids(got), " ") != "capture/dropped capture/line capture/not-whole" || got[1].Line != 6 || got[2].Side != Recording {
		t.Errorf("%v\n%s", err, show(got))
	}
	if err := w.Close(false); err != nil {
		t.Fatal(err)
	}
	if got, err := read(b.String()); err != nil || strings.Join(ids(got), " ") != "capture/dropped" {
		t.Errorf("%v\n%s", err, show(got))
	}
	if err := New(Options{}, func(Finding) {}).Capture(broken{}, nil); err != io.ErrUnexpectedEOF {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

type broken struct{ capture.Source }

func (broken) Next() (capture.Record, error) { return capture.Record{}, io.ErrUnexpectedEOF }

// What the proxy passed on is the peer's fault, what it made its own.
func TestWhoseFault(t *testing.T) {
	bad := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}`
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	both := strings.ReplaceAll(opened, "conn=c", "conn=c leg=server") + "> - " + call + "\n" + replaced(opened, "conn=c", "conn=d leg=client") + "> - " + call + "\n"
	for _, c := range []struct {
		name, tail string
		want       []Side
	}{
		{"passed on", "@ leg=server conn=c\n< - " + bad + "\n@ leg=client conn=d\n< - " + bad, []Side{Server, Server}},
		{"made", "@ leg=client conn=d\n< - " + bad, []Side{Proxy}},
		{"by the client", "@ leg=client conn=d\n> - " + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}` + "\n@ leg=server conn=c\n> - " + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`, []Side{Client, Client}},
	} {
		var sides []Side
		for _, f := range findings(t, Options{}, both+c.tail) {
			sides = append(sides, f.Side)
		}
		if !slices.Equal(sides, c.want) {
			t.Errorf("%s: %v, want %v", c.name, sides, c.want)
		}
	}
}

// What was taken out is not held against anybody.
func TestRedacted(t *testing.T) {
	got := findings(t, Options{Direct: true}, opened+`
@ redacted=key
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":"[redacted]"}}`)
	if len(got) > 0 {
		t.Error(show(got))
	}
}

// A server's question on a call's stream may have the call's own id: ids count
// by direction.
func TestQuestionOnAStream(t *testing.T) {
	got := findings(t, Options{Direct: true}, replaced(session, `"capabilities":{}}`, `"capabilities":{"roots":{}}}`)+`
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a"}}
< s3 200 Mcp-Session-Id=S Content-Type=text/event-stream {"jsonrpc":"2.0","id":3,"method":"roots/list"}
> s4 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":3,"result":{"roots":[]}}
< s4 202
< s3 0 Mcp-Session-Id=S {"jsonrpc":"2.0","id":3,"result":{"content":[]}}`)
	if len(got) > 0 {
		t.Error(show(got))
	}
}
