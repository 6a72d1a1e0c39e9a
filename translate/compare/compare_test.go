package compare_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture/capturetest"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

func gather(text string) []*operation.Operation {
	return operation.Gather(slices.Values(capturetest.Records(text)), translate.ClientLeg)
}

// session is one legacy session in which all happens that a fault can be
// planted in. %s is its id, and makes its streams its own.
const session = `
@ session= transport=http
> %[1]s-o 0 initialize {"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"me","version":"1"}}
@ session=%[1]s
< %[1]s-o 0 = {"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"tasks":{}},"serverInfo":{"name":"it","version":"2"}}
> %[1]s-n - notifications/initialized
< %[1]s-n 202
> %[1]s-g GET
> %[1]s-a 1 tools/list
< %[1]s-a 1 = {"tools":[{"name":"add","inputSchema":{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a"]}},{"name":"del","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}],"nextCursor":"c-%[1]s"}
> %[1]s-b 2 tools/list {"cursor":"c-%[1]s"}
< %[1]s-b 2 = {"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}
> %[1]s-c 3 tools/call {"name":"add","arguments":{"a":1},"_meta":{"progressToken":"p-%[1]s"}}
< %[1]s-c - notifications/progress {"progressToken":"p-%[1]s","progress":1,"total":2}
< %[1]s-c - notifications/progress {"progressToken":"p-%[1]s","progress":2,"total":2}
< %[1]s-c - notifications/message {"level":"info","data":"added"}
+ 20ms
< %[1]s-c 3 = {"content":[{"type":"text","text":"{\"sum\": 1, \"of\": [1, 2]}"},{"type":"text","text":"done by %[1]s-00000"}],"structuredContent":{"sum":1}}
> %[1]s-d 4 tools/call {"name":"ask","arguments":{}}
< %[1]s-d "q-%[1]s" elicitation/create {"message":"Which colour?","requestedSchema":{"type":"object"}}
+ 5s
> %[1]s-e "q-%[1]s" = {"action":"accept","content":{"colour":"red"}}
< %[1]s-e 202
< %[1]s-d 4 = {"content":[{"type":"text","text":"You like red"}]}
> %[1]s-f 5 tools/call {"name":"del","task":{"ttl":1}}
< %[1]s-f 5 = {"task":{"taskId":"task-%[1]s-00","status":"working","createdAt":"2026-01-01T00:00:0%[2]dZ"}}
> %[1]s-h 6 tasks/get {"taskId":"task-%[1]s-00"}
< %[1]s-h 6 = {"taskId":"task-%[1]s-00","status":"completed","createdAt":"2026-01-01T00:00:0%[2]dZ"}
> %[1]s-i 7 tasks/result {"taskId":"task-%[1]s-00"}
< %[1]s-i 7 = {"content":[{"type":"text","text":"task-%[1]s-00 deleted"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"task-%[1]s-00"}}}
> %[1]s-j 8 tools/call {"name":"bad"}
< %[1]s-j 8 ! {"code":-32602,"message":"no such tool"}
< %[1]s-g - notifications/resources/updated {"uri":"x:1"}
`

func sessions(ids ...string) string {
	var b strings.Builder
	for i, id := range ids {
		// The session's own id stands in a result: that it is another is no difference.
		b.WriteString(strings.ReplaceAll(fmt.Sprintf(session, id, i%10), id+"-00000", "them"))
	}
	return b.String()
}

