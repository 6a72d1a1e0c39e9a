package e2e

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbridge/translate/schematest"
)

// go-sdk 1.8.0: its client pinned to 2026-07-28, and its conformance server in
// legacy mode. It has no tasks in either era.
var (
	gosdkClient = goPeer("gosdk-client")
	modernCall  = nodePeer("modern-call.mjs") // client 2.4.0 without ext-tasks
)

const gosdkServer = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"

var gosdkServerBinary = buildOnce(filepath.Join(peersDir, "go"), gosdkServer, "gosdk-server")

// startGoSDKServer runs it in one era until the test ends. It prints no ready
// line and takes no port 0.
func startGoSDKServer(t *testing.T, era string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("real peers take minutes: not with -short")
	}
	file := gosdkServerBinary(t)
	addr := freeAddress(t)
	cmd := exec.Command(file, "-http", addr, "-stateless="+strconv.FormatBool(era == "modern"))
	var said lockedBuffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("go-sdk's server said:\n%s", said.String())
		}
	})
	for end := time.Now().Add(startPatience); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return "http://" + addr
		}
		if time.Now().After(end) {
			t.Fatalf("go-sdk's server was not ready:\n%s", said.String())
		}
	}
}

func TestModernCells_GoSDKClient_LegacyServer(t *testing.T) {
	mixed{
		client: gosdkClient, server: legacyServer, clientEra: "modern", serverEra: "legacy", want: gosdkOnLegacy, some: true,
		core: []string{"list", "call", "ask", "ask-twice", "question-plain"},
	}.run(t)
}

// cell is a scenario with arguments, and what the client must print.
type cell struct{ name, args, want string }

// playCells plays each through the bridge and holds the proxy's messages
// against the schemas.
func playCells(t *testing.T, client peer, url string, cells []cell) {
	for _, c := range cells {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at, legs := recordedBridge(t, url, "modern", "legacy", patient(bridgeOptions{}))
			args := strings.SplitN(c.args, " ", 3)
			run := runClient(t, client, at, args[0], args[1:]...)
			if d := differs(run, c.want); d != "" {
				t.Errorf("%s\nall of it:\n%s", d, run)
			}
			if c.name == fractions {
				return
			}
			if made := legs.check(t, schematest.Load(t)); len(made) == 0 {
				t.Error("the recording holds nothing the proxy made")
			}
		})
	}
}

// fractions is the cell whose answer the published 2025-11-25 JSON schema does
// not know: it has integer where the specification says number.
const fractions = "elicitation with defaults"

func TestModernCells_GoSDKClient_GoSDKServer(t *testing.T) {
	url := startGoSDKServer(t, "legacy")
	playCells(t, gosdkClient, url, append([]cell{
		{"initialize", "initialize", `{"step":"initialize","extensions":null,"protocolVersion":"2026-07-28","server":"mcp-conformance-test-server","session":false,"tools":true}`},
	}, gosdkServerCells...))
}

func TestModernCells_ModernClient_GoSDKServer(t *testing.T) {
	url := startGoSDKServer(t, "legacy")
	t.Run("v2 client", func(t *testing.T) { playCells(t, modernCall, url, gosdkServerCells) })
	t.Run("with ext-tasks", func(t *testing.T) { playCells(t, modernClient, url, extTasksOnGoSDK) })
}

var extTasksOnGoSDK = []cell{
	{"discover", "discover", `{"capabilities":["completions","logging","prompts","resources","tools"],"era":"modern","instructions":null,"protocolVersion":"2026-07-28","server":"mcp-conformance-test-server","step":"discover","tasks":null}
				{"cacheScope":"private","resultType":"complete","step":"wire","ttlMs":0,"versions":["2026-07-28","2026-06-30"]}`},
	{"removed", "removed", modernOnLegacy["removed"]},
	{"unknown-task", "unknown-task", modernOnLegacy["unknown-task"]},
	{"header-mismatch", "header-mismatch", modernOnLegacy["header-mismatch"]},
}

