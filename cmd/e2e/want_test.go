package e2e

// legacyOnModern is what a legacy client sees of the modern server.
var legacyOnModern = map[string]string{
	"ask": `{"step":"question","message":"What is your name?","mode":"form","related":null}
		{"step":"result","isError":false,"text":"Hello, Ada"}`,
	"ask-decline": `{"step":"question","message":"What is your name?","mode":"form","related":null}
		{"step":"result","isError":false,"text":"No name (decline)"}`,
	"ask-then-task": `{"step":"created","hasTtl":true,"pollInterval":1000,"status":"working","ttl":60000}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"question","message":"What is your name?","mode":"form","related":"ID"}
		{"step":"result","isError":false,"related":true,"text":"Hello, Ada"}
		{"step":"final","status":"completed"}`,
	"ask-twice": `{"step":"question","message":"What is your name?","mode":"form","related":null}
		{"step":"question","message":"Which colour?","mode":"form","related":null}
		{"step":"result","isError":false,"text":"Ada likes green"}`,
	"ask-undeclared": `{"step":"result","error":{"code":-32021,"data":{"requiredCapabilities":{"elicitation":{"form":{}}}},"message":"MCP error -32021: Cannot request input 'name' (elicitation/create): the request's client capabilities do not declare the required capability"}}`,
	"call":           `{"step":"result","isError":false,"structured":{"list":[1,2.5,null],"nested":{"a":"ü"},"text":"hello"},"text":"hello"}`,
	"cancel": `{"step":"cancelled","hasTtl":true,"sameTask":true,"status":"cancelled"}
		{"step":"after","status":"cancelled"}
		{"step":"result","error":{"code":-32603,"message":"MCP error -32603: task ID was cancelled"}}
		{"step":"again","error":{"code":-32602,"message":"MCP error -32602: Cannot cancel task: already in terminal status 'cancelled'"}}`,
	"cancel-call": `{"step":"call","error":{"code":-32001,"message":"MCP error -32001: enough"}}
		{"step":"alive"}`,
	"cancel-finished": `{"step":"polled","statuses":["working","completed"]}
		{"step":"cancel","error":{"code":-32602,"message":"MCP error -32602: Cannot cancel task: already in terminal status 'completed'"}}
		{"step":"result","isError":false,"related":true,"structured":{"label":"f","seconds":0},"text":"computed f in 0 s"}`,
	"cancel-waiting": `{"step":"cancelled","status":"cancelled"}
		{"step":"waiting","error":{"code":-32603,"message":"MCP error -32603: task ID was cancelled"}}`,
	"failing": `{"step":"polled","messages":["?failing_job failed on purpose"],"statuses":["working","failed"]}
		{"step":"result","isError":true,"related":true,"text":"failing_job failed on purpose"}`,
	"failing-stream": `{"step":"error","error":{"code":-32603,"message":"MCP error -32603: Task ID failed"}}`,
	"greet":          `{"step":"result","isError":false,"text":"Hello, Ada!"}`,
	"initialize":     `{"step":"initialize","capabilities":["logging","prompts","resources","tasks","tools"],"extensions":[],"instructions":"A fixture. Ask it anything.","protocolVersion":"2025-11-25","server":"modern-peer","session":true,"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}}`,
	"list": `{"step":"tool","name":"greet","taskSupport":"optional"}
		{"step":"tool","name":"slow_compute","taskSupport":"optional"}
		{"step":"tool","name":"failing_job","taskSupport":"optional"}
		{"step":"tool","name":"protocol_error_job","taskSupport":"optional"}
		{"step":"tool","name":"confirm_delete","taskSupport":"optional"}
		{"step":"tool","name":"multi_input","taskSupport":"optional"}
		{"step":"tool","name":"sample_task","taskSupport":"optional"}
		{"step":"tool","name":"test_tool_with_task","taskSupport":"optional"}
		{"step":"tool","name":"echo","taskSupport":"optional"}
		{"step":"tool","name":"ask_name","taskSupport":"optional"}
		{"step":"tool","name":"ask_twice","taskSupport":"optional"}
		{"step":"tool","name":"sample","taskSupport":"optional"}
		{"step":"tool","name":"roots","taskSupport":"optional"}
		{"step":"tool","name":"progress","taskSupport":"optional"}
		{"step":"tool","name":"log","taskSupport":"optional"}
		{"step":"tool","name":"touch","taskSupport":"optional"}
		{"step":"list","count":16}`,
	"log": `{"step":"result","isError":false,"text":"logged at info"}
		{"step":"log","lines":["info: a line of level info","error: a line of level error"]}`,
	"optional-plain": `{"step":"result","isError":false,"structured":{"label":"plain","seconds":1},"text":"computed plain in 1 s"}`,
	"other-session": `{"step":"other","status":"working"}
		{"step":"list","found":true}`,
	"ping": `{"step":"ping"}`,
	"progress": `{"step":"progress","seen":[1,2,3,4]}
		{"step":"result","isError":false,"text":"4 steps"}`,
	"prompts": `{"step":"list","names":["hello"]}
		{"step":"get","text":"Say hello to Ada"}`,
	"protocol-error": `{"step":"polled","messages":["?protocol_error_job broke on purpose"],"statuses":["working","failed"]}
		{"step":"result","error":{"code":-32011,"data":{"fixture":true},"message":"MCP error -32011: protocol_error_job broke on purpose"}}
		{"step":"again","error":{"code":-32011,"data":{"fixture":true},"message":"MCP error -32011: protocol_error_job broke on purpose"}}`,
	"question": `{"step":"created","hasTtl":true,"pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"question","message":"Delete a.txt?","mode":"form","related":"ID"}
		{"step":"final","status":"completed"}
		{"step":"result","isError":false,"related":true,"text":"Deleted a.txt"}`,
	"question-abandon": `{"step":"polled","statuses":["working","input_required"]}
		?{"step":"question","message":"Delete b.txt?","mode":"form","related":"ID"}
		{"step":"cancelled","status":"cancelled"}
		{"step":"after","questions":"*","status":"cancelled"}`,
	"question-cancel": `{"step":"created","hasTtl":true,"pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"question","message":"Delete a.txt?","mode":"form","related":"ID"}
		{"step":"final","status":"completed"}
		{"step":"result","isError":false,"related":true,"text":"Kept a.txt (cancel)"}`,
	"question-decline": `{"step":"created","hasTtl":true,"pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"question","message":"Delete a.txt?","mode":"form","related":"ID"}
		{"step":"final","status":"completed"}
		{"step":"result","isError":false,"related":true,"text":"Kept a.txt (decline)"}`,
	"question-plain": `{"step":"question","message":"Delete p.txt?","mode":"form","related":null}
		{"step":"result","isError":false,"text":"Deleted p.txt"}`,
	"question-stream": `{"step":"question","message":"Delete s.txt?","mode":"form","related":"ID"}
		{"step":"result","isError":false,"text":"Deleted s.txt"}
		{"step":"stream","events":["taskCreated","?taskStatus:working","taskStatus:input_required","result"]}`,
	"question-undeclared": `{"step":"polled","messages":[],"statuses":["working","?input_required","?working","completed"]}
		{"step":"result","isError":false,"related":true,"text":"Kept u.txt (cancel)"}`,
	"required-plain": `{"step":"result","isError":true,"text":"failing_job failed on purpose"}`,
	"resources": `{"step":"list","uris":["peer://note"]}
		{"step":"templates","templates":["peer://item/{id}"]}
		{"step":"read","text":"a note"}
		{"step":"item","text":"item 7"}
		{"step":"missing","error":{"code":-32002,"data":{"uri":"peer://missing"},"message":"MCP error -32002: Resource peer://missing not found"}}`,
	"roots": `{"step":"result","isError":false,"text":"file:///peer"}`,
	"sample": `{"step":"sampling","related":null,"text":"Say something"}
		{"step":"result","isError":false,"text":"Sampled: something"}`,
	"sample-task": `{"step":"created","hasTtl":true,"pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"sampling","related":"ID","text":"Say something"}
		{"step":"final","status":"completed"}
		{"step":"result","isError":false,"related":true,"text":"Sampled: something"}`,
	"subscribe": `{"step":"subscribed"}
		{"step":"updated","listChanged":true,"uris":["peer://note"]}
		{"step":"unsubscribed"}`,
	"task": `{"step":"created","hasTtl":true,"pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","messages":["?second 1 of 2"],"statuses":["working","completed"]}
		{"step":"result","isError":false,"related":true,"structured":{"label":"x","seconds":2},"text":"computed x in 2 s"}
		{"step":"notified","statuses":["?working","?completed"]}`,
	"task-forbidden": `{"step":"polled","statuses":["working","completed"]}
		{"step":"result","isError":false,"related":true,"text":"Hello, Ada!"}`,
	"task-immediate": `{"step":"created","hasTtl":true,"pollInterval":1000,"status":"working","ttl":60000}
		{"step":"polled","statuses":["working","completed"]}
		{"step":"result","isError":false,"related":true,"structured":{"label":"now","seconds":0},"text":"computed now in 0 s"}`,
	"task-progress": `{"step":"result","isError":false,"related":true,"structured":{"label":"p","seconds":3},"text":"computed p in 3 s"}
		{"step":"progress","messages":["?second 1 of 3","?second 2 of 3"]}`,
	"task-result": `{"step":"waited","blocked":true}
		{"step":"result","isError":false,"related":true,"structured":{"label":"blocked","seconds":1},"text":"computed blocked in 1 s"}
		{"step":"again","isError":false,"related":true,"structured":{"label":"blocked","seconds":1},"text":"computed blocked in 1 s"}`,
	"task-stream": `{"step":"result","isError":false,"structured":{"label":"s","seconds":1},"text":"computed s in 1 s"}
		{"step":"stream","events":["taskCreated","?taskStatus:working","taskStatus:completed","result"]}`,
	"tasklist": `{"step":"tasklist","count":1,"found":true,"status":"working"}`,
	"tasklist-pages": `{"step":"pages","found":25,"made":25,"pages":1}
		{"step":"bad-cursor","error":{"code":-32602,"message":"MCP error -32602: invalid cursor"}}`,
	"two": `{"step":"created","hasTtl":true,"pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"question","message":"First name?","mode":"form","related":"ID"}
		{"step":"question","message":"Second name?","mode":"form","related":"ID"}
		{"step":"final","status":"completed"}
		{"step":"result","isError":false,"related":true,"text":"Got Ada and Grace"}`,
	"two-sessions": `{"step":"sessions","differ":true,"first":"first","second":"second"}`,
	"unknown-task": `{"step":"get","error":{"code":-32602,"message":"MCP error -32602: Failed to retrieve task: Task not found"}}
		{"step":"result","error":{"code":-32602,"message":"MCP error -32602: Failed to retrieve task: Task not found"}}
		{"step":"cancel","error":{"code":-32602,"message":"MCP error -32602: Failed to retrieve task: Task not found"}}`,
	"unknown-tool": `{"step":"result","error":{"code":-32602,"message":"MCP error -32602: Unknown tool: no_such_tool"}}`,
}

