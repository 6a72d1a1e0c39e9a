package check

// legacyCases: for each rule a capture that breaks it and one that keeps it.
var legacyCases = []ruleCase{
	{"json/malformed", opened + `> - {"jsonrpc":"2.0","id":1,"method":"ping"`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"ping"}`},
	{"json/repeated-member", opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1,"x":1}}}`},
	{"message/envelope", opened + `> - {"jsonrpc":"1.0","id":1,"method":"ping"}`, opened + `> - {"jsonrpc":"2.0","id":"a","method":"ping"}`},
	{"message/batch", opened + `> - [{"jsonrpc":"2.0","id":1,"method":"ping"}]`, strings2025(opened) + `> - [{"jsonrpc":"2.0","id":1,"method":"ping"}]`},
	{"message/member-missing", opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`},
	{"message/member-type", opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":[]}}`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}`},
	{"message/member-value", opened + `> - {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`},
	{"message/other-dialect", opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< - {"jsonrpc":"2.0","id":1,"result":{"tools":[],"resultType":"complete"}}`, opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< - {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`},

	{"id/null", opened + `> - {"jsonrpc":"2.0","id":null,"method":"ping"}`, opened + `> - {"jsonrpc":"2.0","id":0,"method":"ping"}`},
	{"id/type", opened + `> - {"jsonrpc":"2.0","id":1.5,"method":"ping"}`, opened + `> - {"jsonrpc":"2.0","id":1.0,"method":"ping"}`},
	{"id/type", opened + `> - {"jsonrpc":"2.0","id":true,"method":"ping"}`, opened},
	{"id/reused", opened + `
> - {"jsonrpc":"2.0","id":1,"method":"ping"}
< - {"jsonrpc":"2.0","id":1,"result":{}}
> - {"jsonrpc":"2.0","id":1.0,"method":"ping"}`, opened + `
> - {"jsonrpc":"2.0","id":1,"method":"ping"}
< - {"jsonrpc":"2.0","id":1,"result":{}}
< - {"jsonrpc":"2.0","id":1,"method":"ping"}
> - {"jsonrpc":"2.0","id":"1","method":"ping"}`},
	{"id/reused", asked + `
< s4 0 Mcp-Session-Id=S {"jsonrpc":"2.0","id":7,"method":"roots/list"}`, asked + `
< s4 0 Mcp-Session-Id=S {"jsonrpc":"2.0","id":7,"method":"ping"}`},
	{"id/unknown-response", opened + `< - {"jsonrpc":"2.0","id":9,"result":{}}`, opened + `
drop 1
< - {"jsonrpc":"2.0","id":9,"result":{}}`},
	{"id/answered-twice", opened + `
> - {"jsonrpc":"2.0","id":1,"method":"ping"}
< - {"jsonrpc":"2.0","id":1,"result":{}}
< - {"jsonrpc":"2.0","id":1,"result":{}}`, session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"ping"}
< s3 200 Mcp-Session-Id=S Content-Type=text/event-stream {"jsonrpc":"2.0","id":1,"result":{}}
> s4 GET Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 Last-Event-ID=e1
< s4 200 Mcp-Session-Id=S Content-Type=text/event-stream {"jsonrpc":"2.0","id":1,"result":{}}`},
	{"id/null-response", session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"ping"}
< s3 200 Mcp-Session-Id=S {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}`, session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"ping"}
< s3 400 Mcp-Session-Id=S {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}`},
	{"id/notification-answered", session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}