// Cells of clients without tasks on the other legacy servers.
var (
	gosdkOnMCPGo = pick(gosdkOnLegacy, "greet", "call", "ask", "prompts")
	mcpgoOnMCPGo = pick(mcpgoOnLegacy, "greet", "call", "ask", "prompts")

	gosdkOnEverything = []cell{
		{"echo", `tool echo {"message":"hello"}`, `{"step":"result","isError":false,"text":"Echo: hello"}`},
		{"sum", `tool get-sum {"a":2,"b":3}`, `{"step":"result","isError":false,"text":"The sum of 2 and 3 is 5."}`},
		{"image", "tool get-tiny-image", `{"step":"result","isError":false,"text":"Here's the image you requested:\n[image]\nThe image above is the MCP logo."}`},
	}
)

func pick(table map[string]string, names ...string) map[string]string {
	some := map[string]string{}
	for _, name := range names {
		some[name] = table[name]
	}
	return some
}

func TestModernCells_GoSDKClient_MCPGoServer(t *testing.T) {
	mixed{client: gosdkClient, server: mcpgoServer, clientEra: "modern", serverEra: "legacy", want: gosdkOnMCPGo, some: true}.run(t)
}

func TestModernCells_MCPGoClient_MCPGoServer(t *testing.T) {
	mixed{client: mcpgoModern, server: mcpgoServer, clientEra: "modern", serverEra: "legacy", want: mcpgoOnMCPGo, some: true}.run(t)
}

func TestModernCells_GoSDKClient_Everything(t *testing.T) {
	playCells(t, gosdkClient, startServer(t, everythingServer), gosdkOnEverything)
}

// gosdkOnLegacy is what a go-sdk client sees of the SDK's legacy server.
var gosdkOnLegacy = map[string]string{
	"ask": `{"step":"question","message":"What is your name?"}
		{"step":"result","isError":false,"text":"Hello, Ada"}`,
	"ask-twice": `{"step":"question","message":"What is your name?"}
		{"step":"question","message":"Which colour?"}
		{"step":"result","isError":false,"text":"Ada likes green"}`,
	"call": `{"step":"result","isError":false,"structured":{"text":"hello"},"text":"hello"}`,
	"cancel-call": `{"step":"call","failed":true}
		{"step":"alive"}`,
	"greet":      `{"step":"result","isError":false,"text":"Hello, Ada!"}`,
	"initialize": `{"step":"initialize","extensions":["io.modelcontextprotocol/tasks"],"protocolVersion":"2026-07-28","server":"legacy-peer","session":false,"tools":true}`,
	"list": `{"step":"tool","name":"greet"}
		{"step":"tool","name":"slow_compute"}
		{"step":"tool","name":"failing_job"}
		{"step":"tool","name":"protocol_error_job"}
		{"step":"tool","name":"confirm_delete"}
		{"step":"tool","name":"multi_input"}
		{"step":"tool","name":"sample_task"}
		{"step":"tool","name":"test_tool_with_task"}
		{"step":"tool","name":"echo"}
		{"step":"tool","name":"ask_name"}
		{"step":"tool","name":"ask_twice"}
		{"step":"tool","name":"sample"}
		{"step":"tool","name":"roots"}
		{"step":"tool","name":"progress"}
		{"step":"tool","name":"log"}
		{"step":"tool","name":"touch"}
		{"step":"list","count":16}`,
	"optional-plain": `{"step":"result","isError":false,"structured":{"label":"plain","seconds":1},"text":"computed plain in 1 s"}`,
	"progress": `{"step":"result","isError":false,"text":"4 steps"}
		{"step":"progress","seen":[1,2,3,4]}`,
	"prompts":        `{"step":"get","messages":1,"text":"Say hello to Ada"}`,
	"protocol-error": `{"step":"result","error":{"code":-32011,"message":"protocol_error_job broke on purpose"}}`,
	"question-plain": `{"step":"question","message":"Delete p.txt?"}
		{"step":"result","isError":false,"text":"Deleted p.txt"}`,
	"required-plain": `{"step":"result","isError":true,"text":"failing_job failed on purpose"}`,
	"resources": `{"step":"list","found":true}
		{"step":"read","text":"a note"}`,
	"roots": `{"step":"result","isError":false,"text":"file:///peer"}`,
	"sample": `{"step":"sampling","text":"Say something"}
		{"step":"result","isError":false,"text":"Sampled: something"}`,
	"unknown-tool": `{"step":"result","isError":true,"text":"MCP error -32602: Tool no_such_tool not found"}`,
}