// modernOnLegacy is what a modern client sees of the legacy server.
var modernOnLegacy = map[string]string{
	"ask": `{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"result","isError":false,"text":"Hello, Ada"}`,
	"ask-decline": `{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"result","isError":false,"text":"No name (decline)"}`,
	"ask-then-task": `{"step":"question","key":"q1","message":"What is your name?","mode":"form","scope":"request"}
		{"step":"created","kind":"task"}
		{"step":"polled","messages":[],"statuses":["working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"Hello, Ada"}`,
	"ask-twice": `{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"question","message":"Which colour?","mode":"form"}
		{"step":"result","isError":false,"text":"Ada likes green"}`,
	"ask-undeclared": `{"step":"result","isError":true,"text":"MCP error -32602: the client did not declare elicitation/create in this mode"}`,
	"ask-wire": `{"step":"asked","method":"elicitation/create","resultType":"input_required","state":"string"}
		{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"tampered","error":{"code":-32602,"message":"invalid requestState; call again without it"}}
		{"step":"result","isError":false,"text":"Hello, Ada"}
		{"step":"again","error":{"code":-32602,"message":"invalid requestState; call again without it"}}`,
	"auto": `{"step":"auto","era":"modern","protocolVersion":"2026-07-28"}
		{"step":"result","isError":false,"text":"Hello, Ada!"}`,
	"call": `{"step":"result","isError":false,"structured":{"list":[1,2.5,null],"nested":{"a":"ü"},"text":"hello"},"text":"hello"}`,
	"cancel": `{"step":"cancelled","outcome":"cancelled"}
		{"step":"after","status":"cancelled"}`,
	"cancel-call": `{"step":"call","error":{"code":"REQUEST_TIMEOUT","message":"enough"}}
		{"step":"alive"}`,
	"cancel-finished": `{"step":"polled","status":"completed"}
		{"step":"cancel","keys":["resultType"],"resultType":"complete"}
		{"step":"after","status":"completed"}`,
	"discover": `{"step":"discover","capabilities":["extensions","logging","prompts","resources","tools"],"era":"modern","instructions":"A fixture. Ask it anything.","protocolVersion":"2026-07-28","server":"legacy-peer","tasks":{}}
		{"step":"wire","cacheScope":"private","resultType":"complete","ttlMs":0,"versions":["2026-07-28","2026-06-30"]}`,
	"failing": `{"step":"created","kind":"task"}
		{"step":"polled","messages":[],"statuses":["working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":true,"text":"failing_job failed on purpose"}`,
	"greet": `{"step":"result","isError":false,"text":"Hello, Ada!"}`,
	"header-mismatch": `{"step":"method","code":-32020,"status":400}
		{"step":"name","code":-32020,"status":400}
		{"step":"version","code":-32020,"status":400}`,
	"legacy-era": `{"step":"legacy","era":"legacy","protocolVersion":"2025-11-25"}
		{"step":"result","isError":false,"text":"Hello, Ada!"}
		{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"asked","isError":false,"text":"Hello, Ada"}`,
	"list": `{"step":"tool","name":"greet","taskSupport":null}
		{"step":"tool","name":"slow_compute","taskSupport":null}
		{"step":"tool","name":"failing_job","taskSupport":null}
		{"step":"tool","name":"protocol_error_job","taskSupport":null}
		{"step":"tool","name":"confirm_delete","taskSupport":null}
		{"step":"tool","name":"multi_input","taskSupport":null}
		{"step":"tool","name":"sample_task","taskSupport":null}
		{"step":"tool","name":"test_tool_with_task","taskSupport":null}
		{"step":"tool","name":"echo","taskSupport":null}
		{"step":"tool","name":"ask_name","taskSupport":null}
		{"step":"tool","name":"ask_twice","taskSupport":null}
		{"step":"tool","name":"sample","taskSupport":null}
		{"step":"tool","name":"roots","taskSupport":null}
		{"step":"tool","name":"progress","taskSupport":null}
		{"step":"tool","name":"log","taskSupport":null}
		{"step":"tool","name":"touch","taskSupport":null}
		{"step":"list","count":16}`,
	"listen": `{"step":"listening","honoured":{"resourceSubscriptions":["peer://note"],"toolsListChanged":true}}
		{"step":"updated","listChanged":true,"uris":["peer://note"]}
		{"step":"closed"}`,
	"listen-tasks": `{"step":"question","message":"Delete l.txt?","mode":"form"}
		{"step":"acknowledged","own":true}
		{"step":"notified","last":"completed","subscription":"string"}
		{"step":"result","isError":false,"text":"Deleted l.txt"}`,
	"log": `{"step":"result","isError":false,"text":"logged"}
		{"step":"log","lines":["info: a line of level info","error: a line of level error"]}
		{"step":"quiet","lines":[]}`,
	"optional-plain": `{"step":"result","isError":false,"structured":{"label":"plain","seconds":1},"text":"computed plain in 1 s"}`,
	"other-caller": `{"step":"get","error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}}
		{"step":"cancel","error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}}
		{"step":"own","status":"working"}`,
	"other-client": `{"step":"other","status":"working"}
		{"step":"after","status":"cancelled"}`,
	"progress": `{"step":"progress","seen":[1,2,3,4]}
		{"step":"result","isError":false,"text":"4 steps"}`,
	"prompts": `{"step":"list","names":["hello"]}
		{"step":"get","text":"Say hello to Ada"}`,
	"protocol-error": `{"step":"created","kind":"task"}
		{"step":"polled","messages":["?protocol_error_job broke on purpose"],"statuses":["working","failed"]}
		{"step":"outcome","status":"failed"}
		{"step":"error","error":{"code":-32011,"data":{"fixture":true},"message":"protocol_error_job broke on purpose"}}`,
	"question": `{"step":"created","kind":"task"}
		{"step":"question","key":"q1","message":"Delete a.txt?","mode":"form","scope":"task"}
		{"step":"polled","messages":["?answered"],"statuses":["working","input_required","?working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"Deleted a.txt"}`,
	"question-abandon": `{"step":"polled","status":"input_required"}
		{"step":"after","inputRequests":false,"status":"cancelled"}`,
	"question-cancel": `{"step":"created","kind":"task"}
		{"step":"question","key":"q1","message":"Delete a.txt?","mode":"form","scope":"task"}
		{"step":"polled","messages":["?answered"],"statuses":["working","input_required","?working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"Kept a.txt (cancel)"}`,
	"question-decline": `{"step":"created","kind":"task"}
		{"step":"question","key":"q1","message":"Delete a.txt?","mode":"form","scope":"task"}
		{"step":"polled","messages":["?answered"],"statuses":["working","input_required","?working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"Kept a.txt (decline)"}`,
	"question-plain": `{"step":"question","message":"Delete p.txt?","mode":"form"}
		{"step":"result","isError":false,"text":"Deleted p.txt"}`,
	"removed": `{"step":"tasks/result","code":-32601,"status":404}
		{"step":"tasks/list","code":-32601,"status":404}
		{"step":"initialize","code":-32601,"status":404}
		{"step":"ping","code":-32601,"status":404}
		{"step":"logging/setLevel","code":-32601,"status":404}
		{"step":"resources/subscribe","code":-32601,"status":404}`,
	"required-plain": `{"step":"result","isError":true,"text":"failing_job failed on purpose"}`,
	"resources": `{"step":"list","uris":["peer://note"]}
		{"step":"templates","templates":["peer://item/{id}"]}
		{"step":"read","text":"a note"}
		{"step":"item","text":"item 7"}
		{"step":"missing","error":{"code":-32602,"message":"MCP error -32602: Resource peer://missing not found"}}`,
	"roots": `{"step":"result","isError":false,"text":"file:///peer"}`,
	"sample": `{"step":"sampling","text":"Say something"}
		{"step":"result","isError":false,"text":"Sampled: something"}`,
	"sample-task": `{"step":"created","kind":"task"}
		{"step":"sampling","key":"q1","scope":"task","text":"Say something"}
		{"step":"polled","messages":["?answered"],"statuses":["working","input_required","?working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"Sampled: something"}`,
	"task": `{"step":"created","kind":"task"}
		{"step":"polled","messages":["?second 1 of 2"],"statuses":["working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"structured":{"label":"x","seconds":2},"text":"computed x in 2 s"}`,
	"task-immediate": `{"step":"created","kind":"task"}
		{"step":"polled","messages":[],"statuses":["working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"structured":{"label":"now","seconds":0},"text":"computed now in 0 s"}`,
	"task-wire": `{"step":"created","keys":["_meta","createdAt","lastUpdatedAt","pollIntervalMs","resultType","status","taskId","ttlMs"],"pollIntervalMs":100,"status":"working","ttlMs":null}
		{"step":"get","keys":["_meta","createdAt","lastUpdatedAt","pollIntervalMs","resultType","status","taskId","ttlMs"],"resultType":"complete","status":"working"}
		{"step":"final","keys":["_meta","createdAt","lastUpdatedAt","pollIntervalMs","result","resultType","status","taskId","ttlMs"],"resultKeys":["content","resultType","structuredContent"],"status":"completed"}
		{"step":"result","isError":false,"structured":{"label":"w","seconds":4},"text":"computed w in 4 s"}`,
	"two": `{"step":"created","kind":"task"}
		{"step":"question","key":"q1","message":"First name?","mode":"form","scope":"task"}
		{"step":"question","key":"q2","message":"Second name?","mode":"form","scope":"task"}
		{"step":"polled","messages":["?answered"],"statuses":["working","input_required","?working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"Got Ada and Grace"}`,
	"two-partial": `{"step":"asked","messages":["First name?","Second name?"],"methods":["elicitation/create","elicitation/create"],"status":"input_required"}
		{"step":"question","message":"First name?","mode":"form"}
		{"step":"one","ack":["resultType"],"left":1,"right":true,"status":"input_required"}
		{"step":"question","message":"First name?","mode":"form"}
		{"step":"repeat","status":"input_required"}
		{"step":"question","message":"Second name?","mode":"form"}
		{"step":"result","isError":false,"text":"Got Ada and Grace"}`,
	"undeclared": `{"step":"get","error":{"code":-32021,"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"message":"*"}}
		{"step":"update","error":{"code":-32021,"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"message":"*"}}
		{"step":"cancel","error":{"code":-32021,"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"message":"*"}}
		{"step":"unknown","error":{"code":-32021,"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"message":"*"}}
		{"step":"listen","error":{"code":-32021,"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}},"message":"*"}}`,
	"unknown-task": `{"step":"get","error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}}
		{"step":"update","error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}}
		{"step":"cancel","error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}}`,
	"unknown-tool": `{"step":"result","isError":true,"text":"MCP error -32602: Tool no_such_tool not found"}`,
}

