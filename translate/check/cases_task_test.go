package check

// at is a legacy task as it was at a time.
func at(status, clock string) string {
	return replaced(legacyStatus(status), `lastUpdatedAt":"2026-11-30T10:00:00Z`, `lastUpdatedAt":"2026-11-30T`+clock+`Z`)
}

// endedAt is a legacy task whose end was told on a stream of its own.
func endedAt(clock string) string {
	return legacyTask + `
> c.2 {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< c.2 {"jsonrpc":"2.0","id":2,"result":{` + at("completed", clock) + `}}`
}

// taskCases are the rules of tasks, of both eras.
var taskCases = []ruleCase{
	{"task/unasked", opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}
< - {"jsonrpc":"2.0","id":1,"result":{"task":{$T}}}`, legacyTask},
	{"task/unasked", replaced(modernTask, "$M", quiet), modernTask},
	{"task/not-created", opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","task":{}}}
< - {"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, legacyTask},
	{"task/created-status", replaced(legacyTask, "$T", legacyStatus("completed")), legacyTask},
	{"task/id-reused", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","task":{}}}
< - {"jsonrpc":"2.0","id":2,"result":{"task":{$T}}}`, legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","task":{}}}
< - {"jsonrpc":"2.0","id":2,"result":{"task":{` + replaced(taskText, "t1", "t2") + `}}}`},
	{"task/terminal-changed", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{` + legacyStatus("cancelled") + `}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":3,"result":{` + legacyStatus("completed") + `}}`, legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{` + legacyStatus("cancelled") + `}}
< - {"jsonrpc":"2.0","id":3,"result":{$T}}`},
	{"task/terminal-changed", modernTask + get1 + `
< s2 200 Content-Type=application/json {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + modernStatus("cancelled") + `,$I}}` + get2 + `
< s3 200 Content-Type=application/json {"jsonrpc":"2.0","id":3,"result":{"resultType":"complete",$W,$I}}`, modernTask + get1 + `
< s2 200 Content-Type=application/json {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + modernStatus("cancelled") + `,$I}}`},
	{"task/told-late", endedAt("10:00:02") + `
< - {"jsonrpc":"2.0","method":"notifications/tasks/status","params":{` + at("working", "10:00:02") + `}}`, endedAt("10:00:02") + `
< - {"jsonrpc":"2.0","method":"notifications/tasks/status","params":{` + at("completed", "10:00:02") + `}}`},
	{"task/terminal-changed", endedAt("10:00:02") + `
< - {"jsonrpc":"2.0","method":"notifications/tasks/status","params":{` + at("working", "10:00:03") + `}}`, endedAt("10:00:02")},
	{"task/terminal-changed", endedAt("10:00:02") + `
< c.2 {"jsonrpc":"2.0","method":"notifications/tasks/status","params":{` + at("working", "10:00:01") + `}}`, endedAt("10:00:02")},
	{"task/other-id", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{` + replaced(taskText, "t1", "t2") + `}}`, legacyTask},
	{"task/payload", modernTask + get1 + `
< s2 200 {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",$W,"inputRequests":{},$I}}`, modernTask + get1 + `
< s2 200 {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + modernStatus("input_required") + `,"inputRequests":{},$I}}`},
	{"task/key-reused", modernTask + get1 + `
