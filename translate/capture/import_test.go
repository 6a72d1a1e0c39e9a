package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"taskbridge/translate/jsonrpc"
)

// told is what a test compares: one line a record.
func told(r *Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s", r.Line, r.Time.Format("05.000"), r.Dir)
	for _, s := range []string{r.Conn, r.Stream, r.Session, r.Principal, r.Verb} {
		if s != "" {
			b.WriteString(" " + s)
		}
	}
	if r.Status != 0 {
		fmt.Fprintf(&b, " %d", r.Status)
	}
	for _, name := range []string{"Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Mcp-Param-X", "Mcp-Protocol-Version", "Www-Authenticate", "Authorization", "Cookie"} {
		for _, v := range r.Header[name] {
			fmt.Fprintf(&b, " %s=%s", name, v)
		}
	}
	fmt.Fprintf(&b, " %s", jsonrpc.Compact(nil, r.Msg))
	return strings.TrimSpace(b.String())
}

func importAll(t testing.TB, text string) (got []string, form string, last error) {
	t.Helper()
	s, err := NewAnyReader(strings.NewReader(text))
	if err != nil {
		return nil, "", err
	}
	for {
		r, err := s.Next()
		if bad, ok := errors.AsType[*FormatError](err); ok {
			got = append(got, bad.Error())
			if len(got) > 1000 {
				t.Fatal("reading never ends")
			}
			continue
		}
		if err != nil {
			if (err == io.EOF) != (s.End() != nil) {
				t.Errorf("ended by %v, End is %+v", err, s.End())
			}
			return got, s.Header().Settings["imported"], err
		}
		got = append(got, told(&r))
	}
}