// mcpgoOnModern is what mcp-go as a legacy client sees of the modern server.
var mcpgoOnModern = map[string]string{
	"ask": `{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"result","isError":false,"structured":null,"text":"Hello, Ada"}`,
	"call": `{"step":"result","isError":false,"structured":{"text":"hello"},"text":"hello"}`,
	"cancel": `{"step":"cancelled","sameTask":true,"status":"cancelled"}
		{"step":"after","status":"cancelled"}`,
	"cancel-finished": `{"step":"polled","statuses":["working","completed"]}
		{"step":"cancel","error":"invalid params: Cannot cancel task: already in terminal status 'completed'","invalidParams":true}`,
	"failing": `{"step":"created","pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","message":"failing_job failed on purpose","statuses":["working","failed"]}
		{"step":"result","isError":true,"text":"failing_job failed on purpose"}`,
	"greet":      `{"step":"result","isError":false,"structured":null,"text":"Hello, Ada!"}`,
	"initialize": `{"step":"initialize","extensions":null,"protocolVersion":"2025-11-25","session":true,"tasks":true,"tools":true}`,
	"list": `{"step":"tool","name":"greet","taskSupport":"optional"}
		{"step":"tool","name":"slow_compute","taskSupport":"optional"}
		{"step":"tool","name":"failing_job","taskSupport":"optional"}
		{"step":"tool","name":"protocol_error_job","taskSupport":"optional"}
		{"step":"tool","name":"confirm_delete","taskSupport":"optional"}
		{"step":"tool","name":"multi_input","taskSupport":"optional"}
		{"step":"tool","name":"sample_task","taskSupport":"optional"}
		{"step":"tool","name":"test_tool_with_task","taskSupport":"optional"}
		{"step":"tool","name":"echo","taskSupport":"optional"}
		{"step":"tool","name":"ask_name","taskSupport":"optional"}
		{"step":"tool","name":"ask_twice","taskSupport":"optional"}
		{"step":"tool","name":"sample","taskSupport":"optional"}
		{"step":"tool","name":"roots","taskSupport":"optional"}
		{"step":"tool","name":"progress","taskSupport":"optional"}
		{"step":"tool","name":"log","taskSupport":"optional"}
		{"step":"tool","name":"touch","taskSupport":"optional"}
		{"step":"list","count":16}`,
	"optional-plain": `{"step":"result","isError":false,"structured":{"label":"plain","seconds":1},"text":"computed plain in 1 s"}`,
	"ping":           ``,
	"prompts":        `{"step":"get","text":"Say hello to Ada"}`,
	"protocol-error": `{"step":"created","pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","message":"protocol_error_job broke on purpose","statuses":["working","failed"]}
		{"step":"error","error":"protocol_error_job broke on purpose"}`,
	"question": `{"step":"created","pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","message":"","statuses":["working","input_required"]}
		{"step":"question","message":"Delete a.txt?","mode":"form"}
		{"step":"result","isError":false,"text":"Deleted a.txt"}`,
	"required-plain": `{"step":"result","isError":true,"structured":null,"text":"failing_job failed on purpose"}`,
	"resources": `{"step":"list","uris":["peer://note"]}
		{"step":"read","text":"a note"}`,
	"task": `{"step":"created","pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","message":"*","statuses":["working","completed"]}
		{"step":"result","isError":false,"text":"computed x in 2 s"}`,
	"tasklist":     `{"step":"tasklist","count":1,"found":true}`,
	"unknown-task": `{"step":"get","error":"invalid params: Failed to retrieve task: Task not found","invalidParams":true}`,
	"unknown-tool": `{"step":"error","error":"invalid params: Unknown tool: no_such_tool"}`,
}

