package operation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/capture/capturetest"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// TestGather shows each kind of operation in both eras. want has a line an
// operation: N kind method name outcome, then after, roles and what else is
// worth seeing.
func TestGather(t *testing.T) {
	for _, c := range gatherCases {
		t.Run(c.name, func(t *testing.T) {
			ops := operation.Gather(slices.Values(capturetest.Records(c.text)), translate.ClientLeg)
			var got []string
			for _, op := range ops {
				got = append(got, show(op))
			}
			want := strings.Split(strings.Trim(c.want, "\n"), "\n")
			for i := range want {
				want[i] = strings.TrimSpace(want[i])
			}
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

func show(op *operation.Operation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s", op.N, op.Kind, op.Method)
	if op.Name != "" {
		b.WriteString(" " + op.Name)
	}
	fmt.Fprintf(&b, " %s %s", op.Era, op.Outcome)
	if op.Status != 0 {
		fmt.Fprintf(&b, " %d", op.Status)
	}
	if len(op.After) > 0 {
		fmt.Fprintf(&b, " after%v", op.After)
	}
	b.WriteString(" |")
	for _, p := range op.Parts {
		b.WriteString(" " + string(p.Role))
		if p.To >= 0 {
			fmt.Fprintf(&b, ">%d", p.To)
		}
	}
	for _, q := range op.Questions {
		fmt.Fprintf(&b, " | %s %s", q.Key, q.Method)
		switch {
		case q.Answer != nil:
			b.WriteString(" " + string(q.Answer))
		case q.Error != nil:
			b.WriteString(" error")
		case q.Withdrawn:
			b.WriteString(" withdrawn")
		}
	}
	if op.TaskID != "" {
		fmt.Fprintf(&b, " | task %s %s", op.TaskID, op.TaskStatus)
	}
	if op.Pages > 0 {
		fmt.Fprintf(&b, " | pages %d", op.Pages)
	}
	if op.More {
		b.WriteString(" more")
	}
	switch {
	case op.Result != nil && op.Kind != operation.Open:
		b.WriteString(" | " + string(op.Result))
	case op.Error != nil:
		b.WriteString(" | " + string(op.Error))
	}
	if op.Gap {
		b.WriteString(" | gap")
	}
	return b.String()
}

const legacyOpen = `
@ session= transport=http
> o 0 initialize {"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"me","version":"1"}}
@ session=S
< o 0 = {"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"it","version":"2"}}
> n - notifications/initialized
< n 202
`

var gatherCases = []struct{ name, text, want string }{
	{"legacy session", legacyOpen + `
> g GET
> a 1 tools/list
> b 2 tools/call {"name":"one","_meta":{"progressToken":7}}
< b - notifications/progress {"progressToken":7,"progress":1}
< a 1 = {"tools":[{"name":"one"}],"nextCursor":"c"}
< b - notifications/message {"level":"info","data":"x"}
< b 2 = {"content":[],"isError":true}
> c 3 tools/list {"cursor":"c"}
< c 3 = {"tools":[{"name":"two"}]}
< g - notifications/tools/list_changed
> d DELETE
< d 200
`, `
1 open initialize legacy ok | request reply>0 other reply>2
2 listen GET legacy ok after[1] | request other
3 list tools/list legacy ok after[1] | request reply>0 request reply>2 | pages 2 | {"tools":[{"name":"one"},{"name":"two"}]}
4 call tools/call one legacy tool-error after[1] | request progress log reply>0 | {"content":[],"isError":true}
5 close DELETE legacy ok after[3 4] | request reply>0
`},
	{"legacy task with a question", legacyOpen + `
> g GET
> a 1 tools/call {"name":"del","task":{"ttl":1}}
< a 1 = {"task":{"taskId":"T","status":"working"}}
> b 2 tasks/get {"taskId":"T"}
< b 2 = {"taskId":"T","status":"working"}
< g - notifications/tasks/status {"taskId":"T","status":"input_required"}
> c 3 tasks/result {"taskId":"T"}
< c 1 elicitation/create {"message":"sure?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"T"}}}
> e 1 = {"action":"accept"}
< e 202
< c 3 = {"content":[{"type":"text","text":"done"}]}
> f 4 tasks/get {"taskId":"T"}
< f 4 = {"taskId":"T","status":"completed"}
> h 5 tasks/list
< h 5 = {"tasks":[{"taskId":"T"}]}
`, `
1 open initialize legacy ok | request reply>0 other reply>2
2 listen GET legacy ok after[1] | request
3 task tools/call del legacy ok after[1] | request reply>0 poll reply>2 status poll ask answer>6 reply>7 reply>5 poll reply>10 | 1 elicitation/create {"action":"accept"} | task T completed | {"content":[{"type":"text","text":"done"}]}
4 list tasks/list legacy ok after[3] | request reply>0 | pages 1 | {"tasks":[{"taskId":"T"}]}
`},
	{"legacy task that fails, one cancelled, one unknown", legacyOpen + `
> a 1 tools/call {"name":"x","task":{}}
< a 1 = {"task":{"taskId":"T","status":"working"}}
> b 2 tasks/result {"taskId":"T"}
< b 2 ! {"code":-32000,"message":"no"}
> c 3 tools/call {"name":"y","task":{}}
< c 3 = {"task":{"taskId":"U","status":"working"}}
> d 4 tasks/cancel {"taskId":"U"}
< d 4 = {"taskId":"U","status":"cancelled"}
> e 5 tasks/get {"taskId":"V"}
< e 5 ! {"code":-32602,"message":"gone"}
> f 6 tasks/get {"taskId":"W"}
< f 6 = {"taskId":"W","status":"working"}
> h 7 tasks/get {"taskId":"W"}
< h 7 = {"taskId":"W","status":"failed"}
`, `
1 open initialize legacy ok | request reply>0 other reply>2
2 task tools/call x legacy error after[1] | request reply>0 poll reply>2 | task T working | {"code":-32000,"message":"no"}
3 task tools/call y legacy cancelled after[2] | request reply>0 cancel reply>2 | task U cancelled
4 call tasks/get V legacy error after[3] | request reply>0 | {"code":-32602,"message":"gone"}
5 task tasks/get W legacy error after[4] | request reply>0 poll reply>2 | task W failed
`},
	{"legacy questions outside tasks", legacyOpen + `
> g GET
> a 1 tools/call {"name":"ask"}
< a "q" elicitation/create {"message":"name?"}
< g 8 roots/list
> b "q" ! {"code":-1,"message":"no"}
< b 202
< g - notifications/cancelled {"requestId":8}
< a 1 = {"content":[]}
< g 9 ping
> c 9 = {}
< c 202
> d 55 = {}
`, `
1 open initialize legacy ok | request reply>0 other reply>2
2 listen GET legacy ok after[1] | request other other>1 reply>2
3 call tools/call ask legacy ok after[1] | request ask ask answer>1 reply>3 cancel>2 reply>0 | "q" elicitation/create error | 8 roots/list withdrawn | {"content":[]}
4 notice  legacy ok after[3] | request
`},
	{"legacy stdio: cancel, refusal of nothing, same ids both ways", `
@ conn=c transport=stdio
> - 1 initialize {"protocolVersion":"2025-06-18","clientInfo":{"name":"p"}}
< - 1 = {"protocolVersion":"2025-06-18"}
> - - notifications/initialized
> - 2 tools/call {"name":"slow"}
< - 2 sampling/createMessage {"messages":[]}
> - 2 = {"role":"assistant"}
> - - notifications/cancelled {"requestId":2}
> - 3 ping
< - 3 = {}
< - 9 = {}
`, `
1 open initialize legacy ok | request reply>0 other
2 call tools/call slow legacy cancelled after[1] | request ask answer>1 cancel>0 | 2 sampling/createMessage {"role":"assistant"}
3 call ping legacy ok after[2] | request reply>0 | {}
4 notice  legacy ok after[3] | request
`},
	{"log lines on a connection", `
@ conn=c transport=stdio
> - 1 tools/call {"name":"a"}
< - - notifications/message {"level":"info","data":"a's"}
> - 2 tools/call {"name":"b","_meta":{"progressToken":5}}
< - - notifications/message {"level":"info","data":"whose?"}
< - - notifications/progress {"progressToken":5,"progress":1}
< - 1 = {"content":[]}
< - - notifications/message {"level":"info","data":"b's"}
< - 2 = {"content":[]}
`, `
1 call tools/call a legacy ok | request log reply>0 | {"content":[]}
2 call tools/call b legacy ok | request progress log reply>0 | {"content":[]}
3 notice notifications/message legacy ok | request
`},
	{"an error without id on a connection", `
@ conn=c transport=stdio
> - 1 server/discover {}
< - null ! {"code":-32000,"message":"not initialized"}
> - 2 ping
> - 3 ping
< - null ! {"code":-32000,"message":"which?"}
`, `
1 open server/discover modern error | request reply>0 | {"code":-32000,"message":"not initialized"}
2 call ping legacy unfinished after[1] | request
3 call ping legacy unfinished after[1] | request
4 notice  legacy ok after[1] | request
`},
	{"refused by HTTP", legacyOpen + `
> a 1 tools/call {"name":"x"}
< a 401
> g GET
< g 405
> n - notifications/roots/list_changed
< n 404
> b 2 tools/list
< b - ! {"code":-32700,"message":"what?"}
> z POST
dropped 2
> c 3 tools/list
dropped 1
`, `
1 open initialize legacy ok | request reply>0 other reply>2
2 call tools/call x legacy refused 401 after[1] | request reply>0
3 listen GET legacy refused 405 after[2] | request reply>0
4 notice notifications/roots/list_changed legacy refused 404 after[3] | request reply>0
5 list tools/list legacy error after[4] | request reply>0 | {"code":-32700,"message":"what?"}
6 notice POST legacy ok after[5] | request
7 list tools/list legacy unfinished after[6] | request | gap
`},
	{"modern task with a question", `
@ era=modern client=me/1 transport=http
> o 1 server/discover {}
< o 1 = {"supportedVersions":["2026-07-28"],"resultType":"complete"}
> a 2 tools/call {"name":"del"}
< a 2 = {"resultType":"task","taskId":"T","status":"working"}
> l 3 subscriptions/listen {"notifications":{"taskIds":["T"]}}
< l - notifications/subscriptions/acknowledged {}
< l - notifications/tasks {"taskId":"T","status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"sure?"}}}}
> b 4 tasks/get {"taskId":"T"}
< b 4 = {"resultType":"complete","taskId":"T","status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"sure?"}}}}
> c 5 tasks/update {"taskId":"T","inputResponses":{"k":{"action":"accept"}}}
< c 5 = {"resultType":"complete"}
> d 6 tasks/get {"taskId":"T"}
< d 6 = {"resultType":"complete","taskId":"T","status":"completed","result":{"resultType":"complete","content":[]}}
< l 3 = {"resultType":"complete"}
`, `
1 open server/discover modern ok | request reply>0
2 task tools/call del modern ok after[1] | request reply>0 status poll reply>3 update reply>5 poll reply>7 | "k" elicitation/create {"action":"accept"} | task T completed | {"resultType":"complete","content":[]}
3 listen subscriptions/listen modern ok after[1] | request other reply>0 | {"resultType":"complete"}
`},
	{"modern rounds", `
@ era=modern client=me/1 transport=http
> a 1 tools/call {"name":"ask"}
< a 1 = {"resultType":"input_required","requestState":"s1","inputRequests":{"n":{"method":"elicitation/create","params":{}}}}
> b 2 tools/call {"name":"ask","requestState":"s1","inputResponses":{"n":{"action":"accept","content":{"n":1}}}}
< b 2 = {"resultType":"input_required","requestState":"s2","inputRequests":{"n":{"method":"elicitation/create","params":{}},"m":{"method":"roots/list"}}}
> c 3 tools/call {"name":"ask","requestState":"s2","inputResponses":{"n":{"action":"decline"}}}
< c 3 = {"resultType":"complete","content":[]}
> d 4 tools/call {"name":"ask","requestState":"s2"}
< d 4 ! {"code":-32602,"message":"used"}
> e 5 prompts/get {"name":"p"}
< e 5 = {"resultType":"input_required","inputRequests":{"n":{"method":"roots/list"}}}
> f 6 prompts/get {"name":"p","inputResponses":{"n":{"roots":[]}}}
< f 6 = {"resultType":"complete","messages":[]}
> h 7 tools/call {"name":"late"}
< h 7 = {"resultType":"input_required","requestState":"s3"}
`, `
1 call tools/call ask modern ok | request reply>0 request reply>2 request reply>4 | "n" elicitation/create {"action":"accept","content":{"n":1}} | "n" elicitation/create {"action":"decline"} | "m" roots/list | {"resultType":"complete","content":[]}
2 call tools/call ask modern error after[1] | request reply>0 | {"code":-32602,"message":"used"}
3 call prompts/get p modern ok after[2] | request reply>0 request reply>2 | "n" roots/list {"roots":[]} | {"resultType":"complete","messages":[]}
4 call tools/call late modern unfinished after[3] | request reply>0
`},
	{"modern rounds that become a task which fails", `
@ era=modern client=me/1 transport=stdio conn=x
> - 1 tools/call {"name":"ask"}
< - 1 = {"resultType":"input_required","requestState":"s1"}
> - 2 tools/call {"name":"ask","requestState":"s1"}
< - 2 = {"resultType":"task","taskId":"T","status":"working"}
> - 3 tools/list {}
< - 3 = {"tools":[],"nextCursor":"z"}
> - 4 tasks/cancel {"taskId":"T"}
< - 4 = {}
> - 5 tasks/get {"taskId":"T"}
< - 5 = {"taskId":"T","status":"failed","error":{"code":-1,"message":"x"}}
`, `
1 task tools/call ask modern error | request reply>0 request reply>2 cancel reply>4 poll reply>6 | task T failed | {"code":-1,"message":"x"}
2 list tools/list modern ok | request reply>0 | pages 1 more | {"tools":[]}
`},
}

func TestGatherWho(t *testing.T) {
	ops := operation.Gather(slices.Values(capturetest.Records(legacyOpen+`
> a 1 ping
@ session= era=modern client=new/2
> b 2 ping {}
`)), translate.ClientLeg)
	for i, want := range []string{"S me/1 2025-11-25", "S me/1 2025-11-25", " new/2 2026-07-28"} {
		if op := ops[i]; op.Session+" "+op.Client+" "+op.Version != want {
			t.Errorf("operation %d: %q %q %q, want %s", op.N, op.Session, op.Client, op.Version, want)
		}
	}
	if ops := operation.Gather(slices.Values(capturetest.Records(legacyOpen)), translate.ServerLeg); len(ops) != 0 {
		t.Errorf("%d operations on the other leg", len(ops))
	}
}

// Operations may be asked for at any time, and records added after that.
func TestGatherGrows(t *testing.T) {
	for _, c := range gatherCases {
		records := capturetest.Records(c.text)
		g := operation.NewGatherer(translate.ClientLeg)
		for _, r := range records {
			g.Add(r)
			g.Operations()
		}
		whole := operation.Gather(slices.Values(records), translate.ClientLeg)
		for i, op := range g.Operations() {
			if show(op) != show(whole[i]) {
				t.Errorf("%s: grown %s\nwhole %s", c.name, show(op), show(whole[i]))
			}
		}
	}
}

func FuzzGather(f *testing.F) {
	for _, c := range gatherCases {
		f.Add(capturetest.File(c.text))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		var records []*capture.Record
		for line := range strings.SplitSeq(string(file), "\n") {
			if r, _, err := capture.ParseLine([]byte(line)); err == nil {
				records = append(records, &r)
			}
		}
		for _, leg := range []translate.Leg{translate.ClientLeg, translate.ServerLeg} {
			checkGathered(t, records, leg)
		}
	})
}

// checkGathered: every message of the leg is a part of one operation, and what
// refers to another refers to an earlier one.
func checkGathered(t *testing.T, records []*capture.Record, leg translate.Leg) {
	want, got := 0, 0
	for _, r := range records {
		if r.Leg != leg || r.Dropped > 0 {
			continue
		}
		want++
		if batch, err := jsonrpc.DecodeBatch(r.Msg, jsonrpc.Limits{}); err == nil {
			want += len(batch) - 1
		}
	}
	for i, op := range operation.Gather(slices.Values(records), leg) {
		got += len(op.Parts)
		if op.N != i+1 || len(op.Parts) == 0 || op.Outcome == "" || op.Kind == "" {
			t.Errorf("operation %d: %s", i+1, show(op))
		}
		for k, p := range op.Parts {
			if p.To >= k {
				t.Errorf("part %d answers %d", k, p.To)
			}
		}
		for _, n := range op.After {
			if n >= op.N {
				t.Errorf("%d comes after %d", op.N, n)
			}
		}
	}
	if got != want {
		t.Errorf("%d parts of %d records", got, want)
	}
}
