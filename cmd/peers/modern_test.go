package peers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestModern_ListAndPlainCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := modernPair(t, ServerOptions{})
		found, err := c.Discover(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want(t, "extension", field(t, found, "capabilities", "extensions", TasksExtension), struct{}{})
		for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			r, err := c.Call(t.Context(), method, nil)
			r = must(t, r, err)
			want(t, method, field(t, r.Result, "resultType"), "complete")
			want(t, method, field(t, r.Result, "cacheScope"), "public")
			if strings.Contains(string(r.Result), "taskSupport") {
				t.Fatalf("%s shows execution: %s", method, r.Result)
			}
		}
		r, err := c.Call(t.Context(), "tools/call", object("name", "greet", "arguments", object("name", "Ada"), "task", struct{}{}))
		want(t, "greet", must(t, r, err).Text(), "Hello, Ada!")
		want(t, "calls", s.Calls("greet"), 1)
		args := json.RawMessage(`{ "n": 1e400, "s":"<&\u00e9>", "a":[ 1,
 2 ]}`)
		r, err = c.Call(t.Context(), "tools/call", object("name", "echo", "arguments", args))
		want(t, "echo", must(t, r, err).Text(), string(args))
		r, err = c.Call(t.Context(), "tools/call", object("name", "big", "arguments", object("bytes", 100_000)))
		want(t, "big", len(must(t, r, err).Text()), 100_000)
		r, err = c.Call(t.Context(), "resources/read", object("uri", readmeURI))
		must(t, r, err)
		r, err = c.Call(t.Context(), "resources/read", object("uri", "demo://nicht-da-ä"))
		wantCode(t, r, err, 200, CodeInvalidParams)
		r, err = c.Call(t.Context(), "prompts/get", object("name", "hello"))
		must(t, r, err)
		for _, method := range []string{"tasks/result", "tasks/list", "ping", "initialize", "nonsense"} {
			r, err = c.Call(t.Context(), method, object("taskId", "x"))
			wantCode(t, r, err, http.StatusNotFound, CodeMethodNotFound)
		}
	})
}

func TestModern_TaskLifecycle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := modernPair(t, ServerOptions{})
		run, err := c.RunTask(t.Context(), "slow_compute", object("seconds", 1, "label", "x"), nil)
		mustRun(t, run, err)
		want(t, "statuses", run.Statuses, []string{"working", "completed"})
		want(t, "text", run.Text(), "Computed x for 1s.")
		want(t, "created", field(t, run.Created, "resultType"), "task")
		want(t, "get", field(t, run.Last, "resultType"), "complete")
		want(t, "inline", field(t, run.Result, "resultType"), "complete")
		r, err := c.Call(t.Context(), "tasks/cancel", object("taskId", run.TaskID))
		must(t, r, err) // acknowledged although it is over
		r, err = c.Call(t.Context(), "tasks/get", object("taskId", run.TaskID))
		want(t, "status", field(t, must(t, r, err).Result, "status"), "completed")
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			r, err = c.Call(t.Context(), method, object("taskId", "none", "inputResponses", struct{}{}))
			wantCode(t, r, err, 200, CodeInvalidParams)
		}
		run, err = c.RunTask(t.Context(), "slow_compute", object("seconds", 0), nil)
		want(t, "plain", mustRun(t, run, err).TaskID, "")
		r, err = c.Call(t.Context(), "tools/call", object("name", "slow_compute", "arguments", object("seconds", 60)))
		id := field(t, must(t, r, err).Result, "taskId")
		pass(t, 20*time.Second)
		r, err = c.Call(t.Context(), "tasks/get", object("taskId", id))
		want(t, "message", field(t, must(t, r, err).Result, "statusMessage"), "1 of 4 quarters done")
		r, err = c.Call(t.Context(), "tasks/cancel", object("taskId", id))
		must(t, r, err)
		pass(t, time.Minute)
		r, err = c.Call(t.Context(), "tasks/get", object("taskId", id))
		want(t, "status", field(t, must(t, r, err).Result, "status"), "cancelled")
	})
}

