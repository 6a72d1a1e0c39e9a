package offline

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// asked sends one message to a mock and returns what came, a line each.
func asked(t *testing.T, m *Mock, raw string) (lines []string) {
	t.Helper()
	conn, err := m.Dial(context.Background(), session.Target{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := conn.Do(context.Background(), session.Outgoing{Verb: http.MethodPost, Msg: []byte(raw), Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		f, err := s.Next()
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(f.Msg.Raw))
		if f.Msg.Kind == jsonrpc.Request {
			asked(t, m, `{"jsonrpc":"2.0","id":`+string(f.Msg.ID.Raw())+`,"result":{"action":"accept"}}`)
		}
	}
}

func legacyMock(t *testing.T, text string) (*Mock, *[]Missed) {
	var missed []Missed
	return NewMock(MockOptions{Operations: gathered(script(t, text)), Era: translate.Legacy, Missed: func(m Missed) { missed = append(missed, m) }}), &missed
}

const twoCalls = `
0 > a {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"x":1.0,"y":2}}}
1 < a {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"first"}]}}
2 > b {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","arguments":{"x":1.0,"y":2}}}
3 < b {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"second"}]}}
4 > c {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{"x":7,"y":9}}}
5 < c {"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"no"}}
`

func TestMock_EqualCallsInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, missed := legacyMock(t, twoCalls)
		call := func(id, args string) string {
			return strings.Join(asked(t, m, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"t","arguments":`+args+`}}`), "\n")
		}
		for _, c := range [][3]string{
			{`"a"`, `{"x":1.0,"y":2}`, `{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"first"}]}}`},
			{`7`, `{"y":2,"x":1.0}`, `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"second"}]}}`},
			{`8`, `{"x":1.0,"y":2}`, `{"jsonrpc":"2.0","id":8,"result":{"content":[{"type":"text","text":"second"}]}}`},
			{`9`, `{"x":7,"y":9}`, `{"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"no"}}`},
		} {
			if got := call(c[0], c[1]); got != c[2] {
				t.Errorf("%s: got %s, want %s", c[1], got, c[2])
			}
		}
		if len(*missed) > 0 {
			t.Errorf("missed %v", *missed)
		}
	})
}

func TestMock_MissesAreLoud(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, missed := legacyMock(t, twoCalls)
		got := asked(t, m, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"x":7,"y":1}}}`)
		const want = `not in the capture: tools/call "t": no recorded request has these params; nearest is operation 3 on line 7`
		if len(got) != 1 || !strings.Contains(got[0], `"code":-32603`) || !strings.Contains(got[0], strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("got %v", got)
		}
		asked(t, m, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}`)
		if len(*missed) != 2 || (*missed)[1].String() != `prompts/get "p": the capture has no such request` {
			t.Errorf("missed %v", *missed)
		}
	})
}

const taskTalk = `
0 > a {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},"task":{}}}
1 < a {"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"T","status":"working","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z","ttl":null}}}
1 > b {"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"T"}}
4 < b {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}
5 > c {"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}
5 < c 202
9 < b {"jsonrpc":"2.0","id":2,"result":{"content":[]}}
`

// A task goes through its states at the recorded pace, times the speed, and
// waits for the answer to its question however long that takes.
func TestMock_TaskAtItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMock(MockOptions{Operations: gathered(script(t, taskTalk)), Era: translate.Legacy, Speed: 2})
		asked(t, m, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},"task":{"ttl":5}}}`)
		status := func() string {
			got := asked(t, m, `{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"T"}}`)
			msg, err := jsonrpc.Decode([]byte(got[0]), jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			s, _ := msg.Result().Get("status").Str()
			return s
		}
		for _, c := range []struct {
			after time.Duration
			want  string
		}{{0, "working"}, {1400 * time.Millisecond, "working"}, {200 * time.Millisecond, "input_required"}, {time.Hour, "input_required"}} {
			time.Sleep(c.after)
			if got := status(); got != c.want {
				t.Errorf("%v later: %s, want %s", c.after, got, c.want)
			}
		}
		got := asked(t, m, `{"jsonrpc":"2.0","id":4,"method":"tasks/result","params":{"taskId":"T"}}`)
		if len(got) != 2 || !strings.Contains(got[0], "elicitation/create") || got[1] != `{"jsonrpc":"2.0","id":4,"result":{"content":[]}}` {
			t.Errorf("got %v", got)
		}
		if status() != "completed" {
			t.Error(status())
		}
		if got := asked(t, m, `{"jsonrpc":"2.0","id":5,"method":"tasks/cancel","params":{"taskId":"T"}}`); !strings.Contains(got[0], "-32602") {
			t.Error(got)
		}
		if got := asked(t, m, `{"jsonrpc":"2.0","id":6,"method":"tasks/get","params":{"taskId":"U"}}`); !strings.Contains(got[0], "-32602") {
			t.Error(got)
		}
	})
}

// Two sessions whose tasks had one id keep two tasks.
func TestMock_TasksOfOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := legacyMock(t, taskTalk+strings.ReplaceAll(strings.NewReplacer(" a ", " d ", " b ", " e ", " c ", " f ", `{"content":[]}`, `{"content":[{"type":"text","text":"2"}]}`).Replace(taskTalk), "\n", "\n1"))
		for _, want := range []string{`"taskId":"T"`, `"taskId":"T~2"`} {
			if got := asked(t, m, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},"task":{}}}`); !strings.Contains(got[0], want) {
				t.Errorf("got %v, want %s", got, want)
			}
		}
		if got := asked(t, m, `{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"T~2"}}`); !strings.Contains(got[len(got)-1], `"text":"2"`) {
			t.Errorf("got %v", got)
		}
	})
}
