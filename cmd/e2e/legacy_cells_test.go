package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/translate/schematest"
)

// Cells of the matrix in docs/matrix.md that the tables of mixed_test.go have
// not: what wants further tools, a short life, two callers or two processes,
// and ext-tasks in its legacy generation.

var (
	extLegacyClient = nodePeer("ext-legacy-client.mjs")
	modernMore      = nodePeer("modern-server.mjs", "--more")
	modernShort     = nodePeer("modern-server.mjs", "--more", "--ttl", "2500")
)

// cellCore are the cells that run in every form of the bridge.
var cellCore = []string{"question", "rounds", "two-callers", "lost-stream", "slow-plain"}

// playLegacyCells plays scenarios of a client on a server with the bridge between.
func playLegacyCells(t *testing.T, client, server peer, want map[string]string) {
	url := startServer(t, server)
	for i, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if i > 0 && !fullE2E() && !slices.Contains(cellCore, name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					o := form.o
					if !strings.HasPrefix(name, "slow-plain") {
						o = patient(o)
					}
					playLegacyCell(t, client, url, name, want[name], o)
				})
			}
		})
	}
}

func playLegacyCell(t *testing.T, client peer, url, name, want string, o bridgeOptions, args ...string) {
	at, legs := recordedBridge(t, url, "legacy", "modern", o)
	run := runClient(t, client, at, name, args...)
	if d := differs(run, want); d != "" {
		t.Errorf("%s\nall of it:\n%s", d, run)
	}
	t.Run("messages", func(t *testing.T) {
		if made := legs.check(t, schematest.Load(t)); len(made) == 0 {
			t.Error("the recording holds nothing the proxy made")
		}
	})
}

func TestLegacyCells_SDK(t *testing.T) { playLegacyCells(t, legacyClient, modernMore, sdkMore) }

func TestLegacyCells_SDK_Expiry(t *testing.T) {
	playLegacyCells(t, legacyClient, modernShort, sdkExpiry)
}

func TestLegacyCells_MCPGo(t *testing.T) { playLegacyCells(t, mcpgoLegacy, modernMore, mcpgoMore) }

func TestLegacyCells_MCPGo_Expiry(t *testing.T) {
	playLegacyCells(t, mcpgoLegacy, modernShort, mcpgoExpiry)
}

func TestLegacyCells_ExtTasks(t *testing.T) {
	complete(t, extLegacyClient, extOnModern)
	playLegacyCells(t, extLegacyClient, modernMore, withMore(extOnModern, extMore))
}

func TestLegacyCells_ExtTasks_Expiry(t *testing.T) {
	playLegacyCells(t, extLegacyClient, modernShort, extExpiry)
}

func withMore(tables ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, table := range tables {
		maps.Copy(all, table)
	}
	return all
}

// What ext-tasks cannot do without the bridge, on a server of its own era: the
// evidence beside the cells in which it can.
func TestLegacyCells_ExtTasks_Direct(t *testing.T) {
	url := startServer(t, legacyServer)
	for _, name := range slices.Sorted(maps.Keys(extDirect)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if run := runClient(t, extLegacyClient, url, name); differs(run, extDirect[name]) != "" {
				t.Errorf("%s\nall of it:\n%s", differs(run, extDirect[name]), run)
			}
		})
	}
}

// A tool that makes no task and takes its time: 3 s, with TASKBRIDGE_E2E=full
// 20 s (five minutes are in testdata/scenarios/legacy-early-handle.txtar).
func TestLegacyCells_SlowPlainTool(t *testing.T) {
	seconds := "3"
	if fullE2E() {
		seconds = "20"
	}
	url := startServer(t, modernMore)
	for _, c := range []struct {
		client peer
		want   string
	}{
		{legacyClient, sdkMore["slow-plain"]},
		{extLegacyClient, extMore["slow-plain"]},
	} {
		t.Run(command(c.client), func(t *testing.T) {
			t.Parallel()
			playLegacyCell(t, c.client, url, "slow-plain", strings.ReplaceAll(c.want, "after 2 s", "after "+seconds+" s"), bridgeOptions{}, "--seconds", seconds)
		})
	}
}