func TestModern_FailuresInTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := modernPair(t, ServerOptions{})
		run, err := c.RunTask(t.Context(), "failing_job", nil, nil)
		want(t, "status", mustRun(t, run, err).Status(), "completed")
		want(t, "isError", field(t, run.Result, "isError"), true)
		run, err = c.RunTask(t.Context(), "protocol_error_job", nil, nil)
		want(t, "status", mustRun(t, run, err).Status(), "failed")
		want(t, "code", field(t, run.Error, "code"), CodeInternal)
		want(t, "result", field(t, run.Last, "result"), nil)
	})
}

func TestModern_Questions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := modernPair(t, ServerOptions{})
		both := byMessage(map[string]any{"your name": object("name", "Ada"), "colour": object("colour", "red")})
		run, err := c.RunTask(t.Context(), "confirm_delete", object("filename", "a.txt"), Accept(object("confirm", true)))
		mustRun(t, run, err)
		want(t, "accepted", run.Text(), "Deleted a.txt.")
		want(t, "first", run.Statuses[:2], []string{"working", "input_required"})
		run, err = c.RunTask(t.Context(), "confirm_delete", object("filename", "a.txt"), Decline())
		want(t, "declined", mustRun(t, run, err).Text(), "Kept a.txt.")
		run, err = c.RunTask(t.Context(), "confirm_delete", object("filename", "a.txt"), func(string, json.RawMessage) (any, any) {
			return nil, rpcErrorf(-1, "no")
		})
		want(t, "refused", mustRun(t, run, err).Status(), "cancelled")
		run, err = c.RunTask(t.Context(), "multi_input", nil, both)
		want(t, "both", mustRun(t, run, err).Text(), "Ada likes red.")
		run, err = c.RunTask(t.Context(), "test_tool_with_task", nil, both)
		want(t, "before the task", mustRun(t, run, err).Text(), "Hello, Ada!")
		want(t, "questions", len(run.Questions), 1)
		run, err = c.RunTask(t.Context(), "ask_name", nil, both)
		want(t, "plain", mustRun(t, run, err).Text(), "Hello, Ada!")
		want(t, "no task", run.TaskID, "")
		want(t, "calls", s.Calls("ask_name"), 1)
	})
}

func TestModern_PartialAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := modernPair(t, ServerOptions{})
		r, err := c.Call(t.Context(), "tools/call", object("name", "multi_input"))
		id := field(t, must(t, r, err).Result, "taskId")
		pass(t, time.Second)
		update := func(responses any) json.RawMessage {
			r, err := c.Call(t.Context(), "tasks/update", object("taskId", id, "inputResponses", responses))
			must(t, r, err)
			r, err = c.Call(t.Context(), "tasks/get", object("taskId", id))
			return must(t, r, err).Result
		}
		accept := object("action", "accept", "content", object("name", "Ada"))
		got := update(object("name", accept, "unknown", accept))
		want(t, "status", field(t, got, "status"), "input_required")
		want(t, "name", field(t, got, "inputRequests", "name"), nil)
		if field(t, got, "inputRequests", "colour") == nil {
			t.Fatalf("colour is gone: %s", got)
		}
		update(object("name", accept)) // once more: ignored
		got = update(object("colour", object("action", "accept", "content", object("colour", "red"))))
		if s := string(field(t, got, "status")); s == `"input_required"` {
			t.Fatalf("still waiting: %s", got)
		}
	})
}

func TestModern_RequestState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := modernPair(t, ServerOptions{})
		r, err := c.Call(t.Context(), "tools/call", object("name", "ask_name"))
		want(t, "resultType", field(t, must(t, r, err).Result, "resultType"), "input_required")
		state := field(t, r.Result, "requestState")
		answers := object("name", object("action", "accept", "content", object("name", "Ada")))
		retry := func(tool string, state any) (Reply, error) {
			return c.Call(t.Context(), "tools/call", object("name", tool, "inputResponses", answers, "requestState", state))
		}
		r, err = retry("ask_name", "x"+strings.Trim(string(state), `"`))
		wantCode(t, r, err, 200, CodeInvalidParams)
		r, err = retry("test_tool_with_task", state)
		wantCode(t, r, err, 200, CodeInvalidParams)
		r, err = retry("ask_name", state)
		want(t, "text", must(t, r, err).Text(), "Hello, Ada!")
		pass(t, time.Hour)
		r, err = retry("ask_name", state)
		wantCode(t, r, err, 200, CodeInvalidParams)
	})
}