< s2 200 {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + modernStatus("input_required") + `,"inputRequests":{"k":` + ask("a") + `},$I}}` + get2 + `
< s3 200 {"jsonrpc":"2.0","id":3,"result":{"resultType":"complete",` + modernStatus("input_required") + `,"inputRequests":{"k":` + ask("b") + `},$I}}`, modernTask + get1 + `
< s2 200 {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + modernStatus("input_required") + `,"inputRequests":{"k":` + ask("a") + `},$I}}` + get2 + `
< s3 200 {"jsonrpc":"2.0","id":3,"result":{"resultType":"complete",` + modernStatus("input_required") + `,"inputRequests":{"k":` + ask("a") + `,"l":` + ask("b") + `},$I}}`},
	{"task/unknown-key", stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",$M}}
< - {"jsonrpc":"2.0","id":1,"result":{"resultType":"task",$W,$I}}
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1",$M}}
< - {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + modernStatus("input_required") + `,"inputRequests":{"k":` + ask("a") + `},$I}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/update","params":{"taskId":"t1","inputResponses":{"z":{"action":"cancel"}},$M}}`, stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",$M}}
< - {"jsonrpc":"2.0","id":1,"result":{"resultType":"task",$W,$I}}
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1",$M}}
< - {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + modernStatus("input_required") + `,"inputRequests":{"k":` + ask("a") + `},$I}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/update","params":{"taskId":"t1","inputResponses":{"k":{"action":"cancel"}},$M}}
< - {"jsonrpc":"2.0","id":3,"result":{"resultType":"complete",$I}}`},
	{"task/not-durable", modernTask + get1 + `
< s2 200 {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"m"}}`, modernTask},
	{"task/gone-early", modernTask + get1 + `
< s2 200 {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",$W,$I}}` + get2 + `
< s3 200 {"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"m"}}`, modernTask + get1 + `
< s2 200 {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",$W,$I}}
+ 2m` + "\n" + get2 + `
< s3 200 {"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"m"}}`},
	{"task/unknown", opened + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"x"}}
< - {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"m"}}`, legacyTask},
	{"task/unknown-code", opened + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"x"}}
< - {"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"m"}}`, legacyTask},
	{"task/result-early", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{"content":[],` + related("t1") + `}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":3,"result":{$T}}`, legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{"content":[],` + related("t1") + `}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":3,"result":{` + legacyStatus("completed") + `}}`},
	{"task/result-changed", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{"content":[],` + related("t1") + `}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":3,"result":{"content":[],"isError":true,` + related("t1") + `}}`, legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{"content":[],` + related("t1") + `}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":3,"result":{"content":[],` + related("t1") + `}}`},
	{"task/cancel-terminal", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{` + legacyStatus("completed") + `}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/cancel","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":3,"result":{` + legacyStatus("completed") + `}}`, legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{` + legacyStatus("completed") + `}}
> - {"jsonrpc":"2.0","id":3,"method":"tasks/cancel","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"m"}}`},
	{"task/cancel-status", legacyTask + `
> - {"jsonrpc":"2.0","id":3,"method":"tasks/cancel","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":3,"result":{$T}}`, legacyTask + `
> - {"jsonrpc":"2.0","id":3,"method":"tasks/cancel","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":3,"result":{` + legacyStatus("cancelled") + `}}`},
	{"task/cancel-notification", opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","task":{}}}
> - {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}
> - {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
	{"task/timestamp", replaced(legacyTask, "$T", replaced(taskText, `createdAt":"2026-11-30T10:00:00Z`, `createdAt":"30 Nov 2026`)), replaced(legacyTask, "$T", replaced(taskText, `createdAt":"2026-11-30T10:00:00Z`, `createdAt":"2026-11-30T11:00:00.1234567+01:00`))},
	{"task/created-changed", legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{` + replaced(taskText, `createdAt":"2026-11-30T10:00:00Z`, `createdAt":"2026-11-30T10:00:09Z`) + `}}`, legacyTask + `
> - {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1"}}
< - {"jsonrpc":"2.0","id":2,"result":{` + replaced(taskText, `createdAt":"2026-11-30T10:00:00Z`, `createdAt":"2026-11-30T11:00:00+01:00`) + `}}`},
	{"capability/tasks-undeclared", replaced(get1, "$M", quiet), modernTask + get1},
	{"capability/tasks-served", replaced(get1, "$M", quiet) + `< s2 200 {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",$W,$I}}`, replaced(get1, "$M", quiet) + `< s2 400 {"jsonrpc":"2.0","id":2,"error":{"code":-32021,"message":"m","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`},
	{"progress/on-task", stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",` + tokened + `}}
< - {"jsonrpc":"2.0","id":1,"result":{"resultType":"task",$W,$I}}
< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`, stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",` + tokened + `}}
< - {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}
< - {"jsonrpc":"2.0","id":1,"result":{"resultType":"task",$W,$I}}`},
}
