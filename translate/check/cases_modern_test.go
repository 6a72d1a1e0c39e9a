package check

const (
	list1    = `> s1 ` + post + `Mcp-Method=tools/list {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$M}}` + "\n"
	listed   = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",$I}}`
	ok1      = `< s1 200 Content-Type=application/json ` + listed + "\n"
	call1    = `> s1 ` + post + `Mcp-Method=tools/call Mcp-Name=a {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",$M}}` + "\n"
	done1    = `< s1 200 Content-Type=text/event-stream {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],$I}}` + "\n"
	listen1  = `> s1 ` + post + `Mcp-Method=subscriptions/listen {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},$M}}` + "\n"
	acked    = `< s1 200 Content-Type=text/event-stream {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}` + "\n"
	changed  = `< s1 0 {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}` + "\n"
	asks     = `< s1 200 Content-Type=application/json {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"S1",$I}}` + "\n"
	retry    = `> s2 ` + post + `Mcp-Method=tools/call Mcp-Name=a {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","inputResponses":{"k":{"action":"cancel"}},"requestState":"S1",$M}}` + "\n"
	logs     = `< s1 200 Content-Type=text/event-stream {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n"
	withInfo = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	quiet    = `"_meta":{` + withInfo + `}`
	tokened  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"progressToken":"p"}`
	levelled = `"_meta":{` + withInfo + `,"io.modelcontextprotocol/logLevel":"info"}`
)

// modernCases: as legacyCases.
var modernCases = []ruleCase{
	{"method/not-in-revision", `> s1 ` + post + `Mcp-Method=logging/setLevel {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info",$M}}`, list1 + ok1},
	{"method/server-request", call1 + `< s1 200 Content-Type=text/event-stream {"jsonrpc":"2.0","id":1,"method":"roots/list"}`, call1 + done1},
	{"method/client-response", call1 + `> s2 ` + post + `{"jsonrpc":"2.0","id":1,"result":{}}`, call1 + done1},
	{"message/other-dialect", replaced(call1, `"name":"a",$M`, `"name":"a","task":{},$M`), call1},
	{"id/reused", stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$M}}