// A client process is killed in front of a question; another one, with a
// session of its own, is asked again and gets the result.
func TestLegacyCells_KilledProcess(t *testing.T) {
	url := startServer(t, modernMore)
	for _, c := range []struct {
		first, second peer
		want          string
	}{
		{legacyClient, legacyClient, sdkTakeOver},
		{extLegacyClient, extLegacyClient, extTakeOver},
		{extLegacyClient, legacyClient, sdkTakeOver},
		{mcpgoLegacy, mcpgoLegacy, mcpgoTakeOver},
	} {
		for _, form := range forms[:2] {
			t.Run(command(c.first)+" then "+command(c.second)+"/"+form.name, func(t *testing.T) {
				t.Parallel()
				at, legs := recordedBridge(t, url, "legacy", "modern", patient(form.o))
				id := leaveTask(t, c.first, at)
				run := runClient(t, c.second, at, "take-over", "--task", id)
				if d := differs(run, c.want); d != "" {
					t.Errorf("%s\nall of it:\n%s", d, run)
				}
				t.Run("messages", func(t *testing.T) { legs.check(t, schematest.Load(t)) })
			})
		}
	}
}

// command is a peer's name without its arguments.
func command(p peer) string { return strings.Fields(p.name)[0] }

// Lists of several pages.
func TestLegacyCells_Paging(t *testing.T) {
	url := startServer(t, modernServer)
	for _, c := range []struct {
		client         peer
		page           int
		scenario, want string
	}{
		{legacyClient, 10, "tasklist-pages", strings.ReplaceAll(legacyOnModern["tasklist-pages"], `"pages":1`, `"pages":3`)},
		{extLegacyClient, 2, "tasklist", strings.ReplaceAll(extOnModern["tasklist"], `"pages":1`, `"pages":2`)},
	} {
		t.Run(command(c.client), func(t *testing.T) {
			t.Parallel()
			o := patient(bridgeOptions{})
			o.Policy.PageSize = c.page
			playLegacyCell(t, c.client, url, c.scenario, c.want, o)
		})
	}
}

// Two callers before a route with a credential of its own: to the server they
// are one, so that only the bridge can keep them apart.
func TestLegacyCells_TwoCallersOneCredential(t *testing.T) {
	url := startServer(t, modernServer)
	for _, c := range []struct {
		client peer
		want   string
	}{
		{legacyClient, sdkMore["two-callers"]},
		{extLegacyClient, extMore["two-callers"]},
	} {
		t.Run(command(c.client), func(t *testing.T) {
			t.Parallel()
			o := patient(bridgeOptions{Header: http.Header{"Authorization": {"Bearer route"}}})
			o.Policy.SealSameEra = true
			playLegacyCell(t, c.client, url, "two-callers", c.want, o)
		})
	}
}

// leaveTask starts a client that makes a task with a question, waits until it
// has been asked and kills it; gives the task's id.
func leaveTask(t *testing.T, p peer, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	argv := append(p.argv(t), url, "leave")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = os.Environ()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, asked := "", false
	for lines := bufio.NewScanner(out); !asked && lines.Scan(); {
		var step struct{ Step, ID string }
		json.Unmarshal(lines.Bytes(), &step)
		if step.Step == "task" {
			id = step.ID
		}
		asked = step.Step == "question"
	}
	cmd.Process.Kill() // SIGKILL: no farewell
	cmd.Wait()
	if id == "" || !asked {
		t.Fatalf("%s made task %q, was asked: %t", p.name, id, asked)
	}
	return id
}

// ---- what they print -------------------------------------------------------

const sdkNotFound = `"error":{"code":-32602,"message":"MCP error -32602: Failed to retrieve task: Task not found"}`
const extNotFound = `"error":{"code":-32602,"message":"Failed to retrieve task: Task not found"}`