func TestImport(t *testing.T) {
	const (
		ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		pong = `{"jsonrpc":"2.0","id":1,"result":{}}`
	)
	for _, tt := range []struct{ name, form, text, want string }{
		{"lines", formLines, `{"direction":"client->server","timestamp":"2026-01-01T00:00:01Z","message":` + ping + `}

{"dir":"in","ts":1767225602000,"msg":` + pong + `}
{"from":"client","time":1767225603.5,"payload":"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}"}
{"type":"recv","data":[` + pong + `,` + ping + `]}
{"jsonrpc":"2.0","method":"n","dir":"send"}
{"to":"server","message":` + ping + `}
`, `1 01.000 to-server imported ` + ping + `
3 02.000 to-client imported ` + pong + `
4 03.500 to-server imported {"jsonrpc":"2.0","method":"n"}
5 03.500 to-client imported ` + pong + `
5 03.500 to-client imported ` + ping + `
6 03.500 to-server imported {"jsonrpc":"2.0","method":"n"}
7 03.500 to-server imported ` + ping},
		{"bad lines", formLines, `{"direction":"send","message":` + ping + `}
{"direction":"sideways","message":` + ping + `}
` + ping + `
{"direction":"send","message":{"method":7}}
{"direction":"send"
{"direction":"recv","message":` + pong + "}\n", `1 00.000 to-server imported ` + ping + `
line 2: ` + errNoForm.Error() + `
line 3: a JSON-RPC message without the direction it went; add a member such as "dir":"send" around it
line 4: ` + errNoForm.Error() + `
line 5: not JSON that can be read: unexpected end of JSON
6 00.000 to-client imported ` + pong},
		{"mcpsnoop", formSnoop, `{"session_id":"secret1","server_label":"s","seq":0,"ts":"2026-01-01T00:00:00Z","direction":"meta","transport":"stdio","raw":{"command":["x"]}}
{"session_id":"secret1","server_label":"s","seq":1,"ts":"2026-01-01T00:00:01Z","direction":"c2s","transport":"http","raw":` + ping + `,"mcp_method":"ping","mcp_name":"n","mcp_protocol_version":"2026-07-28","mcp_param_headers":[{"name":"Mcp-Param-X","value":"1"},{"name":"Authorization","value":"secret"}],"conn_id":"7"}
{"session_id":"secret1","server_label":"s","seq":2,"ts":"2026-01-01T00:00:02Z","direction":"s2c","transport":"http","raw":` + pong + `,"conn_id":"7","status":200}
{"session_id":"secret1","server_label":"s","seq":3,"ts":"2026-01-01T00:00:02Z","direction":"stderr","transport":"stdio","text":"secret"}
{"session_id":"secret1","server_label":"s","seq":4,"ts":"2026-01-01T00:00:03Z","direction":"s2c","transport":"http","status":401,"auth_challenge":"Bearer realm=\"m\", nonce=\"secret\""}
`, `2 01.000 to-server c1.c2 Mcp-Method=ping Mcp-Name=n Mcp-Param-X=1 Mcp-Protocol-Version=2026-07-28 ` + ping + `
3 02.000 to-client c1.c2 200 ` + pong + `
5 03.000 to-client c1 401 Www-Authenticate=Bearer realm="m"`},
		{"mcporter", formPorter, `{"jsonrpc":"2.0","method":"$transport/start","_meta":{"dir":"lifecycle","server":"linear","ts":"2026-01-01T00:00:00.000Z"}}
{"jsonrpc":"2.0","id":1,"method":"ping","_meta":{"dir":"send","server":"linear","ts":"2026-01-01T00:00:01.000Z"}}
{"jsonrpc":"2.0","id":1,"result":{},"_meta":{"dir":"recv","server":"linear","ts":"2026-01-01T00:00:01.500Z"}}
`, `2 01.000 to-server linear ` + ping + `
3 01.500 to-client linear ` + pong},
		{"inspector, protocol", formProtocol, `[
  {"id":"a","timestamp":"2026-01-01T00:00:01.000Z","direction":"request","origin":"client","message":` + ping + `,"response":` + pong + `,"duration":1500},
  {"id":"b","timestamp":"2026-01-01T00:00:02.000Z","direction":"notification","message":{"jsonrpc":"2.0","method":"notifications/message","params":{}}},
  {"id":"c","timestamp":"2026-01-01T00:00:03.000Z","direction":"request","origin":"server","message":{"jsonrpc":"2.0","id":9,"method":"roots/list"},"response":{"jsonrpc":"2.0","id":9,"result":{"roots":[]}},"duration":1},
  {"id":"d","timestamp":"2026-01-01T00:00:04.000Z","direction":"response","message":{"jsonrpc":"2.0","id":3,"result":{}}},
  {"id":"e"}
]`, `2 01.000 to-server imported ` + ping + `
3 02.000 to-client imported {"jsonrpc":"2.0","method":"notifications/message","params":{}}
2 02.500 to-client imported ` + pong + `
4 03.000 to-client imported {"jsonrpc":"2.0","id":9,"method":"roots/list"}
4 03.001 to-server imported {"jsonrpc":"2.0","id":9,"result":{"roots":[]}}
5 04.000 to-client imported {"jsonrpc":"2.0","id":3,"result":{}}
line 6: an entry without a message`},
		{"inspector, network", formNetwork, `[{"id":"a","timestamp":"2026-01-01T00:00:01.000Z","method":"POST","url":"http://u:secret@h/?k=secret","requestHeaders":{"authorization":"Bearer secret","mcp-method":"ping"},"requestBody":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}","responseStatus":200,"responseHeaders":{"content-type":"text/event-stream","mcp-session-id":"secret"},"responseBody":"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n","duration":20,"category":"transport"},
{"id":"b","timestamp":"2026-01-01T00:00:02.000Z","method":"POST","url":"http://h/token","requestHeaders":{},"requestBody":"secret","category":"auth"},
{"id":"c","timestamp":"2026-01-01T00:00:03.000Z","method":"DELETE","url":"http://h/","requestHeaders":{"mcp-session-id":"secret"},"responseStatus":405,"category":"transport"}]`,
			`1 01.000 to-server x1 p1 POST Mcp-Method=ping ` + ping + `
1 01.020 to-client x1 s1 p1 200 Mcp-Session-Id=s1 {"jsonrpc":"2.0","method":"n"}
1 01.020 to-client x1 s1 p1 ` + pong + `
3 03.000 to-server x2 s1 DELETE Mcp-Session-Id=s1
3 03.000 to-client x2 s1 405`},
		{"HAR", formHAR, `{"log":{"version":"1.2","creator":{"name":"x","version":"1"},"pages":[{"id":"entries"}],"entries":[
{"startedDateTime":"2026-01-01T00:00:00.000Z","time":5,"request":{"method":"GET","url":"http://h/secret","headers":[{"name":"Cookie","value":"secret"}]},"response":{"status":200,"headers":[],"content":{"mimeType":"text/html","text":"secret"}}},
{"startedDateTime":"2026-01-01T00:00:01.000Z","time":5,"request":{"method":"POST","url":"http://h/mcp","headers":[{"name":"Cookie","value":"secret"},{"name":"Authorization","value":"secret"}],"postData":{"mimeType":"application/json","text":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"}},"response":{"status":200,"headers":[{"name":"Set-Cookie","value":"secret"}],"content":{"mimeType":"application/json","encoding":"base64","text":"eyJqc29ucnBjIjoiMi4wIiwiaWQiOjEsInJlc3VsdCI6e319"}}},
{"startedDateTime":"2026-01-01T00:00:02.000Z","time":5,"request":{"method":"POST","headers":[],"postData":{"text":"[` + strings.ReplaceAll(ping+","+ping, `"`, `\"`) + `]"}},"response":{"status":0,"content":{}}}
]}}`, `3 01.000 to-server x2 p1 POST ` + ping + `
3 01.005 to-client x2 p1 200 ` + pong + `
4 02.000 to-server x3 POST ` + ping + `
4 02.000 to-server x3 POST ` + ping},
		{"an empty array", formArray, `[]`, ``},
		{"a byte order mark", formLines, "\ufeff{\"dir\":\"send\",\"msg\":" + ping + "}\n", `1 00.000 to-server imported ` + ping},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, form, err := importAll(t, tt.text)
			if form != tt.form || err != io.EOF || strings.Join(got, "\n") != tt.want {
				t.Errorf("%s, ended by %v\n got %s\nwant %s", form, err, strings.Join(got, "\n"), tt.want)
			}
			if strings.Contains(strings.Join(got, "\n"), "secret") {
				t.Error("a secret was taken over")
			}
		})
	}
}