< s3 200 Mcp-Session-Id=S {"jsonrpc":"2.0","id":7,"result":{}}`, session},

	{"method/not-in-revision", opened + `> - {"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{}}`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"com.example/own","params":{}}`},
	{"method/not-in-revision", strings2025(opened) + `> - {"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}`, legacyTask + `> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}`},
	{"method/removed-notification", opened + `< - {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`, opened + `< - {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`},
	{"method/direction", opened + `< - {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, opened + `< - {"jsonrpc":"2.0","id":1,"method":"ping"}`},
	{"method/kind", opened + `> - {"jsonrpc":"2.0","method":"tools/list"}`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/list"}`},

	{"lifecycle/no-initialize", stdio + `> - {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, stdio + `> - {"jsonrpc":"2.0","id":1,"method":"ping"}`},
	{"lifecycle/initialize-twice", opened + `> - {"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}`, opened},
	{"lifecycle/before-answer", stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}
> - {"jsonrpc":"2.0","id":2,"method":"tools/list"}`, stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}
> - {"jsonrpc":"2.0","id":2,"method":"ping"}`},
	{"lifecycle/no-initialized", without(opened, "notifications/initialized") + `> - {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
	{"lifecycle/no-initialized", without(session, " s2 ") + `> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, without(session, " s2 ") + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
> s2 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","method":"notifications/initialized"}
< s2 202 Mcp-Session-Id=S`},
	{"lifecycle/server-too-early", without(opened, "notifications/initialized") + `< - {"jsonrpc":"2.0","id":1,"method":"roots/list"}`, opened + `< - {"jsonrpc":"2.0","id":1,"method":"roots/list"}`},
	{"lifecycle/initialize-cancelled", opened + `> - {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"i"}}`, opened + `
> - {"jsonrpc":"2.0","id":2,"method":"tools/list"}
> - {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`},
	{"lifecycle/version-answer", replaced(opened, `"result":{"protocolVersion":"2025-11-25"`, `"result":{"protocolVersion":"2026-07-28"`), opened},

	{"meta/key", opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"-a/b":1}}}`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"com.example/b":1,"x":2,"a.b-c/":3}}}`},

	{"header/version-missing", session + `> s3 POST Mcp-Session-Id=S {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session + `> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
	{"header/version-negotiated", session + `> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-06-18 {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session},
	{"header/doubled", session + `> s3 POST Mcp-Session-Id=S Mcp-Session-Id=T Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session},
	{"header/accept", session + `> s3 POST Accept=application/json Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session + `> s3 POST Accept=application/json,~text/event-stream Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
	{"session/missing", session + `> s3 POST Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session},
	{"session/ended", session + `
> s3 DELETE Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25
< s3 200
+ 2s
> s4 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session + `
> s3 DELETE Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25
> s4 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< s3 405
+ 2s
> s5 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":2,"method":"tools/list"}`},
	{"session/served", session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< s3 404
> s4 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":2,"method":"tools/list"}
< s4 200 {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`, session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< s3 404
> s4 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":2,"method":"tools/list"}
< s4 404`},

	{"http/accepted", replaced(session, "< s2 202", "< s2 200"), session},
	{"http/result-status", session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< s3 500 Content-Type=application/json {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`, session},
	{"http/content-type", session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< s3 200 Content-Type=text/plain {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`, session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< s3 200 Content-Type=text/event-stream;charset=utf-8 {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`},
	{"http/bad-version", session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=1999-01-01 {"jsonrpc":"2.0","id":1,"method":"ping"}
< s3 200 Content-Type=application/json {"jsonrpc":"2.0","id":1,"result":{}}`, session},
	{"http/response-on-get", session + `
> s3 GET Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25
> s4 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"ping"}
< s3 200 Content-Type=text/event-stream {"jsonrpc":"2.0","id":1,"result":{}}`, session + `
> s3 GET Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25
< s3 200 Content-Type=text/event-stream {"jsonrpc":"2.0","id":1,"method":"ping"}`},

	{"capability/server", opened + `> - {"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}`, opened + `> - {"jsonrpc":"2.0","id":1,"method":"resources/list"}`},
	{"capability/client", replaced(opened, `"roots":{},`, "") + `< - {"jsonrpc":"2.0","id":1,"method":"roots/list"}`, opened + `< - {"jsonrpc":"2.0","id":1,"method":"roots/list"}`},
	{"capability/client", replaced(opened, `"elicitation":{"form":{},"url":{}}`, `"elicitation":{}`) + `< - {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"url","elicitationId":"e","url":"https://a.example","message":"m"}}`, replaced(opened, `"elicitation":{"form":{},"url":{}}`, `"elicitation":{}`) + `< - {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`},
	{"capability/client", replaced(opened, `"sampling":{"tools":{}}`, `"sampling":{}`) + `< - {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}`, opened + `< - {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[]}}`},
	{"capability/undeclared-notice", opened + `< - {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`, opened + `< - {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`},
	{"capability/task-call", opened + toolList + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"never","task":{}}}`, opened + toolList + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"must","task":{}}}`},
	{"capability/task-call", opened + toolList + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"must"}}`, opened + toolList + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"never"}}`},
	{"capability/task-call", replaced(opened, `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`, "") + `> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","task":{}}}`, opened},
	{"error/later-code", strings2025(opened) + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}
< - {"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m"}}`, opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}
< - {"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"m","data":{"elicitations":[]}}}`},
	{"result/structured-missing", opened + toolList + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"out"}}
< - {"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, opened + toolList + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"out"}}
< - {"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{}}}
> - {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"out"}}
< - {"jsonrpc":"2.0","id":2,"result":{"content":[],"isError":true}}`},

	{"related/missing", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{"content":[]}}`, legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{"content":[],` + related("t1") + `}}`},
	{"related/missing", legacyTask + `
< - {"jsonrpc":"2.0","id":1,"method":"roots/list","params":{` + related("t1") + `}}
> - {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`, legacyTask + `
< - {"jsonrpc":"2.0","id":1,"method":"roots/list","params":{` + related("t1") + `}}
> - {"jsonrpc":"2.0","id":1,"result":{"roots":[],` + related("t1") + `}}`},
	{"related/other-task", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{"content":[],` + related("t2") + `}}`, legacyTask},
	{"related/unwanted", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{$T,` + related("t1") + `}}`, legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{$T}}`},

	{"progress/unknown-token", opened + `< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`, legacyTask + `< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,` + related("t1") + `}}`},
	{"progress/after-end", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{` + legacyStatus("completed") + `}}
< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,` + related("t1") + `}}`, legacyTask},
	{"progress/after-end", opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}
< - {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}
< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
< - {"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
	{"progress/not-rising", opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}
< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1.0}}`, opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}
< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1.5}}`},
	{"progress/not-rising", cutOff + `
< s4 0 Mcp-Session-Id=S {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":3}}
< s4 0 Mcp-Session-Id=S {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}`, cutOff + `
< s4 0 Mcp-Session-Id=S {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":3}}
< s4 0 Mcp-Session-Id=S {"jsonrpc":"2.0","id":1,"result":{"content":[]}}`},
	{"progress/not-rising", cutOff + `
< s3 0 Mcp-Session-Id=S {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}`, cutOff},
	{"progress/token-reused", opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}
> - {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}`, opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}
< - {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
> - {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}`},
	{"cancel/unknown", opened + `> - {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`, opened + `
> - {"jsonrpc":"2.0","id":9,"method":"tools/list"}
> - {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`},
}
