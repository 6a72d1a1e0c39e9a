package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"taskbridge/session"
)

// tenantServer trusts every name it is told.
type tenantServer struct {
	legacy bool
	mu     sync.Mutex        // protects the fields below
	next   int               // of tasks and sessions
	owners map[string]string // task -> mark
	marks  map[session.Principal]string
}

func newTenantServer(legacy bool) *tenantServer {
	s := &tenantServer{legacy: legacy, owners: map[string]string{}, marks: map[session.Principal]string{}}
	for i := range tenants {
		s.marks[session.HashPrincipal("token", "Bearer t"+fmt.Sprint(i))] = mark(i)
	}
	return s
}

func (s *tenantServer) task(id, head, tail string) string {
	ttl, poll := "ttlMs", "pollIntervalMs"
	if s.legacy {
		ttl, poll = "ttl", "pollInterval"
	}
	return fmt.Sprintf(`{%s"taskId":%q,"status":"working","statusMessage":%q,"createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z",%q:null,%q:1000%s}`, head, id, s.owners[id], ttl, poll, tail)
}

func (s *tenantServer) serve(x *scaleExchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	me := s.marks[x.as]
	if x.msg == nil || x.msg.ID.IsZero() || x.msg.Method == "" {
		if x.out.Verb == http.MethodGet {
			x.more = make(chan string)
			return
		}
		x.status = http.StatusAccepted
		return
	}
	complete := ""
	if !s.legacy {
		complete = `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
	}
	id, _ := x.msg.At("params", "taskId").Str()
	cursor, _ := x.msg.At("params", "cursor").Str()
	whose := me // lists go on as whoever the cursor says
	if cursor != "" {
		whose = strings.TrimPrefix(cursor, "cursor-")
	}
	name, _ := x.msg.At("params", "name").Str()
	state, _ := x.msg.At("params", "requestState").Str()
	switch x.msg.Method {
	case "server/discover":
		x.reply(`{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	case "initialize":
		s.next++
		x.header.Set("Mcp-Session-Id", fmt.Sprint("upstream-", s.next))
		x.reply(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}`)
	case "tools/list":
		if cursor == "" { // the proxy asks for it itself, for all callers of a session
			x.reply(`{` + complete + `"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},{"name":"ask","inputSchema":{"type":"object"}}]}`)
			return
		}
		x.reply(fmt.Sprintf(`{%s"tools":[{"name":"tool-%s","inputSchema":{"type":"object"}}]}`, complete, whose))
	case "prompts/list":
		x.reply(fmt.Sprintf(`{%s"prompts":[{"name":"prompt-%s"}],"nextCursor":"cursor-%s"}`, complete, whose, whose))
	case "resources/list":
		x.reply(fmt.Sprintf(`{%s"resources":[{"uri":"file:///%s","name":"r"}],"nextCursor":"cursor-%s"}`, complete, whose, whose))
	case "resources/templates/list":
		x.reply(fmt.Sprintf(`{%s"resourceTemplates":[{"uriTemplate":"file:///%s/{x}","name":"r"}],"nextCursor":"cursor-%s"}`, complete, whose, whose))
	case "prompts/get", "resources/read":
		if state != "" {
			whose = strings.TrimPrefix(state, "state-")
		}
		if x.msg.Method == "prompts/get" {
			x.reply(fmt.Sprintf(`{%s"messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, complete, whose))
		} else {
			x.reply(fmt.Sprintf(`{%s"contents":[{"uri":"file:///x","text":%q}]}`, complete, whose))
		}
	case "tools/call":
		s.call(x, name, state, me, complete)
	case "tasks/get":
		head, tail := "", ""
		if !s.legacy {
			head = `"resultType":"complete",`
		}
		x.reply(s.task(id, head, tail))
	case "tasks/list":
		all := make([]string, 0, len(s.owners))
		for id := range s.owners {
			all = append(all, s.task(id, "", ""))
		}
		x.reply(`{"tasks":[` + strings.Join(all, ",") + `],"nextCursor":"cursor-` + me + `"}`)
	case "tasks/cancel":
		s.owners[id] += " cancelled"
		if s.legacy {
			x.reply(strings.Replace(s.task(id, "", ""), `"working"`, `"cancelled"`, 1))
		} else {
			x.reply(`{"resultType":"complete"}`)
		}
	case "tasks/result", "subscriptions/listen":
		x.more = make(chan string, 10)
		if x.msg.Method == "subscriptions/listen" {
			x.more <- `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` +
				string(x.msg.ID.Raw()) + `},"notifications":` + string(x.msg.At("params", "notifications").Raw()) + `}}`
			for v := range x.msg.At("params", "notifications", "taskIds").Elems() {
				id, _ := v.Str()
				x.more <- `{"jsonrpc":"2.0","method":"notifications/tasks","params":` + s.task(id, `"_meta":{"io.modelcontextprotocol/subscriptionId":`+string(x.msg.ID.Raw())+`},`, "") + `}`
			}
		}
	default:
		x.reply(strings.TrimSuffix("{"+complete, ",") + "}")
	}
}

func (s *tenantServer) call(x *scaleExchange, name, state, me, complete string) {
	content := func(text string) string {
		return fmt.Sprintf(`{%s"content":[{"type":"text","text":%q}]}`, complete, text)
	}
	task := !s.legacy && name == "job" || x.msg.At("params", "task").Exists()
	switch {
	case task:
		s.next++
		id := fmt.Sprint("task-", s.next) // easily guessed
		s.owners[id] = me
		if s.legacy {
			x.reply(`{"task":` + s.task(id, "", "") + `}`)
		} else {
			x.reply(s.task(id, `"resultType":"task",`, ""))
		}
	case name != "ask":
		x.reply(content(me))
	case state != "":
		x.reply(content(strings.TrimPrefix(state, "state-")))
	case s.legacy:
		x.more = make(chan string, 1)
		x.more <- fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object","properties":{}}}}`, me)
	default:
		x.reply(fmt.Sprintf(`{"resultType":"input_required","requestState":"state-%s","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":%q,"requestedSchema":{"type":"object","properties":{}}}}}}`, me, me))
	}
}
