package offline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// talk makes up a legacy conversation.
type talk struct {
	rng   *rand.Rand
	b     strings.Builder
	at    float64
	id    int
	ask   int
	names int
	tasks map[string]bool
}

func (k *talk) line(dir, stream, text string) {
	fmt.Fprintf(&k.b, "%s %s %s %s\n", strconv.FormatFloat(k.at, 'f', 3, 64), dir, stream, text)
}

func (k *talk) pass() { k.at += 0.05 + 3*k.rng.Float64() }

func (k *talk) stream() string { k.names++; return "x" + strconv.Itoa(k.names) }

// madeUp is a conversation of n operations, one after the other.
func madeUp(seed uint64, n int) string {
	k := &talk{rng: rand.New(rand.NewPCG(seed, 7)), tasks: map[string]bool{}}
	s := k.stream()
	k.line(">", s, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},"clientInfo":{"name":"old","version":"1"}}}`)
	k.pass()
	k.line("<", s, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"srv","version":"2"}}}`)
	s = k.stream()
	k.line(">", s, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	k.line("<", s, "202")
	k.pass()
	s, k.id = k.stream(), k.id+1
	k.line(">", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, k.id))
	k.line("<", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"tools":[{"name":"plain","inputSchema":{"type":"object"}},{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}}`, k.id))
	for range n {
		k.pass()
		[]func(){k.call, k.task, k.other}[k.rng.IntN(3)]()
	}
	return k.b.String()
}

// arguments are values whose spelling must survive.
func (k *talk) arguments() string {
	return []string{`{}`, `{"n":1.0}`, `{"big":9223372036854775807,"e":1e3}`, `{"t":"\u00e9 \"q\"","a":[1, 2,{}],"z":null}`, `{"x":{"y":{"z":[]}}}`}[k.rng.IntN(5)]
}

func (k *talk) result() string {
	return []string{
		`{"content":[{"type":"text","text":"ok"}]}`,
		`{"content":[{"type":"text","text":"bad"}],"isError":true}`,
		`{"content":[],"structuredContent":{"n":0.1000,"m":[null]},"vendor":{"a":1}}`,
		`{"content":[{"type":"text","text":"x","annotations":{"audience":["user"]}}],"_meta":{"com.x/k":1}}`,
	}[k.rng.IntN(4)]
}

func (k *talk) ends(s string, id int) {
	if k.rng.IntN(5) == 0 {
		k.line("<", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"no luck","data":{"why":[1.50]}}}`, id))
		return
	}
	k.line("<", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, k.result()))
}

// question asks one thing, or two at once that are answered the other way round.
func (k *talk) question(s, meta string) {
	if k.rng.IntN(3) > 0 {
		k.answer(k.put(s, meta))
		return
	}
	first, second := k.put(s, meta), k.put(s, meta)
	k.at += 0.4
	k.answer(second)
	k.answer(first)
}

// put asks and returns what the answer will be.
func (k *talk) put(s, meta string) string {
	k.ask++
	method, params := "elicitation/create", fmt.Sprintf(`{"message":"Question %d","requestedSchema":{"type":"object","properties":{}}%s}`, k.ask, meta)
	answer := `{"action":"accept","content":{"v":1.0}}`
	if k.rng.IntN(3) == 0 {
		method, params = "sampling/createMessage", fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":"q%d"}}],"maxTokens":10%s}`, k.ask, meta)
		answer = `{"role":"assistant","content":{"type":"text","text":"a"},"model":"m"}`
	}
	k.line("<", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":"ask-%d","method":%q,"params":%s}`, k.ask, method, params))
	answer = strings.ReplaceAll(answer, "1.0", strconv.Itoa(k.ask)+".0")
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"ask-%d","result":%s}`, k.ask, answer)
}

func (k *talk) answer(text string) {
	k.pass()
	a := k.stream()
	k.line(">", a, text)
	k.line("<", a, "202")
	k.pass()
}

func (k *talk) call() {
	k.id++
	s, id := k.stream(), k.id
	meta := ""
	if k.rng.IntN(2) == 0 {
		meta = fmt.Sprintf(`,"_meta":{"progressToken":"t%d"}`, id)
	}
	k.line(">", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"plain","arguments":%s%s}}`, id, k.arguments(), meta))
	k.pass()
	for range k.rng.IntN(3) {
		if meta != "" && k.rng.IntN(2) == 0 {
			k.names++
			k.line("<", s, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t%d","progress":%d}}`, id, k.names))
			k.pass()
		} else {
			k.question(s, "")
		}
	}
	k.ends(s, id)
}