// faults are planted one at a time in the second capture: old becomes repl.
var faults = []struct {
	name, old, repl string
	kind            compare.Kind
	severity        compare.Severity
	path            string
}{
	{"wrong text", "You like red", "You like blue", compare.KindValue, compare.Changed, "$.result.content[0].text"},
	{"wrong text in JSON in text", `[1, 2]`, `[1, 3]`, compare.KindValue, compare.Changed, "$.result.content[0].text.of[1]"},
	{"other error code", "-32602", "-32603", compare.KindCode, compare.Changed, "$.error.code"},
	{"1.0 for 1", `"structuredContent":{"sum":1}`, `"structuredContent":{"sum":1.0}`, compare.KindSpelling, compare.Changed, "$.result.structuredContent.sum"},
	{"1.0 for 1 in text", `{\"sum\": 1,`, `{\"sum\": 1.0,`, compare.KindSpelling, compare.Changed, "$.result.content[0].text.sum"},
	{"missing notice", `< A-c - notifications/message {"level":"info","data":"added"}`, "", compare.KindNoNotice, compare.Worse, "$.notices"},
	{"missing progress", `< A-c - notifications/progress {"progressToken":"p-A","progress":1,"total":2}`, "", compare.KindNoNotice, compare.Worse, "$.notices"},
	{"other notice", `"data":"added"`, `"data":"lost"`, compare.KindNotice, compare.Changed, "$.notices[2].params.data"},
	{"missing notice of the session", `< A-g - notifications/resources/updated {"uri":"x:1"}`, "", compare.KindNoNotice, compare.Worse, "$.notices"},
	{"progress in other order", `"progress":1,"total":2}
< A-c - notifications/progress {"progressToken":"p-A","progress":2,`, `"progress":2,"total":2}
< A-c - notifications/progress {"progressToken":"p-A","progress":1,`, compare.KindOrder, compare.Changed, "$.notices"},
	{"other order of elements", `[1, 2]`, `[2, 1]`, compare.KindOrder, compare.Changed, "$.result.content[0].text.of"},
	{"other order of tools", `{"name":"del","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}],"nextCursor":"c-A"}
> A-b 2 tools/list {"cursor":"c-A"}
< A-b 2 = {"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`, `{"name":"ask","inputSchema":{"type":"object"}}],"nextCursor":"c-A"}
> A-b 2 tools/list {"cursor":"c-A"}
< A-b 2 = {"tools":[{"name":"del","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`, compare.KindOrder, compare.Changed, "$.result.tools"},
	{"broken page", `< A-b 2 = {"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`, `< A-b 2 ! {"code":-32602,"message":"bad cursor"}`, compare.KindOutcome, compare.Worse, "$.outcome"},
	{"empty page", `< A-b 2 = {"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}`, `< A-b 2 = {"tools":[]}`, compare.KindGone, compare.Worse, "$.result.tools[?@.name=='ask']"},
	{"page twice", `< A-b 2 = {"tools":[`, `< A-b 2 = {"tools":[{"name":"add"},`, compare.KindAdded, compare.Note, "$.result.tools[?@.name=='add #2']"},
	{"changed schema", `"b":{"type":"number"}`, `"b":{"type":"string"}`, compare.KindSchema, compare.Worse, "$.result.tools[?@.name=='add'].inputSchema.properties.b.type"},
	{"new required argument", `"required":["a"]`, `"required":["b","a"]`, compare.KindSchema, compare.Worse, "$.result.tools[?@.name=='add'].inputSchema.required[0]"},
	{"dropped tool", `,{"name":"del","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`, ``, compare.KindGone, compare.Worse, "$.result.tools[?@.name=='del']"},
	{"added tool", `{"name":"del",`, `{"name":"new"},{"name":"del",`, compare.KindAdded, compare.Note, "$.result.tools[?@.name=='new']"},
	{"isError flipped", `"content":[{"type":"text","text":"You like red"}]`, `"isError":true,"content":[{"type":"text","text":"You like red"}]`, compare.KindOutcome, compare.Worse, "$.outcome"},
	{"error turned into a result", `! {"code":-32602,"message":"no such tool"}`, `= {"content":[]}`, compare.KindOutcome, compare.Better, "$.outcome"},
	{"task that never ends", `"status":"completed","createdAt":"2026-01-01T00:00:00Z"}
> A-i 7 tasks/result {"taskId":"task-A-00"}
< A-i 7 = {"content":[{"type":"text","text":"task-A-00 deleted"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"task-A-00"}}}`,
		`"status":"working"}`, compare.KindOutcome, compare.Worse, "$.outcome"},
	{"question not asked", `< A-d "q-A" elicitation/create {"message":"Which colour?","requestedSchema":{"type":"object"}}
+ 5s
> A-e "q-A" = {"action":"accept","content":{"colour":"red"}}
< A-e 202
`, "", compare.KindNotAsked, compare.Worse, "$.questions[0]"},
	{"other question", "Which colour?", "Which sound?", compare.KindQuestion, compare.Changed, "$.questions[0].params.message"},
	{"answer ignored: asked again", `> A-e "q-A" = {"action":"accept","content":{"colour":"red"}}
< A-e 202
`, `> A-e "q-A" = {"action":"accept","content":{"colour":"red"}}
< A-d "q2" elicitation/create {"message":"Which colour?","requestedSchema":{"type":"object"}}
> A-e "q2" = {"action":"accept","content":{"colour":"red"}}
`, compare.KindAsked, compare.Changed, "$.questions[1]"},
	{"answer ignored: other result", "You like red", "You like nothing", compare.KindValue, compare.Changed, "$.result.content[0].text"},
	{"slower by ten times", `"data":"added"}
+ 20ms`, `"data":"added"}
+ 200ms`, compare.KindSlower, compare.Worse, "$"},
	{"result gone", `,"structuredContent":{"sum":1}`, "", compare.KindGone, compare.Worse, "$.result.structuredContent"},
	{"refused", `< A-j 8 ! {"code":-32602,"message":"no such tool"}`, "< A-j 503", compare.KindOutcome, compare.Worse, "$.outcome"},
	{"less capable", `"tools":{"listChanged":true},`, ``, compare.KindGone, compare.Worse, "$.result.capabilities.tools"},
	{"call gone", `> A-j 8 tools/call {"name":"bad"}
< A-j 8 ! {"code":-32602,"message":"no such tool"}`, "", compare.KindMissing, compare.Worse, "$"},
}