// Files that are cut, and those of no form.
func TestImportBroken(t *testing.T) {
	const entry = `{"timestamp":1,"direction":"request","message":{"jsonrpc":"2.0","id":1,"method":"ping"}}`
	for _, tt := range []struct{ text, want string }{
		{`{"dir":"send","msg":{"jsonrpc":"2.0","method":"a"}}` + "\n" + `{"dir":"send","ms`, "1 records, not whole"},
		{"[" + entry + "," + entry[:20], "1 records, not whole"},
		{"[" + entry, "1 records, not whole"},
		{"[\n" + entry + ",\nx]", "line 3: not JSON from here on: invalid character 'x' looking for beginning of value"},
		{`{"log":{"entries":[`, "0 records, not whole"},
		{`{"log":{"entries":{}}}`, "line 1: no member entries: not a HAR file"},
		{`{"log":{}}`, "line 1: no member entries: not a HAR file"},
		{`<xml/>`, "line 1: neither a capture of taskbridge nor any form"},
		{`{"a":1}`, "line 1: neither a capture of taskbridge nor a line with a JSON-RPC message"},
		{"\xff\xd8\xff", "line 1: neither a capture of taskbridge nor any form"},
		{"", "line 1: the file is empty"},
		{`[1,{"x":2}]`, "line 1: not an entry of an export that is known"},
	} {
		got, _, err := importAll(t, tt.text)
		text := fmt.Sprintf("%d records, not whole", len(got))
		if !errors.Is(err, ErrNotWhole) {
			text = fmt.Sprint(err)
		}
		if len(got) > 0 && strings.HasPrefix(got[len(got)-1], "line ") {
			text = got[len(got)-1]
			if len(got) > 1 && strings.HasPrefix(got[0], "line ") {
				text = got[0]
			}
		}
		if !strings.HasPrefix(text, tt.want) {
			t.Errorf("%q: got %s, want %s (%v)", tt.text, text, tt.want, err)
		}
	}
}

