package peers

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestLegacy_ListAndPlainCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := legacyPair(t, ServerOptions{PageSize: 5})
		support := map[string]string{}
		cursor := ""
		for {
			r, err := c.Call(t.Context(), "tools/list", map[string]string{"cursor": cursor})
			var page struct {
				Tools []struct {
					Name      string
					Execution struct{ TaskSupport string }
				}
				NextCursor string
			}
			if err := must(t, r, err).Decode(&page); err != nil {
				t.Fatal(err)
			}
			for _, tl := range page.Tools {
				support[tl.Name] = tl.Execution.TaskSupport
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		want(t, "tools", len(support), 12)
		want(t, "greet", support["greet"], "forbidden")
		want(t, "slow_compute", support["slow_compute"], "optional")
		want(t, "confirm_delete", support["confirm_delete"], "required")

		r, err := c.Call(t.Context(), "tools/call", object("name", "greet", "arguments", object("name", "Ada")))
		want(t, "greet", must(t, r, err).Text(), "Hello, Ada!")
		want(t, "calls", s.Calls("greet"), 1)
		r, err = c.Call(t.Context(), "resources/read", object("uri", readmeURI))
		must(t, r, err)
		r, err = c.Call(t.Context(), "resources/read", object("uri", "demo://none"))
		wantCode(t, r, err, 200, CodeResourceNotFound)
		r, err = c.Call(t.Context(), "prompts/get", object("name", "hello", "arguments", object("name", "Ada")))
		must(t, r, err)
		r, err = c.Call(t.Context(), "server/discover", nil)
		wantCode(t, r, err, 200, CodeMethodNotFound)
		r, err = c.Call(t.Context(), "tools/call", object("name", "none"))
		wantCode(t, r, err, 200, CodeInvalidParams)
		r, err = c.Call(t.Context(), "tools/call", object("name", "confirm_delete", "arguments", object("filename", "a")))
		wantCode(t, r, err, 200, CodeMethodNotFound)
		r, err = c.Call(t.Context(), "tools/call", taskArgs("greet", object("name", "Ada")))
		wantCode(t, r, err, 200, CodeMethodNotFound)
	})
}

func TestLegacy_EchoKeepsBytes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := legacyPair(t, ServerOptions{})
		args := json.RawMessage(`{ "n": 12345678901234567890.10, "s":"<&\u00e9>",  "a":[ 1,
 2 ]}`)
		r, err := c.Call(t.Context(), "tools/call", object("name", "echo", "arguments", args))
		r = must(t, r, err)
		want(t, "text", r.Text(), string(args))
		want(t, "structuredContent", string(field(t, r.Result, "structuredContent")), string(args))
	})
}

func TestLegacy_TaskLifecycle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen notifications
		s, c := legacyPair(t, ServerOptions{})
		c.OnNotification = seen.add
		if err := c.OpenGET(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.OpenGET(t.Context()); err == nil || !strings.Contains(err.Error(), "409") {
			t.Fatalf("second GET stream: %v", err)
		}
		run, err := c.RunTask(t.Context(), "slow_compute", object("seconds", 1, "label", "x"), nil)
		mustRun(t, run, err)
		want(t, "statuses", run.Statuses, []string{"working", "completed"})
		want(t, "text", run.Text(), "Computed x for 1s.")
		want(t, "related", field(t, run.Result, "_meta", KeyRelatedTask, "taskId"), run.TaskID)
		want(t, "ttl", field(t, run.Last, "ttl"), 60000)
		pass(t, time.Millisecond)
		want(t, "status notifications", len(seen.params("notifications/tasks/status")), 1)

		r, err := c.Call(t.Context(), "tasks/cancel", object("taskId", run.TaskID))
		wantCode(t, r, err, 200, CodeInvalidParams)
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			r, err = c.Call(t.Context(), method, object("taskId", "none"))
			wantCode(t, r, err, 200, CodeInvalidParams)
		}
		r, err = c.Call(t.Context(), "tasks/list", nil)
		var list struct{ Tasks []taskState }
		if err := must(t, r, err).Decode(&list); err != nil || len(list.Tasks) != 1 || list.Tasks[0].TaskID != run.TaskID {
			t.Fatalf("tasks/list: %s %v", r.Result, err)
		}
		want(t, "calls", s.Calls("slow_compute"), 1)
		pass(t, time.Minute)
		r, err = c.Call(t.Context(), "tasks/get", object("taskId", run.TaskID))
		wantCode(t, r, err, 200, CodeInvalidParams) // its ttl is over
	})
}

func TestLegacy_ListPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := legacyPair(t, ServerOptions{PageSize: 2})
		for range 3 {
			r, err := c.Call(t.Context(), "tools/call", taskArgs("slow_compute", object("seconds", 9)))
			must(t, r, err)
		}
		r, err := c.Call(t.Context(), "tasks/list", nil)
		next := field(t, must(t, r, err).Result, "nextCursor")
		r, err = c.Call(t.Context(), "tasks/list", object("cursor", next))
		if got := field(t, must(t, r, err).Result, "tasks"); strings.Count(string(got), "taskId") != 1 {
			t.Fatalf("second page: %s", got)
		}
		r, err = c.Call(t.Context(), "tasks/list", object("cursor", "nonsense"))
		wantCode(t, r, err, 200, CodeInvalidParams)
	})
}