> - {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$M}}`, stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$M}}
< - ` + listed + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$M}}`},
	{"meta/required", `> s1 ` + post + `Mcp-Method=tools/list {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, list1},
	{"header/version-missing", replaced(list1, "Mcp-Protocol-Version=2026-07-28 ", ""), list1},
	{"header/version-mismatch", replaced(list1, "Mcp-Protocol-Version=2026-07-28", "Mcp-Protocol-Version=2026-06-30"), list1},
	{"header/method", replaced(list1, "Mcp-Method=tools/list", "Mcp-Method=tools/call"), list1},
	{"header/name", replaced(call1, "Mcp-Name=a", "Mcp-Name=b"), replaced(replaced(call1, "Mcp-Name=a", "Mcp-Name==?base64?w6k=?="), `"name":"a"`, `"name":"é"`)},
	{"header/param", list1 + replaced(ok1, `"tools":[]`, `"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}]`) + replaced(replaced(call1, "s1", "s2"), `"name":"a",`, `"name":"a","arguments":{"r":"x"},`),
		list1 + replaced(ok1, `"tools":[]`, `"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}}]`) + replaced(replaced(replaced(call1, "s1", "s2"), `"name":"a",`, `"name":"a","arguments":{"r":"x"},`), "Mcp-Name=a", "Mcp-Name=a Mcp-Param-R=x")},
	{"session/modern", replaced(list1, "Mcp-Method", "Mcp-Session-Id=S Mcp-Method"), list1},
	{"http/accepted", `
> s1 ` + post + `Mcp-Method=notifications/com.example {"jsonrpc":"2.0","method":"notifications/com.example"}
< s1 204`, `
> s1 ` + post + `Mcp-Method=notifications/com.example {"jsonrpc":"2.0","method":"notifications/com.example"}
< s1 202`},
	{"http/error-status", list1 + `< s1 200 Content-Type=application/json {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}`, list1 + `< s1 404 Content-Type=application/json {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}`},
	{"http/verb", `> s1 GET Mcp-Protocol-Version=2026-07-28`, list1},
	{"http/verb-served", `
> s1 GET Mcp-Protocol-Version=2026-07-28
< s1 200 Content-Type=text/event-stream`, `
> s1 GET Mcp-Protocol-Version=2026-07-28
< s1 405`},
	{"http/wrong-stream", list1 + `< s1 200 Content-Type=application/json {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private",$I}}`, list1 + ok1},
	{"error/retired-code", list1 + `< s1 200 Content-Type=application/json {"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m"}}`, list1 + `< s1 200 Content-Type=application/json {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m"}}`},
	{"error/reserved-code", list1 + `< s1 200 Content-Type=application/json {"jsonrpc":"2.0","id":1,"error":{"code":-32050,"message":"m"}}`, list1 + `< s1 200 Content-Type=application/json {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m"}}`},
	{"result/type-missing", list1 + replaced(ok1, `"resultType":"complete",`, ""), list1 + ok1},
	{"result/type", list1 + replaced(ok1, `"complete"`, `"partial"`), list1 + ok1},
	{"result/input-empty", call1 + `< s1 200 Content-Type=application/json {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required",$I}}`, call1 + asks},
	{"result/ttl-negative", list1 + replaced(ok1, `"ttlMs":0`, `"ttlMs":-1`), list1 + ok1},
	{"result/structured-missing", list1 + replaced(ok1, `"tools":[]`, `"tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{}}]`) + replaced(call1, "s1", "s2") + replaced(done1, "s1", "s2"),
		list1 + replaced(ok1, `"tools":[]`, `"tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{}}]`) + replaced(call1, "s1", "s2") + replaced(replaced(done1, "s1", "s2"), `"content":[]`, `"content":[],"structuredContent":7`)},
	{"tool/header-marks", list1 + replaced(ok1, `"tools":[]`, `"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"r":{"type":"number","x-mcp-header":"R"}}}}]`), list1 + ok1},
	{"capability/client", replaced(call1, "$M", quiet) + asks, call1 + asks},
	{"mrtr/unknown-state", stdio + `> - {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","requestState":"never",$M}}`, call1 + asks + retry},
	{"mrtr/foreign-state", call1 + asks + replaced(retry, `"name":"a"`, `"name":"b"`), call1 + asks + retry},
	{"mrtr/same-id", call1 + asks + replaced(retry, `"id":2`, `"id":1`), call1 + asks + retry},
	{"related/modern", call1 + replaced(done1, `"content":[],$I`, `"content":[],`+related("t1")), call1 + done1},
	{"cancel/server", stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{$M}}
< - {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, stdio + `
> - {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},$M}}
< - {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
	{"log/not-asked", call1 + logs + done1, replaced(call1, "$M", levelled) + logs + done1},
	{"log/below-level", replaced(call1, "$M", levelled) + replaced(logs, `"info"`, `"debug"`) + done1, replaced(call1, "$M", levelled) + logs + done1},
	{"listen/acknowledged", listen1 + replaced(changed, "s1 0", "s1 200"), listen1 + acked + changed},
	{"listen/subscription-id", listen1 + acked + replaced(changed, `subscriptionId":1`, `subscriptionId":2`), listen1 + acked + changed},
	{"listen/subscription-id", listen1 + acked + `< s1 0 {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, listen1 + acked + changed},
	{"listen/not-asked", listen1 + acked + replaced(changed, "tools/list", "prompts/list"), listen1 + acked + changed},
	{"listen/request-scoped", listen1 + acked + replaced(logs, "200", "0"), listen1 + acked + changed},
	{"progress/unknown-token", call1 + `< s1 200 Content-Type=text/event-stream {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`, replaced(call1, "$M", tokened) + `< s1 200 Content-Type=text/event-stream {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`},
	{"cancel/http", `> s1 ` + post + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, call1 + done1},
	{"meta/client-info", `> s1 ` + post + `Mcp-Method=tools/list {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, list1},
	{"meta/server-info", list1 + replaced(ok1, ",$I", ""), list1 + ok1},
	{"message/member-missing", list1 + `< s1 400 Content-Type=application/json {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":[]}}}`, list1 + `< s1 400 Content-Type=application/json {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":[],"requested":"x"}}}`},
}