func TestWhenAndAfter(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)
	for _, text := range []string{`"2026-01-01T00:00:01Z"`, `"2026-01-01T01:00:01+01:00"`, `1767225601`, `1767225601000`, `1767225601000000`, `1767225601000000000`, `1.767225601e9`} {
		v, err := jsonrpc.ParseValue([]byte(text))
		if err != nil || !when(v).Equal(at) {
			t.Errorf("%s: %v %v", text, when(v), err)
		}
	}
	for _, text := range []string{`"x"`, `-1`, `1e300`, `null`, `{}`} {
		v, _ := jsonrpc.ParseValue([]byte(text))
		if !when(v).IsZero() {
			t.Errorf("%s: %v", text, when(v))
		}
	}
	if after(at, 1e300) != at || after(at, -1) != at || after(at, 1500) != at.Add(1500*time.Millisecond) {
		t.Error("after")
	}
}

// FuzzAnyReader: whatever a file holds, reading it ends, a record has a
// direction and a leg, and what is written of it is read back.
func FuzzAnyReader(f *testing.F) {
	for _, s := range []string{
		`{"capture":"taskbridge-capture","format":1,"created":"2026-11-30T10:00:00Z"}` + "\n" + `{"time":"2026-11-30T10:00:00Z","leg":"client","dir":"to-server","msg":{"jsonrpc":"2.0","method":"x"}}` + "\n" + `{"end":{"records":1}}`,
		`{"dir":"send","msg":{"jsonrpc":"2.0","method":"x"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"_meta":{"dir":"recv","server":"a","ts":"2026-01-01T00:00:01.500Z"}}`,
		`[{"timestamp":1,"direction":"request","message":{"jsonrpc":"2.0","id":1,"method":"ping"},"response":{"jsonrpc":"2.0","id":1,"result":{}},"duration":3}]`,
		`[{"timestamp":1,"url":"u","requestHeaders":{"a":"b"},"method":"POST","requestBody":"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}","responseStatus":200,"responseHeaders":{"content-type":"text/event-stream"},"responseBody":"data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"}]`,
		`{"log":{"entries":[{"startedDateTime":"2026-01-01T00:00:01Z","request":{"method":"POST","headers":[{"name":"A","value":"b"}],"postData":{"text":"{}"}},"response":{"content":{"encoding":"base64","text":"e30="}}}]}}`,
		`{"session_id":"a","direction":"c2s","transport":"http","raw":{"jsonrpc":"2.0","method":"x"},"conn_id":"1"}`,
	} {
		f.Add([]byte(s))
		f.Add(zipBytes(f, s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := NewAnyReader(bytes.NewReader(data))
		if err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Fatal(err)
			}
			return
		}
		var out bytes.Buffer
		w, err := NewWriter(&out, Header{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for calls := 0; ; calls++ {
			if calls > 4*len(data)+1000 {
				t.Fatal("reading never ends")
			}
			r, err := s.Next()
			if _, ok := errors.AsType[*FormatError](err); ok {
				continue
			}
			if err != nil {
				if err != io.EOF && !errors.Is(err, ErrNotWhole) {
					t.Fatal(err)
				}
				break
			}
			if r.Dropped == 0 && (r.Leg == 0 || r.Dir == 0) {
				t.Fatalf("%+v", r)
			}
			for name := range r.Header {
				if s.Header().Settings["imported"] != "" && !KeptHeader(name) {
					t.Fatalf("header %s was taken over", name)
				}
			}
			if _, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{}); r.Msg != nil && err != nil {
				continue // our own form does not look into messages
			}
			if w.Write(&r) == nil {
				n++
			}
		}
		if err := w.Close(false); err != nil {
			t.Fatal(err)
		}
		again, err := NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := again.Next(); err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
		}
		if _, err := again.Next(); err != io.EOF {
			t.Fatal(err)
		}
	})
}
