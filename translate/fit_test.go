package translate

import (
	"slices"
	"testing"

	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/schematest"
)

// What a client of each older revision gets of content and members it does
// not know (the changelogs of 2025-03-26, 2025-06-18, 2025-11-25).
func TestFitRevision(t *testing.T) {
	const audio = `{"type":"audio","data":"AAAA","mimeType":"audio/wav"}`
	const audioGone = `{"type":"text","text":"[audio left out: audio/wav, about 3 bytes; the protocol revision of this client has no audio]"}`
	const link = `{"type":"resource_link","uri":"file:///a","name":"a","title":"A","description":"d","size":3}`
	const linkGone = `{"type":"text","text":"A: file:///a\nd"}`
	const tool = `{"name":"a","title":"A","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":[],"execution":{},"_meta":{"k":1},"vendor":1}`
	both := []Loss{LossContentType, LossNewerMember}
	for _, c := range []struct {
		method, in, version, out string
		lost                     []Loss
	}{
		{"tools/call", `{"content":[` + audio + `,` + link + `,{"type":"new"}],"structuredContent":{"a":1}}`, V20241105, `{"content":[` + audioGone + `,` + linkGone + `,{"type":"new"}]}`, both},
		{"tools/call", `{"content":[` + audio + `,` + link + `],"structuredContent":{"a":1}}`, V20250326, `{"content":[` + audio + `,` + linkGone + `]}`, both},
		{"tools/call", `{"content":[` + audio + `,` + link + `],"structuredContent":{"a":1}}`, V20250618, `{"content":[` + audio + `,` + link + `],"structuredContent":{"a":1}}`, nil},
		{"tools/call", `{"content":[` + audio + `]}`, V20251125, `{"content":[` + audio + `]}`, nil},
		{"tools/call", `{"content":[],"structuredContent":{"a":1}}`, V20250326, `{"content":[{"type":"text","text":"{\"a\":1}"}]}`, []Loss{LossNewerMember}},
		{"tools/call", `{"structuredContent":{"a":1}}`, V20250326, `{"content":[{"type":"text","text":"{\"a\":1}"}]}`, []Loss{LossNewerMember}},
		{"tools/call", `{"content":[{"type":"text","text":"x","annotations":{"lastModified":"t","priority":1},"_meta":{}}]}`, V20250326, `{"content":[{"type":"text","text":"x","annotations":{"priority":1},"_meta":{}}]}`, []Loss{LossNewerMember}},
		{"prompts/get", `{"messages":[{"role":"user","content":` + link + `},{"role":"user","content":{"type":"text","text":"x"}}]}`, V20250326, `{"messages":[{"role":"user","content":` + linkGone + `},{"role":"user","content":{"type":"text","text":"x"}}]}`, []Loss{LossContentType}},
		{"tools/list", `{"tools":[` + tool + `]}`, V20241105, `{"tools":[{"name":"a","inputSchema":{"type":"object"},"_meta":{"k":1},"vendor":1}]}`, []Loss{LossNewerMember}},
		{"tools/list", `{"tools":[` + tool + `]}`, V20250326, `{"tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"k":1},"vendor":1}]}`, []Loss{LossNewerMember}},
		{"tools/list", `{"tools":[` + tool + `]}`, V20250618, `{"tools":[{"name":"a","title":"A","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"k":1},"vendor":1}]}`, []Loss{LossNewerMember}},
		{"prompts/list", `{"prompts":[{"name":"p","title":"P","icons":[],"arguments":[{"name":"a","title":"A"}]}]}`, V20250326, `{"prompts":[{"name":"p","arguments":[{"name":"a"}]}]}`, []Loss{LossNewerMember}},
		{"resources/list", `{"resources":[{"uri":"a:b","name":"b","title":"B","icons":[],"annotations":{"lastModified":"t"}}]}`, V20250618, `{"resources":[{"uri":"a:b","name":"b","title":"B","annotations":{"lastModified":"t"}}]}`, []Loss{LossNewerMember}},
		{"resources/templates/list", `{"resourceTemplates":[{"uriTemplate":"a:{b}","name":"b","title":"B"}]}`, V20241105, `{"resourceTemplates":[{"uriTemplate":"a:{b}","name":"b"}]}`, []Loss{LossNewerMember}},
		{"initialize", `{"serverInfo":{"name":"s","version":"1","title":"S","websiteUrl":"u","description":"d","icons":[]}}`, V20250618, `{"serverInfo":{"name":"s","version":"1","title":"S"}}`, []Loss{LossNewerMember}},
		{"initialize", `{"serverInfo":{"name":"s","version":"1","title":"S"}}`, V20241105, `{"serverInfo":{"name":"s","version":"1"}}`, []Loss{LossNewerMember}},
		{"vendor/x", `{"title":"A","content":[` + audio + `]}`, V20241105, `{"title":"A","content":[` + audio + `]}`, nil},
		{"tools/call", `{"content":[` + audio + `],"a":1,"a":2}`, V20241105, ``, nil}, // nobody can say which is meant
	} {
		raw := `{"jsonrpc":"2.0","id":1,"result":` + c.in + `}`
		got, lost := FitRevision(c.method, []byte(raw), c.version)
		if !slices.Equal(lost, c.lost) {
			t.Errorf("%s at %s: lost %v, want %v", c.method, c.version, lost, c.lost)
		}
		if c.out == "" {
			if string(got) != raw {
				t.Errorf("%s became %s", raw, got)
			}
			continue
		}
		same(t, c.method+" at "+c.version, inner(t, got), c.out)
	}
}

