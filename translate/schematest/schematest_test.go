package schematest

import (
	"strings"
	"testing"
)

// Every row names a definition that is there.
func TestRowsHaveDefinitions(t *testing.T) {
	v := Load(t)
	for revision, rows := range map[string][]row{latestLegacy: legacyRows, latestModern: modernRows, extTasks: extRows} {
		for _, r := range rows {
			if _, err := v.definition(revision, r.Definition); err != nil {
				t.Errorf("%s %s: %v", r.Method, r.Kind, err)
			}
		}
	}
	for revision, names := range errorDefinitions {
		for code, name := range names {
			if _, err := v.definition(revision, name); err != nil {
				t.Errorf("%s: %v", code, err)
			}
		}
	}
	// Earlier revisions lack only what came later.
	later := []string{"Task", "Elicit"}
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18"} {
	rows:
		for _, r := range legacyRows {
			if _, err := v.definition(revision, r.Definition); err != nil {
				for _, l := range later {
					if strings.Contains(r.Definition, l) {
						continue rows
					}
				}
				t.Errorf("%s: %v", revision, err)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	v := Load(t)
	const task = `"taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l"`
	for _, tt := range []struct {
		era, method string
		kind        Kind
		raw         string
		wrong       string // part of the error, empty: fine
	}{
		{"legacy", "tools/call", Result, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, ""},
		{"legacy", "tools/call", Result, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":[1]}}`, "no CallToolResult"},
		{"legacy", "tools/call", Result, `{"jsonrpc":"2.0","id":1,"result":{"task":{` + task + `,"ttl":null}}}`, ""},
		{"legacy", "tools/call", Result, `{"jsonrpc":"2.0","id":1,"result":{"task":{` + task + `}}}`, "ttl"},
		{"legacy", "tasks/get", Result, `{"jsonrpc":"2.0","id":1,"result":{` + task + `,"ttl":1.5}}`, "ttl"},
		{"2025-06-18", "tasks/get", Result, `{"jsonrpc":"2.0","id":1,"result":{` + task + `,"ttl":1}}`, "no usable definition"},
		{"2024-11-05", "tools/list", Result, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`, ""},
		{"2024-11-05", "tools/call", Error, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m"}}`, ""},
		{"modern", "tools/list", Result, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[]}}`, "ttlMs"},
		{"modern", "tools/call", Result, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task",` + task + `,"ttlMs":null}}`, ""},
		{"modern", "tools/call", Result, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task",` + task + `}}`, "ttlMs"},
		{"modern", "tools/call", Result, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`, "neither"},
		{"modern", "tools/list", Result, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s"}}`, "cannot require input"},
		{"modern", "tasks/get", Result, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","taskId":"a","status":"completed","createdAt":"c","lastUpdatedAt":"l","ttlMs":1,"result":{"content":7}}}`, "CallToolResult"},
		{"modern", "tasks/get", Result, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","taskId":"a","status":"failed","createdAt":"c","lastUpdatedAt":"l","ttlMs":1}}`, "GetTaskResult"},
		{"modern", "tasks/get", Request, `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a"}}`, "_meta"},
		{"modern", "tasks/list", Request, `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`, "no request of that name"},
		{"modern", "tools/call", Error, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m"}}`, "UnsupportedProtocolVersionError"},
		{"modern", "tools/call", Error, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["a"],"requested":"b"}}}`, ""},
		{"legacy", "ping", Request, `{"jsonrpc":"2.0","id":1,"result":{}}`, "no request"},
		{"legacy", "ping", Request, `{"jsonrpc":"2.0","id":1,"method":"pong"}`, "method is pong"},
		{"legacy", "ping", Result, `[]`, "no JSON-RPC message"},
		{"legacy", "ping", Result, `{`, "no JSON"},
		{"1999", "ping", Result, `{"jsonrpc":"2.0","id":1,"result":{}}`, "no schema of revision"},
	} {
		err := v.Check(tt.era, tt.method, tt.kind, []byte(tt.raw))
		if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%s %s %s: %v, want %q\n%s", tt.era, tt.method, tt.kind, err, tt.wrong, tt.raw)
		}
	}
}