func TestModern_WithoutTheExtension(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := modernPair(t, ServerOptions{})
		c.Tasks = false
		r, err := c.Call(t.Context(), "tools/call", object("name", "failing_job"))
		wantCode(t, r, err, http.StatusBadRequest, CodeMissingCapability)
		want(t, "data", field(t, r.Error, "data", "requiredCapabilities", "extensions", TasksExtension), struct{}{})
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			r, err = c.Call(t.Context(), method, object("taskId", "none"))
			wantCode(t, r, err, http.StatusBadRequest, CodeMissingCapability)
		}
		var rpc *RPCError
		if _, err := c.Listen(t.Context(), object("taskIds", []string{"x"}), nil); !errors.As(err, &rpc) || rpc.Code != CodeMissingCapability {
			t.Fatalf("listen: %v", err)
		}
		r, err = c.Call(t.Context(), "tools/call", object("name", "slow_compute", "arguments", object("seconds", 2, "label", "x")))
		want(t, "plain", must(t, r, err).Text(), "Computed x for 2s.")
		r, err = c.Call(t.Context(), "tools/call", object("name", "protocol_error_job"))
		wantCode(t, r, err, 200, CodeInternal)
		c.Capabilities = struct{}{}
		r, err = c.Call(t.Context(), "tools/call", object("name", "ask_name"))
		wantCode(t, r, err, http.StatusBadRequest, CodeMissingCapability)
		want(t, "data", field(t, r.Error, "data", "requiredCapabilities", "elicitation"), struct{}{})
	})
}