func (k *talk) task() {
	k.id++
	s, id := k.stream(), k.id
	task := fmt.Sprintf("T-%d", id)
	k.line(">", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"job","arguments":%s,"task":{}}}`, id, k.arguments()))
	k.pass()
	body := `"taskId":"` + task + `","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z","ttl":600000,"pollInterval":700`
	k.line("<", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"task":{%s,"status":"working"}}}`, id, body))
	for range k.rng.IntN(3) {
		k.pass()
		k.id++
		p := k.stream()
		k.line(">", p, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tasks/get","params":{"taskId":"%s"}}`, k.id, task))
		k.line("<", p, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{%s,"status":"working"}}`, k.id, body))
	}
	k.pass()
	k.id++
	s, id = k.stream(), k.id
	if k.rng.IntN(6) == 0 {
		k.line(">", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tasks/cancel","params":{"taskId":"%s"}}`, id, task))
		k.line("<", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{%s,"status":"cancelled"}}`, id, body))
		return
	}
	k.line(">", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tasks/result","params":{"taskId":"%s"}}`, id, task))
	k.pass()
	related := `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + task + `"}}`
	for range k.rng.IntN(3) {
		k.question(s, related)
	}
	result := []string{`{"content":[{"type":"text","text":"done"}]` + related + `}`, `{"content":[{"type":"text","text":"broken"}],"isError":true` + related + `}`}[k.rng.IntN(2)]
	k.line("<", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result))
}

