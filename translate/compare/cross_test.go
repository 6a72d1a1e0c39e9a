package compare_test

import (
	"slices"
	"strings"
	"testing"

	"taskbridge/translate/compare"
)

// The same conversation in both dialects, as a bridge would translate it.
const (
	crossLegacy = `
@ transport=http
> o 0 initialize {"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"me","version":"1"}}
@ session=S
< o 0 = {"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"it","version":"2"},"instructions":"be nice"}
> n - notifications/initialized
> g GET
> p 90 ping
< p 90 = {}
> a 1 tools/list
< a 1 = {"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},{"name":"n","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}
> b 2 tools/call {"name":"job","arguments":{"x":1},"task":{"ttl":60000}}
< b 2 = {"task":{"taskId":"task-one-1","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":100}}
> c 3 tasks/result {"taskId":"task-one-1"}
< c 7 elicitation/create {"message":"Sure?","requestedSchema":{"type":"object"},"mode":"form","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"task-one-1"}}}
> d 7 = {"action":"accept","content":{"ok":true}}
< d 202
< c 3 = {"content":[{"type":"text","text":"deleted by task-one-1"}],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"task-one-1"}}}
> e 4 tools/call {"name":"ask","arguments":null}
< e 8 elicitation/create {"message":"Name?","requestedSchema":{"type":"object"}}
> f 8 = {"action":"accept","content":{"name":"Ada"}}
< e - notifications/message {"level":"info","data":"asked"}
< e 4 = {"content":[{"type":"text","text":"Hello, Ada!"}]}
> h 5 resources/read {"uri":"x:none"}
< h 5 ! {"code":-32002,"message":"not found","data":{"uri":"x:none"}}
> i 6 tools/call {"name":"list"}
< i 6 = {"content":[{"type":"text","text":"[1, 2]"}]}
> j 9 tools/call {"name":"fails","task":{}}
< j 9 = {"task":{"taskId":"task-two-2","status":"working","ttl":null}}
> k 10 tasks/get {"taskId":"task-two-2"}
< k 10 = {"taskId":"task-two-2","status":"failed","statusMessage":"broken","ttl":null}
> l 11 logging/setLevel {"level":"debug"}
< l 11 = {}
> z DELETE
< z 200
`
	crossModern = `
@ era=modern client=me/1 transport=http
> o 0 server/discover {}
< o 0 = {"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"instructions":"be nice","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"it","version":"2"}}}
> a 1 tools/list {}
< a 1 = {"resultType":"complete","tools":[{"name":"job","inputSchema":{"type":"object"}},{"name":"n","inputSchema":{"type":"object"}}],"ttlMs":5,"cacheScope":"public"}
> b 2 tools/call {"name":"job","arguments":{"x":1.0}}
< b 2 = {"resultType":"task","taskId":"other-id-77","status":"working","createdAt":"2026-01-02T00:00:00Z","ttlMs":null}
> c 3 tasks/get {"taskId":"other-id-77"}
< c 3 = {"resultType":"complete","taskId":"other-id-77","status":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object"}}}}}
> d 4 tasks/update {"taskId":"other-id-77","inputResponses":{"k":{"action":"accept","content":{"ok":true}}}}
< d 4 = {"resultType":"complete"}
> e 5 tasks/get {"taskId":"other-id-77"}
< e 5 = {"resultType":"complete","taskId":"other-id-77","status":"completed","result":{"resultType":"complete","content":[{"type":"text","text":"deleted by other-id-77"}]}}
> f 6 tools/call {"name":"ask","arguments":{}}
< f 6 = {"resultType":"input_required","requestState":"s","inputRequests":{"n":{"method":"elicitation/create","params":{"message":"Name?","mode":"form","requestedSchema":{"type":"object"}}}}}
> g 7 tools/call {"name":"ask","arguments":{},"requestState":"s","inputResponses":{"n":{"action":"accept","content":{"name":"Ada"}}}}
< g 7 = {"resultType":"complete","content":[{"type":"text","text":"Hello, Ada!"}]}
> h 8 resources/read {"uri":"x:none"}
< h 8 ! {"code":-32602,"message":"not found","data":{"uri":"x:none"}}
> i 9 tools/call {"name":"list"}
< i 9 = {"resultType":"complete","content":[],"structuredContent":[1,2]}
> j 10 tools/call {"name":"fails"}
< j 10 = {"resultType":"task","taskId":"other-id-78","status":"working","ttlMs":null}
> k 11 tasks/get {"taskId":"other-id-78"}
< k 11 = {"resultType":"complete","taskId":"other-id-78","status":"completed","result":{"resultType":"complete","content":[{"type":"text","text":"broken"}],"isError":true}}
> l 12 tools/list {}
< l 12 = {"resultType":"complete","tools":[]}
`
)

