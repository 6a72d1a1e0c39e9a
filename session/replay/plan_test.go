package replay_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/session/replay"
	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/operation"
)

// script makes a capture's records of lines "> message" and "< message", a
// millisecond apart, in one legacy session over HTTP.
func script(lines ...string) []*capture.Record {
	at := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	var out []*capture.Record
	for i, line := range lines {
		r := &capture.Record{
			Line: i + 2, Time: at.Add(time.Duration(i) * time.Millisecond), Leg: translate.ClientLeg, Transport: "http", Session: "s",
			Dir: translate.ToServer, Stream: "x" + string(rune('a'+i/2)), Msg: []byte(line[2:]),
		}
		if line[0] == '>' {
			r.Verb, r.Header = http.MethodPost, http.Header{}
		} else {
			r.Dir, r.Status = translate.ToClient, http.StatusOK
		}
		out = append(out, r)
	}
	return out
}

func gathered(records []*capture.Record) []*operation.Operation {
	return operation.Gather(slices.Values(records), translate.ClientLeg)
}

const toolsList = `{"jsonrpc":"2.0","id":1,"result":{"tools":[` +
	`{"name":"reads","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},` +
	`{"name":"writes","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"destructiveHint":false}},` +
	`{"name":"destroys","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}},` +
	`{"name":"liar","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":true}},` +
	`{"name":"titled","inputSchema":{"type":"object"},"annotations":{"title":"Titled"}},` +
	`{"name":"bare","inputSchema":{"type":"object"}}]}}`

func planned(names ...string) []*capture.Record {
	lines := []string{`> {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "< " + toolsList}
	for i, name := range names {
		id := string(rune('2' + i))
		lines = append(lines,
			`> {"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"`+name+`"}}`,
			`< {"jsonrpc":"2.0","id":`+id+`,"result":{"content":[]}}`)
	}
	return script(lines...)
}

// TestSafety: only a tool that says it reads is called again without leave.
func TestSafety(t *testing.T) {
	names := []string{"reads", "writes", "destroys", "liar", "titled", "bare", "unlisted"}
	for _, c := range []struct {
		name   string
		safety replay.Safety
		want   []replay.Reason // in the order of names
	}{
		{"nothing allowed", replay.Safety{}, []replay.Reason{
			"", replay.NotReadOnly, replay.NotReadOnly, replay.NotReadOnly, replay.Unannotated, replay.Unannotated, replay.Unannotated}},
		{"unannotated allowed", replay.Safety{AllowUnannotated: true}, []replay.Reason{
			"", replay.NotReadOnly, replay.NotReadOnly, replay.NotReadOnly, "", "", ""}},
		{"by name", replay.Safety{Allow: []string{"destroys", "bare"}}, []replay.Reason{
			"", replay.NotReadOnly, "", replay.NotReadOnly, replay.Unannotated, "", replay.Unannotated}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := replay.NewPlan(gathered(planned(names...)), nil, c.safety)
			if !plan.Steps[0].Send {
				t.Error("tools/list is not sent")
			}
			for i, want := range c.want {
				step := plan.Steps[i+1]
				if step.Reason != want || step.Send != (want == "") {
					t.Errorf("%s: got %q, send %t; want %q", names[i], step.Reason, step.Send, want)
				}
				if want != "" && !strings.Contains(step.Why, "--allow "+names[i]) {
					t.Errorf("%s: %q does not say how to allow it", names[i], step.Why)
				}
			}
		})
	}
}

// TestNotSent: what else is not sent, and why.
func TestNotSent(t *testing.T) {
	redacted := planned("reads")
	redacted[2].Redacted = []string{"secrets"}
	answer := planned("reads")
	answer[3].Redacted = []string{"secrets"}
	gap := planned("reads")
	gap = slices.Insert(gap, 3, &capture.Record{Time: gap[2].Time, Dropped: 2})
	for _, c := range []struct {
		name    string
		records []*capture.Record
		want    replay.Reason
		why     string
	}{
		{"a redacted request", redacted, replay.Redacted, "line 4"},
		{"a redacted answer", answer, "", ""},
		{"frames dropped meanwhile", gap, replay.Gap, "dropped"},
		{"no answer", planned("reads")[:3], replay.Unfinished, "ends before"},
		{"a method nobody knows", script(`> {"jsonrpc":"2.0","id":1,"method":"acme/wipe"}`, `< {"jsonrpc":"2.0","id":1,"result":{}}`),
			replay.Unannotated, "--allow acme/wipe"},
		{"a task made before", script(`> {"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`,
			`< {"jsonrpc":"2.0","id":1,"result":{"taskId":"t","status":"completed"}}`), replay.Needs, "task"},
		{"a task that was unknown then, too", script(`> {"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`,
			`< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`), "", ""},
		{"a later page", script(`> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"c"}}`,
			`< {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`), replay.Needs, "first page"},
		{"an answer to nothing", script(`> {"jsonrpc":"2.0","id":1,"result":{}}`), replay.Needs, "question"},
		{"a task of a tool that is not called", script(
			`> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bare","task":{}}}`,
			`< {"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working"}}}`,
			`> {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t"}}`,
			`< {"jsonrpc":"2.0","id":2,"result":{"taskId":"t","status":"completed"}}`,
			`> {"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["t"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
			`< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"}`), replay.Needs, "operation 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := replay.NewPlan(gathered(c.records), nil, replay.Safety{})
			step := plan.Steps[len(plan.Steps)-1]
			if step.Reason != c.want || !strings.Contains(step.Why, c.why) {
				t.Errorf("got %q (%s), want %q with %q", step.Reason, step.Why, c.want, c.why)
			}
		})
	}
}

// TestOnly: what is not selected is sent only where a selected one needs it.
func TestOnly(t *testing.T) {
	ops := gathered(planned("reads", "reads"))
	plan := replay.NewPlan(ops, func(op *operation.Operation) bool { return op.N == 3 }, replay.Safety{})
	for i, want := range []bool{false, false, true} {
		if plan.Steps[i].Send != want || plan.Steps[i].Selected != want {
			t.Errorf("operation %d: send %t", i+1, plan.Steps[i].Send)
		}
	}
}