func (k *talk) other() {
	k.id++
	s, id := k.stream(), k.id
	c := [][2]string{
		{`"prompts/get","params":{"name":"p","arguments":{"a":"b"}}`, `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}]}`},
		{`"resources/read","params":{"uri":"file:///a"}`, `{"contents":[{"uri":"file:///a","text":"1.0"}]}`},
		{`"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}`, `{"completion":{"values":["b1"],"total":1}}`},
		{`"resources/templates/list"`, `{"resourceTemplates":[{"uriTemplate":"x://{a}","name":"n"}]}`},
	}[k.rng.IntN(4)]
	k.line(">", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%s}`, id, c[0]))
	k.pass()
	k.line("<", s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, c[1]))
}

// TestThereAndBack: a conversation translated and translated back asks the same
// of the same server, in the same bytes, and hears the same.
func TestThereAndBack(t *testing.T) {
	first, n := uint64(1), uint64(40)
	if os.Getenv("TASKBRIDGE_E2E") == "full" {
		n = 2000
	}
	if s := os.Getenv("SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
		n = 1
	}
	for seed := first; seed < first+n; seed++ {
		records := script(t, madeUp(seed, 8))
		there, r1 := translated(t, records, "2026-07-28")
		back, r2 := translated(t, there, "2025-11-25")
		if wrong := differences(gathered(records), gathered(back)); len(wrong) > 0 || r1.Unfinished+r2.Unfinished+r1.Misses+r2.Misses > 0 {
			t.Errorf("seed %d: %v\n%+v\n%+v", seed, strings.Join(wrong, "\n"), r1, r2)
			if n == 1 {
				t.Logf("\n%s\n---\n%s\n---\n%s", show(records), show(there), show(back))
			}
		}
	}
}

// told are the operations a user started, by what they ask.
func told(ops []*operation.Operation) []*operation.Operation {
	return slices.DeleteFunc(slices.Clone(ops), func(op *operation.Operation) bool {
		return op.Kind != operation.Call && op.Kind != operation.Task
	})
}

func differences(was, is []*operation.Operation) (wrong []string) {
	was, is = told(was), told(is)
	byQuestion := func(a, b operation.Question) int {
		return strings.Compare(string(plain(a.Params)), string(plain(b.Params)))
	}
	for _, op := range slices.Concat(was, is) { // those asked at once have no order
		slices.SortStableFunc(op.Questions, byQuestion)
	}
	if len(was) != len(is) {
		return []string{fmt.Sprintf("%d operations became %d", len(was), len(is))}
	}
	say := func(op *operation.Operation, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s %s: ", op.Method, op.Name)+fmt.Sprintf(format, args...))
	}
	for i, a := range was {
		b := is[i]
		if wanted(a) != wanted(b) {
			say(a, "params %s became %s", wanted(a), wanted(b))
		}
		if a.Kind != b.Kind || a.Outcome != b.Outcome {
			say(a, "%s %s became %s %s", a.Kind, a.Outcome, b.Kind, b.Outcome)
		}
		if !jsonrpc.Equal(a.Error, b.Error) && len(a.Error)+len(b.Error) > 0 && a.Outcome != operation.Cancelled {
			say(a, "error %s became %s", a.Error, b.Error)
		}
		if string(a.Result) != string(b.Result) && !(a.Result != nil && b.Result != nil && jsonrpc.Equal(a.Result, b.Result)) {
			say(a, "result %s became %s", a.Result, b.Result)
		}
		if len(a.Questions) != len(b.Questions) {
			say(a, "%d questions became %d", len(a.Questions), len(b.Questions))
			continue
		}
		for j := range a.Questions {
			p, q := a.Questions[j], b.Questions[j]
			if p.Method != q.Method || string(plain(p.Answer)) != string(plain(q.Answer)) {
				say(a, "question %s %s %s became %s %s %s", p.Method, p.Params, p.Answer, q.Method, q.Params, q.Answer)
			}
		}
	}
	return wrong
}

// plain is an answer without what names its task.
func plain(raw []byte) []byte {
	v, err := jsonrpc.ParseValue(raw)
	if err != nil {
		return raw
	}
	e := v.Edit()
	e.Delete(v.Get("_meta"))
	return e.Bytes()
}

// wanted is what a request asks, byte for byte.
func wanted(op *operation.Operation) string { return requestKey(op.Parts[0].Msg) }

// FuzzTranslate: whatever a capture holds, translating it ends and says nothing
// that is no message.
func FuzzTranslate(f *testing.F) {
	for seed := range uint64(6) {
		f.Add(madeUp(seed, 4), 0, "", true)
	}
	f.Fuzz(func(t *testing.T, text string, at int, put string, legacy bool) {
		if len(text) > 20000 {
			t.Skip()
		}
		if at >= 0 && at < len(text) {
			text = text[:at] + put + text[min(len(text), at+len(put)):]
		}
		to := "2026-07-28"
		if !legacy {
			to = "2025-11-25"
		}
		records := loose(text)
		var out []*capture.Record
		_, err := Translate(context.Background(), TranslateOptions{
			Operations: gathered(records), To: to, Grace: 5 * time.Second,
			Out: func(r *capture.Record) error { out = append(out, r); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range out {
			if r.Msg == nil {
				continue
			}
			if _, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{}); err != nil {
				t.Fatalf("%v: %q", err, r.Msg)
			}
		}
	})
}

func seconds2(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// loose reads lines as script does, leaving out what it cannot read.
func loose(text string) []*capture.Record {
	var records []*capture.Record
	for line := range strings.SplitSeq(text, "\n") {
		f := strings.SplitN(line, " ", 4)
		if len(f) < 4 {
			continue
		}
		seconds, err := strconv.ParseFloat(f[0], 64)
		if err != nil || seconds < 0 || seconds > 60 {
			continue
		}
		r := &capture.Record{Time: began.Add(seconds2(seconds)), Leg: translate.ClientLeg, Dir: translate.ToClient, Transport: "http", Stream: f[2], Session: "s", Status: 200}
		if f[1] == ">" {
			r.Dir, r.Verb, r.Status = translate.ToServer, "POST", 0
		}
		if strings.HasPrefix(f[3], "{") {
			r.Msg = []byte(f[3])
		}
		records = append(records, r)
	}
	return records
}