// gosdkServerCells are what any modern client sees of go-sdk's conformance
// server in legacy mode. Its tools named input_required ask by requests there.
var gosdkServerCells = []cell{
	{"text", "tool test_simple_text", `{"step":"result","isError":false,"text":"This is a simple text response for testing."}`},
	{"several contents", "tool test_multiple_content_types", `{"step":"result","isError":false,"text":"This is text content\n[image]\n[resource]"}`},
	{"error", "tool test_error_handling", `{"step":"result","isError":true,"text":"this tool intentionally returns an error for testing"}`},
	{"progress", "progress test_tool_with_progress", `{"step":"result","isError":false,"text":"*"}
		{"step":"progress","seen":[0,50,100]}`},
	{"elicitation", `tool test_elicitation {"message":"Who?"}`, `{"step":"question","message":"Who?"}
		{"step":"result","isError":false,"text":"Elicitation result: action=accept, content=map[username:Ada]"}`},
	{fractions, "tool test_elicitation_sep1034_defaults", `{"step":"question","message":"Test defaults for primitives"}
		{"step":"result","isError":false,"text":"Elicitation result: action=accept, content=map[age:30 name:John Doe score:95.5 status:active verified:true]"}`},
	{"sampling", `tool test_sampling {"prompt":"Say it"}`, `{"step":"sampling","text":"Say it"}
		{"step":"result","isError":false,"text":"LLM response: something"}`},
	{"asks: elicitation", "tool test_input_required_result_elicitation", `{"step":"question","message":"What is your name?"}
		{"step":"result","isError":false,"text":"Hello, Ada!"}`},
	{"asks: sampling", "tool test_input_required_result_sampling", `{"step":"sampling","text":"What is the capital of France?"}
		{"step":"result","isError":false,"text":"Sampling response: something"}`},
	{"asks: roots", "tool test_input_required_result_list_roots", `{"step":"result","isError":false,"text":"Client exposed 1 root(s): file:///peer"}`},
	{"asks: with state", "tool test_input_required_result_request_state", `{"step":"question","message":"Please confirm"}
		{"step":"result","isError":false,"text":"state-ok: requestState received and confirmation accepted"}`},
	{"prompt", `prompt test_prompt_with_arguments {"arg1":"a","arg2":"b"}`, `{"step":"get","messages":1,"text":"Prompt with arguments: arg1='a', arg2='b'"}`},
	{"prompt that asks", "prompt test_input_required_result_prompt", `{"step":"question","message":"Please provide context for the prompt"}
		{"step":"get","messages":1,"text":"Context: Ada"}`},
	{"resource", "resource test://static-text", `{"step":"read","text":"This is the content of the static text resource."}`},
	{"unknown tool", "tool no_such_tool", `{"step":"result","error":{"code":-32602,"message":"unknown tool \"no_such_tool\""}}`},
	{"asks: three at once", "tool test_input_required_result_multiple_inputs", `?{"step":"sampling","text":"Generate a greeting"}
		{"step":"question","message":"What is your name?"}
		?{"step":"sampling","text":"Generate a greeting"}
		{"step":"result","isError":false,"text":"something Ada — 1 root(s) visible"}`},
}