var sdkMore = map[string]string{
	"rounds": `{"step":"created","hasTtl":true,"pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"question","message":"What is your name?","mode":"form","related":"ID"}
		{"step":"question","message":"Which colour?","mode":"form","related":"ID"}
		{"step":"question","message":"Paint Ada green?","mode":"form","related":"ID"}
		{"step":"final","status":"completed"}
		{"step":"result","isError":false,"related":true,"text":"Painted Ada green"}`,
	"roots-task": `{"step":"created","hasTtl":true,"pollInterval":100,"status":"working","ttl":600000}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"final","status":"completed"}
		{"step":"result","isError":false,"related":true,"text":"file:///peer"}`,
	"two-callers": `{"step":"get",` + sdkNotFound + `}
		{"step":"result",` + sdkNotFound + `}
		{"step":"cancel",` + sdkNotFound + `}
		{"step":"list","found":false}
		{"step":"own","found":true,"status":"working"}`,
	"lost-stream": `{"step":"question","message":"Delete cut.txt?","mode":"form","related":"ID"}
		{"step":"lost"}
		{"step":"question","message":"Delete cut.txt?","mode":"form","related":"ID"}
		{"step":"asked","again":true,"times":2}
		{"step":"result","isError":false,"related":true,"text":"Deleted cut.txt"}
		{"step":"loser","withdrawn":"*"}
		{"step":"again","isError":false,"related":true,"text":"Deleted cut.txt"}`,
	"lost-stream-old-answer": `{"step":"question","message":"Delete cut.txt?","mode":"form","related":"ID"}
		{"step":"lost"}
		{"step":"question","message":"Delete cut.txt?","mode":"form","related":"ID"}
		{"step":"asked","again":true,"times":2}
		{"step":"result","isError":false,"related":true,"text":"Deleted cut.txt"}
		{"step":"loser","withdrawn":true}
		{"step":"again","isError":false,"related":true,"text":"Deleted cut.txt"}`,
	"slow-plain": `{"step":"created","early":true,"status":"working"}
		{"step":"list","status":"working"}
		{"step":"polled","statuses":["working","completed"]}
		{"step":"result","isError":false,"related":true,"text":"answered after 2 s"}`,
	"slow-plain-cancel": `{"step":"cancelled","status":"cancelled"}
		{"step":"result","error":{"code":-32603,"message":"MCP error -32603: task ID was cancelled"}}`,
	"question-polled": `{"step":"question","message":"Delete g.txt?","mode":"form","related":"ID"}
		{"step":"polled","statuses":["working","input_required","?working","completed"]}
		{"step":"result","isError":false,"related":true,"text":"Deleted g.txt"}`,
	"sample-refused": `{"step":"result","error":{"code":-1,"message":"MCP error -1: not this time"}}
		{"step":"final","status":"failed"}`,
}

var sdkExpiry = map[string]string{
	"expiry-waiting": `{"step":"question","message":"Delete e.txt?","mode":"form","related":"ID"}
		{"step":"result",` + sdkNotFound + `}
		{"step":"waited","late":false}
		{"step":"get",` + sdkNotFound + `}`,
	"expiry-idle": `{"step":"get",` + sdkNotFound + `}
		{"step":"result",` + sdkNotFound + `}
		{"step":"cancel",` + sdkNotFound + `}
		{"step":"list","found":false}`,
	"expiry-finished": `{"step":"result","isError":false,"related":true,"structured":{"label":"e","seconds":1},"text":"computed e in 1 s"}
		{"step":"story","one":true,"told":"*"}`,
}

var sdkTakeOver = `{"step":"taken","status":"input_required"}
	{"step":"list","found":true}
	{"step":"question","message":"Delete k.txt?","mode":"form","related":"ID"}
	{"step":"result","isError":false,"related":true,"text":"Deleted k.txt"}`

func extTask(text string, more string, asked ...string) string {
	steps := []string{`{"step":"created","kind":"task"}`}
	steps = append(steps, asked...)
	statuses := `["working","completed"]`
	if len(asked) > 0 || strings.Contains(more, "asks") {
		statuses = `["working","?input_required","?working","?input_required","?working","completed"]`
	}
	more = strings.TrimPrefix(more, "asks")
	return strings.Join(append(steps, `{"step":"polled","statuses":`+statuses+`}`, `{"step":"outcome","status":"completed"}`,
		`{"step":"result","isError":false,"related":true,`+more+`"text":"`+text+`"}`), "\n")
}

func extAsked(message string) string {
	return `{"step":"question","message":"` + message + `","mode":"form","related":"ID","scope":"task"}`
}