var threshold = compare.Options{Slower: compare.Slower{By: 100 * time.Millisecond, Factor: 2}}

// TestPlantedFaults: each is found, under its name and nowhere else.
func TestPlantedFaults(t *testing.T) {
	whole := sessions("A", "B")
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			bad := strings.Replace(whole, f.old, f.repl, 1)
			if bad == whole {
				t.Fatal("the fault was not planted")
			}
			r := compare.Captures(gather(whole), gather(bad), threshold)
			found := differences(r)
			i := slices.IndexFunc(found, func(d compare.Difference) bool {
				return d.Kind == f.kind && d.Severity == f.severity && d.Path == f.path
			})
			if i < 0 {
				t.Errorf("not found; got %s", list(found))
			}
			for _, d := range found {
				if d.Text == "" {
					t.Errorf("%s %s has no words", d.Path, d.Kind)
				}
			}
			want := compare.Different
			if f.severity == compare.Note {
				want = compare.Same
			}
			if len(found) > 2 || r.Verdict() != want {
				t.Errorf("%s: %s", r.Verdict(), list(found))
			}
		})
	}
}

func differences(r *compare.Report) (out []compare.Difference) {
	for _, p := range r.Pairs {
		out = append(out, p.Differences...)
	}
	return out
}

func list(found []compare.Difference) string {
	var b strings.Builder
	for _, d := range found {
		fmt.Fprintf(&b, "\n%s %s %s: %s: %s -> %s", d.Severity, d.Kind, d.Path, d.Text, d.Was, d.Now)
	}
	return b.String()
}

// TestEqualCapturesShuffled: sessions in any order, calls within one too where
// they ran at once, other ids and times: no difference.
func TestEqualCapturesShuffled(t *testing.T) {
	ids := []string{"A", "B", "C", "D", "E"}
	// Sessions that ask the same and get something else each.
	own := func(ids []string, names []string) string {
		var b strings.Builder
		for i, id := range ids {
			b.WriteString(strings.ReplaceAll(fmt.Sprintf(session, id, i), id+"-00000", names[i]))
		}
		return b.String()
	}
	names := []string{"eins", "zwei", "drei", "vier", "fünf"}
	whole := gather(own(ids, names))
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		order := random.Perm(len(ids))
		var shuffled, said []string
		for i, k := range order {
			shuffled = append(shuffled, fmt.Sprintf("%c", 'V'+i))
			said = append(said, names[k])
		}
		r := compare.Captures(whole, gather(own(shuffled, said)), threshold)
		if found := differences(r); r.Verdict() != compare.Same || len(found) > 0 {
			t.Fatalf("seed %d: %s", seed, list(found))
		}
		if c := r.Counts(); c.Same != len(whole) {
			t.Errorf("%d of %d operations were compared", c.Same, len(whole))
		}
	}
}