// mcpgoOnLegacy is what mcp-go as a modern client, without tasks, sees of the legacy server.
var mcpgoOnLegacy = map[string]string{
	"ask": `{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"result","isError":false,"structured":null,"text":"Hello, Ada"}`,
	"call":       `{"step":"result","isError":false,"structured":{"text":"hello"},"text":"hello"}`,
	"greet":      `{"step":"result","isError":false,"structured":null,"text":"Hello, Ada!"}`,
	"initialize": `{"step":"initialize","extensions":["io.modelcontextprotocol/tasks"],"protocolVersion":"2026-07-28","session":false,"tasks":false,"tools":true}`,
	"list": `{"step":"tool","name":"greet","taskSupport":null}
		{"step":"tool","name":"slow_compute","taskSupport":null}
		{"step":"tool","name":"failing_job","taskSupport":null}
		{"step":"tool","name":"protocol_error_job","taskSupport":null}
		{"step":"tool","name":"confirm_delete","taskSupport":null}
		{"step":"tool","name":"multi_input","taskSupport":null}
		{"step":"tool","name":"sample_task","taskSupport":null}
		{"step":"tool","name":"test_tool_with_task","taskSupport":null}
		{"step":"tool","name":"echo","taskSupport":null}
		{"step":"tool","name":"ask_name","taskSupport":null}
		{"step":"tool","name":"ask_twice","taskSupport":null}
		{"step":"tool","name":"sample","taskSupport":null}
		{"step":"tool","name":"roots","taskSupport":null}
		{"step":"tool","name":"progress","taskSupport":null}
		{"step":"tool","name":"log","taskSupport":null}
		{"step":"tool","name":"touch","taskSupport":null}
		{"step":"list","count":16}`,
	"optional-plain": `{"step":"result","isError":false,"structured":{"label":"plain","seconds":1},"text":"computed plain in 1 s"}`,
	"prompts":        `{"step":"get","text":"Say hello to Ada"}`,
	"required-plain": `{"step":"result","isError":true,"structured":null,"text":"failing_job failed on purpose"}`,
	"resources": `{"step":"list","uris":["peer://note"]}
		{"step":"read","text":"a note"}`,
	"unknown-tool": `{"step":"result","isError":true,"structured":null,"text":"MCP error -32602: Tool no_such_tool not found"}`,
}

