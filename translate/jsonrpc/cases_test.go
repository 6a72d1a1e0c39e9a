package jsonrpc

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// Number tokens stay as sent, whatever is edited around them.
func TestCaseB25_Numbers(t *testing.T) {
	const args = `{"id":9223372036854775807,"x":1.0,"y":1e3,"z":0.1000,"h":1e1000000,"n":-0}`
	m := mustDecode(t, `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"t","arguments":`+args+`,"task":{"ttl":60000.0}}}`)
	if m.ID.String() != "9007199254740993" || m.ID.Key() == IntID(9007199254740992).Key() {
		t.Errorf("id became %s", m.ID)
	}
	e := m.Edit()
	e.Delete(m.At("params", "task"))
	e.Insert(m.Params(), "_meta", []byte(`{}`))
	if got := string(e.Bytes()); !strings.Contains(got, args) || !strings.Contains(got, `"id":9007199254740993,`) {
		t.Errorf("got %s", got)
	}
	if ttl, ok := m.At("params", "task", "ttl").Int(); !ok || ttl != 60000 {
		t.Errorf("ttl %d", ttl)
	}
	m = mustDecode(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602.0,"message":"","data":{"v":1.0,"big":123456789012345678901234567890}}}`)
	if got := string(m.Error().Get("data").Raw()); got != `{"v":1.0,"big":123456789012345678901234567890}` {
		t.Errorf("data became %s", got)
	}
}

// Everything no rule owns survives an edit at every level.
func TestCaseB26_UnknownMembersSurvive(t *testing.T) {
	const rest = `"content":[{"type":"text","text":"x","annotations":{"audience":["user"]},"_meta":{"v/k":1},"vendorX":[1]}],` +
		`"structuredContent":{"s":7,"e":{},"n":null,"l":[]},"_meta":{"com.x/t":"1","traceparent":"00-a-b-01"},"futureField":true`
	m := mustDecode(t, `{"jsonrpc":"2.0","vendor":{"a":[]},"id":1,"result":{"resultType":"complete",`+rest+`}}`)
	e := m.Edit()
	e.Delete(m.At("result", "resultType"))
	if got, want := string(e.Bytes()), `{"jsonrpc":"2.0","vendor":{"a":[]},"id":1,"result":{`+rest+`}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Strings keep their bytes; invalid UTF-8 refuses that one message.
func TestCaseB29_UnicodeAndEscapes(t *testing.T) {
	const content = `[{"type":"text","text":"\ud83d <b>&\u2028\u0000 \u00e9 \ud83d\ude00 é😀"}]`
	m := mustDecode(t, `{"jsonrpc":"2.0","id":"\ud83d","result":{"resultType":"complete","content":`+content+`,"\ud83d":1}}`)
	e := m.Edit()
	e.Delete(m.At("result", "resultType"))
	want := `{"jsonrpc":"2.0","id":"\ud83d","result":{"content":` + content + `,"\ud83d":1}}`
	if got := string(e.Bytes()); got != want {
		t.Errorf("got %s", got)
	}
	if got := string(NewResult(m.ID, []byte("{}"))); got != `{"jsonrpc":"2.0","id":"\ud83d","result":{}}` {
		t.Errorf("id became %s", got)
	}
	// A moved member name keeps its value too.
	for key, v := range m.Result().Members() {
		if v.Type() == Number {
			if got := string(NewObject().Raw(key, v.Raw()).Bytes()); got != `{"\ud83d":1}` {
				t.Errorf("moved to %s", got)
			}
		}
	}
	_, err := Decode([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"\xFF\"}]}}"), Limits{})
	if e := decodeError(t, err); e.Code != CodeParse || e.ID.String() != "1" {
		t.Errorf("code %d id %s", e.Code, e.ID)
	}
}

// bodySize is the size of the hostile bodies below.
func bodySize() int {
	if os.Getenv("TASKBRIDGE_E2E") == "full" {
		return 64 << 20
	}
	if raceEnabled {
		return 4 << 20
	}
	return 8 << 20
}

// hostileBodies are what costs a careless parser most for its size.
func hostileBodies(size int) map[string][]byte {
	const head, tail = `{"jsonrpc":"2.0","id":1,"result":{"content":`, `}}`
	fill := func(first, unit, last string) []byte {
		n := (size - len(head) - len(tail) - len(first) - len(last)) / len(unit)
		return []byte(head + first + strings.Repeat(unit, n) + last + tail)
	}
	return map[string][]byte{
		"open brackets":      []byte(strings.Repeat("[", size)),
		"open braces":        []byte(strings.Repeat(`{"a":`, size/5)),
		"brackets in params": []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":` + strings.Repeat("[", size)),
		"tracked brackets":   []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Repeat("[],", size/3)),
		"tracked members":    []byte(`{"jsonrpc":"2.0","id":1,"result":{"inputRequests":{` + strings.Repeat(`"a":{},`, size/7)),
		"empty arrays":       fill("[", "[],", "[]]"),
		"zeros":              fill("[", "0,", "0]"),
		"escapes":            fill(`"`, `\u0061`, `"`),
		"one text":           fill(`"`, "long text ", `"`),
		"white space":        fill("", " ", "1"),
	}
}

func TestHostileBodies(t *testing.T) {
	var goroutines sync.WaitGroup
	for name, raw := range hostileBodies(bodySize()) {
		used := peakMemory(func() {
			for range 8 {
				goroutines.Go(func() {
					_, err := Decode(raw, Limits{})
					if _, err2 := DecodeBatch(raw, Limits{}); err2 == nil {
						t.Errorf("%s: no batch, yet it passes", name)
					}
					if refused := strings.Contains(name, "open") || strings.Contains(name, "brackets") || strings.Contains(name, "members"); (err != nil) != refused {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			goroutines.Wait()
		})
		// The bodies count once each: that the eight share one here is our thrift.
		if limit := 4 * 8 * uint64(len(raw)); used+8*uint64(len(raw)) > limit {
			t.Errorf("%s: %d MB for eight bodies of %d MB", name, used>>20, len(raw)>>20)
		}
		t.Logf("%s: %d KB beside the bodies", name, used>>10)
	}
}

// peakMemory is the most that heap and stacks grew while f ran.
func peakMemory(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak uint64
	stop, done := make(chan struct{}), make(chan struct{})
	sample := func() {
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapAlloc+now.StackInuse)
	}
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				sample()
			}
		}
	}()
	f()
	close(stop)
	<-done
	sample()
	return peak - min(peak, before.HeapAlloc+before.StackInuse)
}

func TestNodeIsCompact(t *testing.T) {
	if size := unsafe.Sizeof(node{}); size > 24 {
		t.Errorf("a node takes %d bytes", size)
	}
}

// Many names in one object must not cost the square of their number.
func TestManyMembersAreQuick(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"inputRequests":{`)
	for i := range 60000 {
		b.Write(StringID(strings.Repeat("k", i%7) + IntID(int64(i)).String()).Raw())
		b.WriteString(`:{},`)
	}
	b.WriteString(`"last":{}}}}`)
	start := time.Now()
	mustDecode(t, b.String())
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
}

// 32 MB of brackets overflow the stack of a recursive validator.
func TestBracketsFailAtOnce(t *testing.T) {
	raw := []byte(strings.Repeat("[", 32<<20))
	start := time.Now()
	if _, err := ParseValue(raw); err == nil || !strings.Contains(err.Error(), "deeper than 512") {
		t.Error(err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
}