func TestModern_RequestChecks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := modernPair(t, ServerOptions{})
		greet := object("name", "greet", "arguments", object("name", "Ada"))
		for _, test := range []struct {
			name string
			edit func(h http.Header, body []byte) []byte
			code int
		}{
			{"no version header", func(h http.Header, b []byte) []byte { h.Del("MCP-Protocol-Version"); return b }, CodeHeaderMismatch},
			{"other version header", func(h http.Header, b []byte) []byte { h.Set("MCP-Protocol-Version", "2025-11-25"); return b }, CodeHeaderMismatch},
			{"no method header", func(h http.Header, b []byte) []byte { h.Del("Mcp-Method"); return b }, CodeHeaderMismatch},
			{"wrong method header", func(h http.Header, b []byte) []byte { h.Set("Mcp-Method", "Tools/Call"); return b }, CodeHeaderMismatch},
			{"no name header", func(h http.Header, b []byte) []byte { h.Del("Mcp-Name"); return b }, CodeHeaderMismatch},
			{"wrong name header", func(h http.Header, b []byte) []byte { h.Set("Mcp-Name", "echo"); return b }, CodeHeaderMismatch},
			{"broken name header", func(h http.Header, b []byte) []byte { h.Set("Mcp-Name", "=?base64?*?="); return b }, CodeHeaderMismatch},
			{"no _meta", func(_ http.Header, b []byte) []byte { return []byte(strings.Replace(string(b), "_meta", "meta", 1)) }, CodeInvalidParams},
			{"no capabilities", func(_ http.Header, b []byte) []byte {
				return []byte(strings.Replace(string(b), KeyClientCapabilities, "x", 1))
			}, CodeInvalidParams},
			{"unknown version", func(h http.Header, b []byte) []byte {
				h.Set("MCP-Protocol-Version", "1900-01-01")
				return []byte(strings.Replace(string(b), ModernVersion, "1900-01-01", 1))
			}, CodeBadVersion},
			{"response", func(http.Header, []byte) []byte { return []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`) }, CodeInvalidRequest},
			{"initialize", func(http.Header, []byte) []byte {
				return []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
			}, CodeBadVersion},
		} {
			c.Edit = test.edit
			r, err := c.Call(t.Context(), "tools/call", greet)
			t.Log(test.name, string(r.Raw))
			wantCode(t, r, err, http.StatusBadRequest, test.code)
		}
		c.Edit = func(h http.Header, b []byte) []byte { h.Set("Mcp-Name", "=?base64?Z3JlZXQ=?="); return b }
		r, err := c.Call(t.Context(), "tools/call", greet)
		want(t, "encoded name", must(t, r, err).Text(), "Hello, Ada!")
		c.Edit = nil
		resp, err := c.HTTP.Get(testURL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		want(t, "GET", resp.StatusCode, http.StatusMethodNotAllowed)
	})
}

func TestModern_Progress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen notifications
		_, c := modernPair(t, ServerOptions{})
		c.OnNotification = seen.add
		r, err := c.Call(t.Context(), "tools/call", object("name", "progress", "arguments", object("steps", 3),
			"_meta", object("progressToken", 7)))
		must(t, r, err)
		got := seen.params("notifications/progress")
		want(t, "notifications", len(got), 3)
		want(t, "token", field(t, got[0], "progressToken"), 7)
	})
}

func TestModern_Listen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen notifications
		s, c := modernPair(t, ServerOptions{})
		r, err := c.Call(t.Context(), "tools/call", object("name", "confirm_delete", "arguments", object("filename", "a")))
		id := field(t, must(t, r, err).Result, "taskId")
		sub, err := c.Listen(t.Context(), object("toolsListChanged", true, "promptsListChanged", true,
			"taskIds", []any{id, "unknown"}, "resourceSubscriptions", []string{readmeURI}), seen.add)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "acknowledged", sub.Acknowledged, object("toolsListChanged", true,
			"resourceSubscriptions", []string{readmeURI}, "taskIds", []any{id}))
		s.ToolsChanged()
		s.ResourceUpdated(readmeURI)
		pass(t, time.Second)
		r, err = c.Call(t.Context(), "tasks/update", object("taskId", id, "inputResponses",
			object("confirm", object("action", "accept", "content", object("confirm", true)))))
		must(t, r, err)
		pass(t, time.Second)
		tasks := seen.params("notifications/tasks")
		want(t, "statuses", []any{field(t, tasks[0], "status"), field(t, tasks[1], "status"), field(t, tasks[2], "status")},
			[]string{"input_required", "working", "completed"})
		want(t, "inline", firstText(field(t, tasks[2], "result")), "Deleted a.")
		if field(t, tasks[2], "_meta", KeySubscriptionID) == nil {
			t.Fatalf("no subscription id: %s", tasks[2])
		}
		want(t, "list_changed", len(seen.params("notifications/tools/list_changed")), 1)
		want(t, "updated", len(seen.params("notifications/resources/updated")), 1)
		other, err := c.Listen(t.Context(), struct{}{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		other.Close()
		pass(t, time.Second)
		want(t, "listeners", s.Listeners(), 1)
		_ = s.Close()
		r, err = sub.Wait()
		want(t, "graceful end", field(t, must(t, r, err).Result, "resultType"), "complete")
	})
}

func TestModern_DisconnectCancels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := modernPair(t, ServerOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := c.Call(ctx, "tools/call", object("name", "slow_plain", "arguments", object("seconds", 3600))); err == nil {
			t.Fatal("no error")
		}
		_ = s.Close()
		if time.Since(start) > time.Minute {
			t.Fatal("the call was not cancelled")
		}
	})
}

func TestModern_NoTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := modernPair(t, ServerOptions{NoTasks: true})
		run, err := c.RunTask(t.Context(), "confirm_delete", object("filename", "a"), Accept(object("confirm", true)))
		want(t, "text", mustRun(t, run, err).Text(), "Deleted a.")
		want(t, "no task", run.TaskID, "")
		r, err := c.Call(t.Context(), "tasks/get", object("taskId", "x"))
		wantCode(t, r, err, http.StatusNotFound, CodeMethodNotFound)
	})
}

func TestModern_JSONResponses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen notifications
		_, c := modernPair(t, ServerOptions{JSONResponses: true})
		c.OnNotification = seen.add
		c.Meta = map[string]any{"progressToken": "p"}
		r, err := c.Call(t.Context(), "tools/call", object("name", "progress", "arguments", object("steps", 2)))
		want(t, "type", must(t, r, err).Header.Get("Content-Type"), "application/json")
		want(t, "progress", len(seen.params("notifications/progress")), 0)
	})
}