// modernOnMCPGo is what a modern client sees of an mcp-go server, whose tasks are legacy ones.
var modernOnMCPGo = map[string]string{
	"ask": `{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"result","isError":false,"text":"Hello, Ada"}`,
	"ask-decline": `{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"result","isError":false,"text":"No name (decline)"}`,
	"call": `{"step":"result","isError":false,"structured":{"list":[1,2.5,null],"nested":{"a":"ü"},"text":"hello"},"text":"hello"}`,
	"cancel": `{"step":"cancelled","outcome":"cancelled"}
		{"step":"after","status":"cancelled"}`,
	"cancel-finished": `{"step":"polled","status":"completed"}
		{"step":"cancel","keys":["resultType"],"resultType":"complete"}
		{"step":"after","status":"completed"}`,
	"discover": `{"step":"discover","capabilities":["extensions","logging","prompts","resources","tools"],"era":"modern","instructions":"A fixture. Ask it anything.","protocolVersion":"2026-07-28","server":"mcpgo-peer","tasks":{}}
		{"step":"wire","cacheScope":"private","resultType":"complete","ttlMs":0,"versions":["2026-07-28","2026-06-30"]}`,
	"failing": `{"step":"created","kind":"task"}
		{"step":"polled","messages":[],"statuses":["working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":true,"text":"failing_job failed on purpose"}`,
	"greet": `{"step":"result","isError":false,"text":"Hello, Ada!"}`,
	"list": `{"step":"tool","name":"ask_name","taskSupport":null}
		{"step":"tool","name":"echo","taskSupport":null}
		{"step":"tool","name":"failing_job","taskSupport":null}
		{"step":"tool","name":"greet","taskSupport":null}
		{"step":"tool","name":"protocol_error_job","taskSupport":null}
		{"step":"tool","name":"slow_compute","taskSupport":null}
		{"step":"list","count":6}`,
	"optional-plain": `{"step":"result","isError":false,"text":"computed plain in 1 s"}`,
	"other-client": `{"step":"other","status":"working"}
		{"step":"after","status":"cancelled"}`,
	"prompts": `{"step":"list","names":["hello"]}
		{"step":"get","text":"Say hello to Ada"}`,
	"protocol-error": `{"step":"created","kind":"task"}
		{"step":"polled","messages":["?protocol_error_job broke on purpose"],"statuses":["working","failed"]}
		{"step":"outcome","status":"failed"}
		{"step":"error","error":{"code":-32603,"message":"protocol_error_job broke on purpose"}}`,
	"required-plain": `{"step":"result","isError":true,"text":"failing_job failed on purpose"}`,
	"task": `{"step":"created","kind":"task"}
		{"step":"polled","messages":[],"statuses":["working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"computed x in 2 s"}`,
	"task-immediate": `{"step":"created","kind":"task"}
		{"step":"polled","messages":[],"statuses":["working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"computed now in 0 s"}`,
	"unknown-task": `{"step":"get","error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}}
		{"step":"update","error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}}
		{"step":"cancel","error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}}`,
	"unknown-tool": `{"step":"result","error":{"code":-32602,"message":"tool 'no_such_tool' not found: tool not found"}}`,
}

