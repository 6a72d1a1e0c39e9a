package translate

import (
	"slices"
	"testing"

	"taskbridge/translate/jsonrpc"
)

// lostMembers leave a legacy Task on its way to a modern client and back:
// they have no place inside a Task (_meta), or are names of the modern era.
var lostMembers = []string{"_meta", "resultType", "result", "error", "inputRequests", "requestState"}

// expectBack is the legacy Task that must come back, built without the rules:
// all members as they were, but for the declared ones.
func expectBack(task jsonrpc.Value, id string) []byte {
	b := jsonrpc.NewObject().Str("taskId", id)
	status, _ := task.Get("status").Str()
	if !slices.Contains([]string{Working, InputRequired, Completed, Failed, Cancelled}, status) {
		status = Working
	}
	b.Str("status", status)
	if m := task.Get("statusMessage"); m.Type() == jsonrpc.String {
		b.Raw("statusMessage", m.Raw())
	}
	created := []byte(`"1970-01-01T00:00:00Z"`)
	if v := task.Get("createdAt"); v.Type() == jsonrpc.String {
		created = v.Raw()
	}
	b.Raw("createdAt", created)
	if v := task.Get("lastUpdatedAt"); v.Type() == jsonrpc.String {
		b.Raw("lastUpdatedAt", v.Raw())
	} else {
		b.Raw("lastUpdatedAt", created)
	}
	own := []string{"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval", "ttlMs", "pollIntervalMs"}
	for key, v := range task.Members() {
		if !slices.Contains(own, key) && !slices.Contains(lostMembers, key) {
			b.Raw(key, v.Raw())
		}
	}
	for _, d := range []struct {
		name, other string
		required    bool
	}{{"ttl", "ttlMs", true}, {"pollInterval", "pollIntervalMs", false}} {
		v := task.Get(d.name)
		if !v.Exists() {
			v = task.Get(d.other)
		}
		n, ok := Milliseconds(v)
		if whole, is := v.Int(); is && whole >= 0 {
			n = whole
		}
		switch {
		case ok:
			b.Int(d.name, n)
		case d.required:
			b.Null(d.name)
		}
	}
	return b.Bytes()
}

// thereAndBack takes a legacy Task to a modern client and back.
func thereAndBack(t *testing.T, raw []byte) {
	task := ParseResult(raw)
	if !task.Exists() {
		return
	}
	status, _ := task.Get("status").Str()
	want := expectBack(task, "s1")
	payload := Payload{Result: []byte(`{"content":[]}`)}
	modernStatus := ModernStatus(status, status == Completed, status == Failed)
	if status == Failed {
		payload = Payload{Error: []byte(`{"code":-32603,"message":"m"}`)}
	}
	view := TaskView{ID: "h", Status: modernStatus}
	for what, modern := range map[string][]byte{
		"tasks/get":           DetailedTask(task, view, "complete", payload, []byte("{}"), []byte(`{"name":"s","version":"1"}`)),
		"notifications/tasks": DetailedTask(task, view, "", payload, []byte("{}"), nil),
	} {
		there := ParseResult(modern)
		if !there.Exists() {
			t.Fatalf("%s: %s became %s", what, raw, modern)
		}
		for _, key := range []string{"ttl", "pollInterval", "requestState"} {
			if there.Get(key).Exists() {
				t.Errorf("%s: %s in a modern task", what, key)
			}
		}
		word, _ := there.Get("status").Str()
		back := TaskToLegacy(there, TaskView{ID: "s1", Status: LegacyStatus(word, false, false)})
		if !ParseResult(back).Exists() {
			t.Fatalf("%s: %s came back as %s", what, raw, back)
		}
		if _, err := jsonrpc.ParseValue(raw); err != nil {
			continue // members repeated deep inside are no rule's business, and no value to compare
		}
		if !jsonrpc.Equal(back, want) {
			t.Errorf("%s\n  of %s\n got %s\nwant %s", what, raw, back, want)
		}
	}
}

var backSeeds = []string{
	`{"taskId":"t","status":"working","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:05Z","ttl":60000,"pollInterval":500}`,
	`{"taskId":"t","status":"failed","statusMessage":"x","createdAt":"c","lastUpdatedAt":"l","ttl":null,"pollInterval":null,"vendor":{"a":[1.0,1e3,9223372036854775807],"n":null,"e":{}}}`,
	`{"taskId":"t","status":"completed","createdAt":"c"}`,
	`{"taskId":"t","status":"input_required","createdAt":"c","lastUpdatedAt":7,"ttl":-1,"pollInterval":1500.5}`,
	`{"taskId":"t","status":"cancelled","statusMessage":5,"_meta":{"a":1},"resultType":"x","ttlMs":1,"pollIntervalMs":2,"requestState":"s"}`,
	`{"status":"paused","ttl":1e1000000,"\u0074askId":"esc","future":"\ud83d\ude00"}`,
	`{"a":1,"result":{},"error":{},"inputRequests":{},"ttl":9007199254740991}`,
	`{}`,
}

func TestThereAndBack(t *testing.T) {
	for _, s := range backSeeds {
		thereAndBack(t, []byte(s))
	}
}

// A legacy task shown to a modern client and read back has changed in nothing
// but what is declared; members nobody knows survive.
func FuzzThereAndBack(f *testing.F) {
	for _, s := range backSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(thereAndBack)
}

// The same for what a legacy server sends back for each method: a modern
// client sees it, a legacy client behind it sees what was sent.
func TestResultsThereAndBack(t *testing.T) {
	for method, raws := range map[string][]string{
		"tools/list":               {`{"tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":{"x":1},"v":[]}],"nextCursor":"n"}`, `{"tools":[]}`},
		"tools/call":               {`{"content":[{"type":"text","text":"x"}],"isError":true,"structuredContent":{"n":1.0}}`, `{"content":[],"_meta":{"com.x/a":1}}`},
		"prompts/list":             {`{"prompts":[]}`},
		"prompts/get":              {`{"messages":[],"description":"d"}`},
		"resources/list":           {`{"resources":[{"uri":"a","name":"b"}]}`},
		"resources/templates/list": {`{"resourceTemplates":[]}`},
		"resources/read":           {`{"contents":[{"uri":"a","text":"t"}]}`},
		"completion/complete":      {`{"completion":{"values":["a"],"total":1}}`},
		"vendor/x":                 {`{}`, `{"_meta":{},"deep":{"e":{},"l":[],"n":null}}`},
	} {
		for _, raw := range raws {
			there := ResultToModern(method, result(t, raw), nil, []byte(`{"name":"s","version":"1"}`))
			back, lost := ResultToLegacy(method, decode(t, string(there)), false)
			if len(lost) > 0 {
				t.Errorf("%s: lost %v", method, lost)
			}
			want := raw
			if raw == `{"_meta":{},"deep":{"e":{},"l":[],"n":null}}` {
				want = `{"deep":{"e":{},"l":[],"n":null}}` // our serverInfo was the only key
			}
			same(t, method, inner(t, back), want)
		}
	}
}