func TestLegacy_Cancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := legacyPair(t, ServerOptions{})
		r, err := c.Call(t.Context(), "tools/call", taskArgs("slow_compute", object("seconds", 60)))
		id := field(t, must(t, r, err).Result, "task", "taskId")
		blocked := make(chan Reply, 1)
		go func() {
			r, _ := c.Call(t.Context(), "tasks/result", object("taskId", id))
			blocked <- r
		}()
		pass(t, time.Second)
		r, err = c.Call(t.Context(), "tasks/cancel", object("taskId", id))
		want(t, "status", field(t, must(t, r, err).Result, "status"), "cancelled")
		want(t, "tasks/result", (<-blocked).Code(), CodeInternal)
		pass(t, 2*time.Minute)
		r, err = c.Call(t.Context(), "tasks/get", object("taskId", id))
		want(t, "status for ever", field(t, must(t, r, err).Result, "status"), "cancelled")
	})
}

func TestLegacy_FailuresInTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := legacyPair(t, ServerOptions{})
		run, err := c.RunTask(t.Context(), "failing_job", nil, nil)
		mustRun(t, run, err)
		want(t, "status", run.Status(), "failed")
		want(t, "isError", field(t, run.Result, "isError"), true)
		run, err = c.RunTask(t.Context(), "protocol_error_job", nil, nil)
		mustRun(t, run, err)
		want(t, "status", run.Status(), "failed")
		want(t, "code", field(t, run.Error, "code"), CodeInternal)
		want(t, "data", field(t, run.Error, "data"), object("reason", "demonstration"))
	})
}

func TestLegacy_Questions(t *testing.T) {
	for name, o := range map[string]ServerOptions{"result stream": {}, "GET stream": {NeedGET: true}, "JSON": {JSONResponses: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, c := legacyPair(t, o)
				c.OnRequest = byMessage(map[string]any{"your name": object("name", "Ada"), "colour": object("colour", "red")})
				if err := c.OpenGET(t.Context()); err != nil {
					t.Fatal(err)
				}
				run, err := c.RunTask(t.Context(), "confirm_delete", object("filename", "a.txt"), Accept(object("confirm", true)))
				mustRun(t, run, err)
				if !o.NeedGET && !o.JSONResponses { // there the answer comes before the next poll
					want(t, "statuses", run.Statuses, []string{"working", "input_required", "completed"})
				}
				want(t, "accepted", run.Text(), "Deleted a.txt.")
				want(t, "related", field(t, run.Questions[0], "_meta", KeyRelatedTask, "taskId"), run.TaskID)
				run, err = c.RunTask(t.Context(), "confirm_delete", object("filename", "a.txt"), Decline())
				want(t, "declined", mustRun(t, run, err).Text(), "Kept a.txt.")
				run, err = c.RunTask(t.Context(), "multi_input", nil, nil)
				want(t, "both", mustRun(t, run, err).Text(), "Ada likes red.")
				want(t, "questions", len(run.Questions), 2)
				run, err = c.RunTask(t.Context(), "test_tool_with_task", nil, nil)
				want(t, "before the task", mustRun(t, run, err).Text(), "Hello, Ada!")
				r, err := c.Call(t.Context(), "tools/call", object("name", "ask_name"))
				want(t, "plain", must(t, r, err).Text(), "Hello, Ada!")
				r, err = c.call(t.Context(), "tools/call", object("name", "ask_name"), func(string, json.RawMessage) (any, any) {
					return nil, rpcErrorf(-1, "no")
				})
				_ = must(t, r, err)
			})
		})
	}
}

func TestLegacy_QuestionMovesToNextStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := legacyPair(t, ServerOptions{})
		asked := make(chan json.RawMessage, 2)
		hold := make(chan struct{})
		c.OnRequest = func(_ string, params json.RawMessage) (any, any) {
			asked <- params
			if len(asked) == 1 {
				<-hold
			}
			return object("action", "accept", "content", object("confirm", true)), nil
		}
		r, err := c.Call(t.Context(), "tools/call", taskArgs("confirm_delete", object("filename", "a")))
		id := field(t, must(t, r, err).Result, "task", "taskId")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Call(ctx, "tasks/result", object("taskId", id)); err == nil {
			t.Fatal("tasks/result did not block")
		}
		want(t, "asked", len(asked), 1)
		r, err = c.Call(t.Context(), "tasks/result", object("taskId", id))
		want(t, "text", must(t, r, err).Text(), "Deleted a.")
		want(t, "asked again", len(asked), 2)
		close(hold)
	})
}

func TestLegacy_WithoutElicitation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := legacyPair(t, ServerOptions{})
		c.Capabilities = struct{}{}
		if _, err := c.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := c.Call(t.Context(), "tools/call", object("name", "ask_name"))
		want(t, "isError", field(t, must(t, r, err).Result, "isError"), true)
	})
}