var extOnModern = map[string]string{
	"initialize": `{"step":"initialize","capabilities":{"cancellation":true,"execution":true,"inputResponses":false,"inventory":"server-list","requestedRetention":true},"era":"legacy","protocolVersion":"2025-11-25"}`,
	"plain": `{"step":"created","kind":"immediate"}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"text":"Hello, Ada!"}`,
	"quick": extTask("computed now in 0 s", `"structured":{"label":"now","seconds":0},`),
	"task":  extTask("computed x in 2 s", `"structured":{"label":"x","seconds":2},`),
	"notified": extTask("computed n in 2 s", `"structured":{"label":"n","seconds":2},`) + `
		{"step":"notified","statuses":["?working","?completed"]}`,
	"task-result": `{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"related":true,"structured":{"label":"r","seconds":1},"text":"computed r in 1 s"}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"related":true,"structured":{"label":"r","seconds":1},"text":"computed r in 1 s"}`,
	"tasklist": `{"step":"tasklist","found":3,"pages":1,"repeated":0}`,
	"cancel": `{"step":"after","status":"cancelled"}
		{"step":"outcome","status":"cancelled"}`,
	"cancel-waiting": `{"step":"outcome","status":"cancelled"}`,
	"cancel-finished": extTask("computed f in 0 s", `"structured":{"label":"f","seconds":0},`) + `
		{"step":"cancel","error":{"code":-32602,"message":"Cannot cancel task: already in terminal status 'completed'"}}`,
	"unknown-task": `{"step":"get",` + extNotFound + `}
		{"step":"cancel",` + extNotFound + `}`,
	"question":         extTask("Deleted a.txt", "", extAsked("Delete a.txt?")),
	"question-decline": extTask("Kept a.txt (decline)", "", extAsked("Delete a.txt?")),
	"question-cancel":  extTask("Kept a.txt (cancel)", "", extAsked("Delete a.txt?")),
	"question-abandon": `?{"step":"question","message":"Delete b.txt?","mode":"form","related":"ID","scope":"task"}
		{"step":"after","status":"cancelled"}`,
	"two":           extTask("Got Ada and Grace", "", extAsked("First name?"), extAsked("Second name?")),
	"sample-task":   extTask("Sampled: something", "", `{"step":"sampling","related":"ID","scope":"task","text":"Say something"}`),
	"ask-then-task": extTask("Hello, Ada", "", extAsked("What is your name?")),
	"failing": `{"step":"created","kind":"task"}
		{"step":"polled","statuses":["working","failed"]}
		{"step":"outcome","status":"failed"}
		{"step":"error","error":{"code":null,"message":"failing_job failed on purpose"}}`,
	"protocol-error": `{"step":"created","kind":"task"}
		{"step":"polled","statuses":["working","failed"]}
		{"step":"outcome","status":"failed"}
		{"step":"error","error":{"code":null,"message":"protocol_error_job broke on purpose"}}`,
	"required-plain": `{"step":"created","kind":"immediate"}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":true,"text":"failing_job failed on purpose"}`,
	"resume": `{"step":"polled","statuses":["working","completed"]}
		{"step":"outcome","status":"completed"}
		{"step":"result","isError":false,"related":true,"structured":{"label":"h","seconds":2},"text":"computed h in 2 s"}`,
}

var extMore = map[string]string{
	"rounds":     extTask("Painted Ada green", "", extAsked("What is your name?"), extAsked("Which colour?"), extAsked("Paint Ada green?")),
	"roots-task": extTask("file:///peer", "asks"),
	"slow-plain": extTask("answered after 2 s", ""),
	"two-callers": `{"step":"get",` + extNotFound + `}
		{"step":"cancel",` + extNotFound + `}
		{"step":"list","found":false}
		{"step":"own","found":true}`,
}

var extExpiry = map[string]string{
	"expiry-waiting": `?{"step":"question","message":"Delete e.txt?","mode":"form","related":"ID","scope":"task"}
		{"step":"outcome","status":"failed"}
		{"step":"error",` + extNotFound + `}`,
	"expiry-idle": `{"step":"get",` + extNotFound + `}
		{"step":"cancel",` + extNotFound + `}`,
}

