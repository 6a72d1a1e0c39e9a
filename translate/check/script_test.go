package check

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
)

// A script is a record a line:
//
//	> STREAM VERB [Header=value …] [JSON]    toward the server
//	< STREAM STATUS [Header=value …] [JSON]  toward the client; status 0: none
//	@ NAME=VALUE …                           transport, conn, session, principal, leg, redacted from here on
//	+ DURATION                               time passes
//	drop N                                   frames are missing
//
// In JSON, $M stands for the _meta members a modern request must have, $W for a
// modern task that works and $T for a legacy one, both without their ends.
const (
	metaText = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	workText = `"taskId":"t1","status":"working","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z","ttlMs":60000`
	taskText = `"taskId":"t1","status":"working","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z","ttl":60000`
	infoText = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}`
)

var abbreviations = strings.NewReplacer("$M", metaText, "$W", workText, "$T", taskText, "$I", infoText)

func script(t testing.TB, text string) []*capture.Record {
	t.Helper()
	var out []*capture.Record
	set := map[string]string{"leg": "client"}
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		r := &capture.Record{Line: len(out) + 2, Time: at}
		switch word {
		case "@":
			for pair := range strings.FieldsSeq(rest) {
				name, value, _ := strings.Cut(pair, "=")
				set[name] = value
			}
			continue
		case "+":
			d, err := time.ParseDuration(rest)
			if err != nil {
				t.Fatal(err)
			}
			at = at.Add(d)
			continue
		case "drop":
			r.Dropped, _ = strconv.Atoi(rest)
		case ">", "<":
			frame(t, r, word == ">", rest, set)
		default:
			t.Fatalf("no line of a script: %s", line)
		}
		at = at.Add(time.Millisecond)
		out = append(out, r)
	}
	return out
}

func frame(t testing.TB, r *capture.Record, toServer bool, rest string, set map[string]string) {
	t.Helper()
	head, body := rest, ""
	if i := strings.IndexAny(rest, "{["); i >= 0 {
		head, body = rest[:i], abbreviations.Replace(rest[i:])
	}
	fields := strings.Fields(head)
	r.Leg, r.Dir = translate.ClientLeg, translate.ToClient
	if set["leg"] == "server" {
		r.Leg = translate.ServerLeg
	}
	if toServer {
		r.Dir = translate.ToServer
	}
	r.Transport, r.Conn, r.Session, r.Principal = set["transport"], set["conn"], set["session"], set["principal"]
	if set["redacted"] != "" {
		r.Redacted = []string{set["redacted"]}
	}
	if body != "" {
		r.Msg = []byte(body)
	}
	if len(fields) == 0 {
		return
	}
	if r.Stream = fields[0]; r.Stream == "-" {
		r.Stream = ""
	}
	r.Header = http.Header{}
	for _, f := range fields[1:] {
		if name, value, ok := strings.Cut(f, "="); ok {
			name = http.CanonicalHeaderKey(name)
			r.Header[name] = append(r.Header[name], strings.ReplaceAll(value, "~", " "))
		} else if n, err := strconv.Atoi(f); err == nil {
			r.Status = n
		} else {
			r.Verb = f
		}
	}
	if set["transport"] == "" && r.Session == "" {
		r.Session = r.Header.Get(translate.HeaderSession)
	}
}

// findings checks a script; most tests have no proxy in them.
func findings(t testing.TB, o Options, text string) []Finding {
	t.Helper()
	var out []Finding
	c := New(o, func(f Finding) { out = append(out, f) })
	for _, r := range script(t, text) {
		c.Record(r)
	}
	c.Finish()
	return out
}

func ids(list []Finding) []string {
	var out []string
	for _, f := range list {
		if !f.Rule.Once || f.Severity > Note {
			out = append(out, f.Rule.ID)
		}
	}
	return out
}

func show(list []Finding) string {
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "  %d %s %s: %s (%s)\n", f.Line, f.Severity, f.Rule.ID, f.Message, f.Side)
	}
	return b.String()
}

// parts of scripts that many cases begin with.
const (
	stdio = "@ transport=stdio conn=c\n"
	// opened is a legacy session over stdio whose peers can all there is.
	opened = stdio + `
> - {"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}}}
< - {"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{"listChanged":true},"logging":{},"resources":{},"prompts":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}}}
> - {"jsonrpc":"2.0","method":"notifications/initialized"}
`
	// session is the same over HTTP.
	session = `
> s1 POST {"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{}}}
< s1 200 Mcp-Session-Id=S Content-Type=application/json {"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},"capabilities":{"tools":{}}}}
> s2 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","method":"notifications/initialized"}
< s2 202 Mcp-Session-Id=S
`
	// calling has a call under way. Its stream broke off and is resumed: asked had
	// a request of the server on it, cutOff progress, of which the client missed
	// the second.
	calling = session + `
> s3 POST Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}
`
	asked = calling + `
< s3 200 Mcp-Session-Id=S Content-Type=text/event-stream {"jsonrpc":"2.0","id":7,"method":"ping"}
> s4 GET Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 Last-Event-ID=e0
< s4 200 Mcp-Session-Id=S Content-Type=text/event-stream
`
	cutOff = calling + `
< s3 200 Mcp-Session-Id=S Content-Type=text/event-stream {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
< s3 0 Mcp-Session-Id=S {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}
> s4 GET Mcp-Session-Id=S Mcp-Protocol-Version=2025-11-25 Last-Event-ID=e1
< s4 200 Mcp-Session-Id=S Content-Type=text/event-stream {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}
`
	// task is a call that became the task t1, in opened.
	legacyTask = opened + `
> - {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","task":{},"_meta":{"progressToken":"p"}}}
< - {"jsonrpc":"2.0","id":1,"result":{"task":{$T}}}
`
	post       = "POST Mcp-Protocol-Version=2026-07-28 "
	modernTask = `
> s1 ` + post + `Mcp-Method=tools/call Mcp-Name=a {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",$M}}
< s1 200 Content-Type=application/json {"jsonrpc":"2.0","id":1,"result":{"resultType":"task",$W,$I}}
`
	get1 = "\n" + `> s2 ` + post + `Mcp-Method=tasks/get Mcp-Name=t1 {"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"t1",$M}}
`
	get2 = "\n" + `> s3 ` + post + `Mcp-Method=tasks/get Mcp-Name=t1 {"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t1",$M}}
`
)

func legacyStatus(status string) string { return strings.Replace(taskText, "working", status, 1) }
func modernStatus(status string) string { return strings.Replace(workText, "working", status, 1) }