func TestLegacy_Progress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen notifications
		_, c := legacyPair(t, ServerOptions{})
		c.OnNotification = seen.add
		params := object("name", "progress", "arguments", object("steps", 3), "_meta", object("progressToken", "p"))
		r, err := c.Call(t.Context(), "tools/call", params)
		want(t, "text", must(t, r, err).Text(), "Took 3 steps.")
		got := seen.params("notifications/progress")
		want(t, "notifications", len(got), 3)
		want(t, "last", field(t, got[2], "progress"), 3)
		r, err = c.Call(t.Context(), "tools/call", with(params, "task", struct{}{}))
		id := field(t, must(t, r, err).Result, "task", "taskId")
		r, err = c.Call(t.Context(), "tasks/result", object("taskId", id))
		must(t, r, err)
		got = seen.params("notifications/progress")
		want(t, "notifications", len(got), 6)
		want(t, "related", field(t, got[5], "_meta", KeyRelatedTask, "taskId"), id)
	})
}

func TestLegacy_CancelledCallGetsNoResponse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var trace notifications
		s, c := legacyPair(t, ServerOptions{Trace: func(e TraceEntry) {
			if e.Out {
				trace.add("out", e.Message)
			} else {
				trace.add("in", e.Message)
			}
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := c.Call(ctx, "tools/call", object("name", "slow_plain", "arguments", object("seconds", 3600))); err == nil {
			t.Fatal("no error")
		}
		if err := s.Close(); err != nil || time.Since(start) > time.Minute {
			t.Fatalf("the call was not cancelled: %v", err)
		}
		for _, msg := range trace.params("out") {
			if strings.Contains(string(msg), "Answered") || strings.Contains(string(msg), "cancelled") {
				t.Fatalf("sent %s", msg)
			}
		}
		in := trace.params("in")
		want(t, "last in", field(t, in[len(in)-1], "method"), "notifications/cancelled")
	})
}

func TestLegacy_Sessions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, c := legacyPair(t, ServerOptions{TasksPerSession: true})
		r, err := c.Call(t.Context(), "tools/call", taskArgs("slow_compute", object("seconds", 60)))
		id := field(t, must(t, r, err).Result, "task", "taskId")
		first := c.SessionID()
		other := &LegacyClient{URL: testURL, HTTP: c.HTTP}
		defer other.Close()
		r, err = other.Call(t.Context(), "tools/list", nil)
		wantCode(t, r, err, http.StatusBadRequest, -32000)
		if _, err := other.Initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err = other.Call(t.Context(), "tasks/get", object("taskId", id))
		wantCode(t, r, err, 200, CodeInvalidParams)
		r, err = other.Call(t.Context(), "tasks/list", nil)
		want(t, "list", must(t, r, err).Result, json.RawMessage(`{"tasks":[]}`))
		want(t, "sessions", s.Sessions(), 2)
		s.EndSessions()
		r, err = c.Call(t.Context(), "ping", nil)
		wantCode(t, r, err, http.StatusNotFound, -32001)
		if _, err := c.Initialize(t.Context()); err != nil || c.SessionID() == first {
			t.Fatalf("new session: %v", err)
		}
		c.Edit = func(h http.Header, body []byte) []byte { h.Set("MCP-Protocol-Version", "1999-01-01"); return body }
		r, err = c.Call(t.Context(), "ping", nil)
		wantCode(t, r, err, http.StatusBadRequest, -32000)
		c.Edit = nil
		r, err = c.Post(t.Context(), []byte(`{`))
		wantCode(t, r, err, http.StatusBadRequest, CodeParse)
		r, err = c.Post(t.Context(), []byte(`[]`))
		wantCode(t, r, err, http.StatusBadRequest, CodeInvalidRequest)
		c.Edit = func(h http.Header, body []byte) []byte { h.Set("Origin", "https://evil.test"); return body }
		r, err = c.Call(t.Context(), "ping", nil)
		wantCode(t, r, err, http.StatusForbidden, CodeInvalidRequest)
		c.Edit = nil
	})
}

func TestLegacy_ChangeNotices(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen notifications
		s, c := legacyPair(t, ServerOptions{})
		c.OnNotification = seen.add
		if err := c.OpenGET(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := c.Call(t.Context(), "resources/subscribe", object("uri", readmeURI))
		must(t, r, err)
		s.ToolsChanged()
		s.ResourceUpdated(readmeURI)
		s.ResourceUpdated("demo://other")
		pass(t, time.Hour) // keep-alive comments meanwhile
		want(t, "list_changed", len(seen.params("notifications/tools/list_changed")), 1)
		want(t, "updated", len(seen.params("notifications/resources/updated")), 1)
	})
}

func TestLegacy_NoTasks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c := legacyPair(t, ServerOptions{NoTasks: true})
		r, err := c.Call(t.Context(), "tools/call", taskArgs("confirm_delete", object("filename", "a")))
		want(t, "text", must(t, r, err).Text(), "Deleted a.")
		r, err = c.Call(t.Context(), "tasks/list", nil)
		wantCode(t, r, err, 200, CodeMethodNotFound)
	})
}