var extTakeOver = `{"step":"question","message":"Delete k.txt?","mode":"form","related":"ID","scope":"task"}
	{"step":"polled","statuses":["?working","input_required","?working","completed"]}
	{"step":"outcome","status":"completed"}
	{"step":"result","isError":false,"related":true,"text":"Deleted k.txt"}`

// extDirect: without the bridge ext-tasks never gets a question inside a task
// from the v1 SDK's server, which asks on tasks/result only, and cannot take a
// task to another session, to which that server ties it.
var extDirect = map[string]string{
	"question": `{"step":"created","kind":"task"}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"stuck","status":"input_required"}`,
	"two": `{"step":"created","kind":"task"}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"stuck","status":"input_required"}`,
	"sample-task": `{"step":"created","kind":"task"}
		{"step":"polled","statuses":["working","input_required"]}
		{"step":"stuck","status":"input_required"}`,
	"resume": `{"step":"error","error":{"code":-32602,"message":"MCP error -32602: Failed to retrieve task: Task not found"}}`,
}

func mcpgoTask(text, message string, asked ...string) string {
	statuses := `["working","completed"]`
	if message == "asks" {
		statuses, message = `["working","input_required"]`, "*"
	}
	steps := append([]string{`{"step":"created","pollInterval":100,"status":"working","ttl":600000}`,
		`{"step":"polled","message":"` + message + `","statuses":` + statuses + `}`}, asked...)
	return strings.Join(append(steps, `{"step":"result","isError":false,"text":"`+text+`"}`), "\n")
}

func mcpgoAsked(message string) string {
	return `{"step":"question","message":"` + message + `","mode":"form"}`
}

var mcpgoMore = map[string]string{
	"task-immediate": `{"step":"created","pollInterval":1000,"status":"working","ttl":60000}
		{"step":"polled","message":"","statuses":["working","completed"]}
		{"step":"result","isError":false,"text":"computed now in 0 s"}`,
	// Two handlers run side by side there: either may print first.
	"two":    mcpgoTask("Got Ada and Ada", "asks", mcpgoAsked("*"), mcpgoAsked("*")),
	"rounds": mcpgoTask("Painted Ada Ada", "asks", mcpgoAsked("What is your name?"), mcpgoAsked("Which colour?"), mcpgoAsked("Paint Ada Ada?")),
	"ask-then-task": `{"step":"created","pollInterval":1000,"status":"working","ttl":60000}
		{"step":"polled","message":"*","statuses":["working","input_required"]}
		{"step":"question","message":"What is your name?","mode":"form"}
		{"step":"result","isError":false,"text":"Hello, Ada"}`,
	"slow-plain": `{"step":"created","pollInterval":1000,"status":"working","ttl":60000}
		{"step":"polled","message":"*","statuses":["working","completed"]}
		{"step":"result","isError":false,"text":"answered after 2 s"}`,
	"question-decline": mcpgoTask("Kept a.txt (decline)", "asks", mcpgoAsked("Delete a.txt?")),
	"question-cancel":  mcpgoTask("Kept a.txt (cancel)", "asks", mcpgoAsked("Delete a.txt?")),
	"question-plain": `{"step":"question","message":"Delete p.txt?","mode":"form"}
		{"step":"result","isError":false,"structured":null,"text":"Deleted p.txt"}`,
	"task-result": `{"step":"result","isError":false,"text":"computed blocked in 1 s"}
		{"step":"waited","blocked":true}
		{"step":"result","isError":false,"text":"computed blocked in 1 s"}`,
	"cancel-waiting": `{"step":"error","error":"*"}`,
	"sample-task":    mcpgoTask("Sampled: something", "asks", `{"step":"sampling","messages":1}`),
	"roots-task":     mcpgoTask("file:///peer", "asks"),
}

var mcpgoExpiry = map[string]string{
	"expiry-waiting": `{"step":"question","message":"Delete e.txt?","mode":"form"}
		{"step":"error","error":"invalid params: Failed to retrieve task: Task not found"}
		{"step":"get","error":"invalid params: Failed to retrieve task: Task not found","invalidParams":true}`,
}

var mcpgoTakeOver = `{"step":"question","message":"Delete k.txt?","mode":"form"}
	{"step":"result","isError":false,"text":"Deleted k.txt"}`