func TestIgnore(t *testing.T) {
	whole := sessions("A")
	for _, c := range []struct{ old, repl, ignore string }{
		{"You like red", "You like blue", "$.result.content[*].text"},
		{"You like red", "You like blue", "result.content[0].text"},
		{`[1, 2]`, `[1, 3]`, "$.result.content[0].text.of[1]"},
		{`"b":{"type":"number"}`, `"b":{"type":"string"}`, "$.result.tools[?@.name=='add'].inputSchema.properties.b.type"},
		{"-32602", "-32603", "$..code"},
		{"Which colour?", "Which sound?", "$.questions[0].params.message"},
		{"Which colour?", "Which sound?", "$.questions"},
		{`"data":"added"`, `"data":"lost"`, "$.notices[?@.method=='notifications/message']"},
		{`! {"code":-32602,"message":"no such tool"}`, `= {"content":[]}`, "$['outcome','result','error']"},
	} {
		i, err := compare.ParseIgnore(c.ignore)
		if err != nil {
			t.Fatal(err)
		}
		r := compare.Captures(gather(whole), gather(strings.Replace(whole, c.old, c.repl, 1)), compare.Options{Ignore: []compare.Ignore{i}})
		if found := differences(r); len(found) > 0 {
			t.Errorf("%s: %s", c.ignore, list(found))
		}
	}
	r := compare.Captures(gather(whole), gather(strings.Replace(whole, `"sum":1}`, `"sum":1.00}`, 1)), compare.Options{IgnoreNumberSpelling: true})
	if found := differences(r); len(found) > 0 {
		t.Error(list(found))
	}
	if _, err := compare.ParseIgnore("$.["); err == nil {
		t.Error("a bad path passes")
	}
}

func TestInconclusive(t *testing.T) {
	whole := sessions("A")
	cut, _, _ := strings.Cut(whole, "< A-j 8")
	lost := strings.Replace(whole, "< A-c - notifications/message", "dropped 1\n#", 1)
	for _, c := range []struct {
		name, a, b string
		o          compare.Options
	}{
		{"the first ends before", cut, strings.Replace(whole, "< A-g -", "#", 1), compare.Options{}},
		{"the second breaks off", whole, cut + "\n< A-g - notifications/resources/updated {}", compare.Options{CutB: true}},
		{"frames were dropped", whole, lost, compare.Options{}},
	} {
		r := compare.Captures(gather(c.a), gather(c.b), c.o)
		if r.Verdict() != compare.Inconclusive {
			t.Errorf("%s: %s%s", c.name, r.Verdict(), list(differences(r)))
		}
	}
}

// Notes never hide what is grave, and the verdict knows what is not shown.
func TestManyDifferences(t *testing.T) {
	tools := func(prefix string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"name":"%s%d"},`, prefix, i)
		}
		return `> a 1 tools/list
< a 1 = {"tools":[` + b.String() + `{"name":"last"}]}
`
	}
	// 500 tools more are notes; the one that is gone comes after 0 or 500 others.
	r := compare.Captures(gather(strings.Replace(tools("a", 0), `{"name":"last"}`, `{"name":"last"},{"name":"gone"}`, 1)), gather(tools("b", 500)), compare.Options{})
	p := r.Pairs[0]
	if p.Verdict != compare.Different || len(p.Differences) != 51 || p.Omitted != 450 {
		t.Errorf("%s, %d differences and %d", p.Verdict, len(p.Differences), p.Omitted)
	}
	r = compare.Captures(gather(tools("a", 500)), gather(tools("b", 500)), compare.Options{})
	if p := r.Pairs[0]; p.Verdict != compare.Different || len(p.Differences) != 150 || p.Omitted != 850 {
		t.Errorf("%s, %d differences and %d", p.Verdict, len(p.Differences), p.Omitted)
	}
}

func TestTook(t *testing.T) {
	ops := gather(sessions("A") + crossModern)
	want := map[string]time.Duration{
		"add": 24 * time.Millisecond,
		"ask": 3 * time.Millisecond, // the five seconds were the user's
	}
	for _, op := range ops[:len(ops)-1] {
		if w, ok := want[op.Name]; ok && op.Era == translate.Legacy && compare.Took(op) != w {
			t.Errorf("%s took %v, want %v", op.Name, compare.Took(op), w)
		}
		if op.Name == "ask" && op.Era == translate.Modern && compare.Took(op) != 2*time.Millisecond {
			t.Errorf("two rounds took %v", compare.Took(op))
		}
	}
}