// Results that are good for the newest legacy revision are good for each older
// one after it.
func TestSchemaFitRevision(t *testing.T) {
	v := schematest.Load(t)
	for method, raws := range legacyResults {
		for _, raw := range raws {
			clean, _ := ResultToLegacy(method, decode(t, string(ResultToModern(method, result(t, raw), nil, nil))), false)
			for _, version := range Versions(Legacy) {
				got, _ := FitRevision(method, clean, version)
				v.Validate(t, version, method, schematest.Result, got)
			}
		}
	}
}

func TestFitKeepsErrors(t *testing.T) {
	raw := jsonrpc.NewError(jsonrpc.IntID(1), -32602, "m", nil)
	if got, lost := FitRevision("tools/call", raw, V20241105); string(got) != string(raw) || lost != nil {
		t.Errorf("%s, %v", got, lost)
	}
}

// Questions an older client would refuse, in the forms it knows.
func TestFitQuestion(t *testing.T) {
	for _, c := range []struct {
		method, in, version, out string
		lost                     []Loss
	}{
		{"sampling/createMessage", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"audio","data":"AAAA","mimeType":"a/b"}],"_meta":{}},{"role":"user","content":{"type":"text","text":"c"}}],"maxTokens":1}`, V20241105,
			`{"messages":[{"role":"user","content":{"type":"text","text":"a"},"_meta":{}},{"role":"user","content":{"type":"text","text":"[audio left out: a/b, about 3 bytes; the protocol revision of this client has no audio]"},"_meta":{}},{"role":"user","content":{"type":"text","text":"c"}}],"maxTokens":1}`, []Loss{LossContentType}},
		{"sampling/createMessage", `{"messages":[{"role":"user","content":[]},{"role":"user","content":{"type":"tool_use","id":"t"}}]}`, V20250618,
			`{"messages":[{"role":"user","content":{"type":"text","text":"{\"type\":\"tool_use\",\"id\":\"t\"}"}}]}`, []Loss{LossContentType}},
		{"sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"c"}}]}`, V20241105, `{"messages":[{"role":"user","content":{"type":"text","text":"c"}}]}`, nil},
		{"elicitation/create", `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","title":"A","oneOf":[{"const":"x","title":"X"},{"const":"y"}]},"b":{"type":"integer"}}}}`, V20250618,
			`{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"string","title":"A","enum":["x","y"],"enumNames":["X","y"]},"b":{"type":"integer"}}}}`, []Loss{LossNewerMember}},
		{"elicitation/create", `{"mode":"form","message":"m"}`, V20251125, `{"mode":"form","message":"m"}`, nil},
		{"roots/list", `{}`, V20241105, `{}`, nil},
	} {
		got, lost := FitQuestion(c.method, jsonrpc.NewRequest(jsonrpc.IntID(1), c.method, []byte(c.in)), c.version)
		if !slices.Equal(lost, c.lost) {
			t.Errorf("%s at %s: lost %v, want %v", c.method, c.version, lost, c.lost)
		}
		same(t, c.method+" at "+c.version, decode(t, string(got)).Params().Raw(), c.out)
	}
}