// The server asks for roots soon after its session begins, outside of any call:
// that question belongs to the session's only live task, if there is one.
//
// modernOnEverything is what a modern client sees of the reference server
// "everything", whose one task tool is legacy.
var modernOnEverything = map[string]string{
	"everything": `{"step":"echo","isError":false,"text":"Echo: hello"}
		{"step":"sum","isError":false,"text":"The sum of 2 and 3 is 5."}
		{"step":"structured","isError":false,"structured":{"conditions":"Light rain / drizzle","humidity":82,"temperature":36},"text":"*"}
		{"step":"image","isError":false,"text":"Here's the image you requested:\n[image]\nThe image above is the MCP logo."}`,
	"everything-task": `{"step":"created","kind":"task"}
		{"step":"polled","messages":["?Gathering sources...","?Analyzing content...","?Synthesizing findings...","?Generating report..."],"statuses":["working","?input_required","?working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"# Research Report: bridges\n*"}`,
	"everything-question": `{"step":"created","kind":"task"}
		{"step":"question","key":"*","message":"The research query \"bridges\" could have multiple interpretations. Please clarify what you're looking for:","mode":"form","scope":"task"}
		{"step":"polled","messages":["?Gathering sources...","?Analyzing content...","?Found multiple interpretations for \"bridges\". Requesting clarification...","?Continuing with interpretation: \"technical\"...","?Generating report..."],"statuses":["working","?input_required","?working","input_required","?working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"# Research Report: bridges (technical)\n*"}`,
}