// Across eras only what one of them lacks differs, and that is left out or a note.
func TestAcrossEras(t *testing.T) {
	for _, c := range [][2]string{{crossLegacy, crossModern}, {crossModern, crossLegacy}} {
		r := compare.Captures(gather(c[0]), gather(c[1]), compare.Options{})
		for _, d := range differences(r) {
			if d.Severity != compare.Note && d.Kind != compare.KindMissing {
				t.Errorf("%s", list([]compare.Difference{d}))
			}
		}
	}
	r := compare.Captures(gather(crossLegacy), gather(crossModern), compare.Options{})
	if n := r.Counts(); r.Verdict() != compare.Same || n.Same != 8 || n.Skipped != 4 {
		t.Errorf("%s %+v%s", r.Verdict(), n, list(differences(r)))
	}
}

func TestAcrossErasFaults(t *testing.T) {
	for _, f := range []struct {
		name, old, repl string
		kind            compare.Kind
		severity        compare.Severity
		path            string
	}{
		{"wrong text", "Hello, Ada!", "Hello, Eve!", compare.KindValue, compare.Changed, "$.result.content[0].text"},
		{"wrong payload", "deleted by", "kept by", compare.KindValue, compare.Changed, "$.result.content[0].text"},
		{"wrong structured content", "[1,2]", "[1,3]", compare.KindValue, compare.Changed, "$.result.content[0].text[1]"},
		{"other code", "-32602", "-32601", compare.KindCode, compare.Changed, "$.error.code"},
		{"other question", "Sure?", "Really?", compare.KindQuestion, compare.Changed, "$.questions[0].params.message"},
		{"task that never ends", `"status":"completed","result":{"resultType":"complete","content":[{"type":"text","text":"deleted by other-id-77"}]}`, `"status":"working"`, compare.KindOutcome, compare.Worse, "$.outcome"},
		{"flipped", `"isError":true`, `"isError":false`, compare.KindOutcome, compare.Better, "$.outcome"},
		{"tool gone", `,{"name":"n","inputSchema":{"type":"object"}}`, ``, compare.KindGone, compare.Worse, "$.result.tools[?@.name=='n']"},
		{"question not asked", `< f 6 = {"resultType":"input_required","requestState":"s","inputRequests":{"n":{"method":"elicitation/create","params":{"message":"Name?","mode":"form","requestedSchema":{"type":"object"}}}}}
> g 7 tools/call {"name":"ask","arguments":{},"requestState":"s","inputResponses":{"n":{"action":"accept","content":{"name":"Ada"}}}}
< g 7`, "< f 6", compare.KindNotAsked, compare.Worse, "$.questions[0]"},
	} {
		bad := strings.Replace(crossModern, f.old, f.repl, 1)
		if bad == crossModern {
			t.Fatalf("%s: the fault was not planted", f.name)
		}
		found := differences(compare.Captures(gather(crossLegacy), gather(bad), compare.Options{}))
		if !slices.ContainsFunc(found, func(d compare.Difference) bool {
			return d.Kind == f.kind && d.Severity == f.severity && d.Path == f.path
		}) {
			t.Errorf("%s: not found; got %s", f.name, list(found))
		}
	}
}
