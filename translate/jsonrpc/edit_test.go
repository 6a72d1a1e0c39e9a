package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEdit(t *testing.T) {
	del := func(keys ...string) func(*Edit, Value) {
		return func(e *Edit, v Value) {
			for _, key := range keys {
				e.Delete(v.Get(key))
			}
		}
	}
	one := []byte("1")
	for _, c := range []struct {
		name, in string
		edit     func(*Edit, Value)
		want     string
	}{
		{"nothing", ` {"a":1} `, func(*Edit, Value) {}, `{"a":1}`},
		{"delete first", `{"a":1,"b":2,"c":3}`, del("a"), `{"b":2,"c":3}`},
		{"delete middle", `{"a":1,"b":2,"c":3}`, del("b"), `{"a":1,"c":3}`},
		{"delete last", `{"a":1,"b":2,"c":3}`, del("c"), `{"a":1,"b":2}`},
		{"delete first two", `{"a":1,"b":2,"c":3}`, del("b", "a"), `{"c":3}`},
		{"delete last two", `{"a":1,"b":2,"c":3}`, del("c", "b"), `{"a":1}`},
		{"delete outer two", `{"a":1,"b":2,"c":3}`, del("a", "c"), `{"b":2}`},
		{"delete all", `{"a":1,"b":2,"c":3}`, del("a", "b", "c"), `{}`},
		{"delete the only one", `{ "a" : 1 }`, del("a"), `{ }`},
		{"delete twice", `{"a":1,"b":2}`, del("a", "a"), `{"b":2}`},
		{"delete the absent", `{"a":1}`, del("z"), `{"a":1}`},
		{"delete keeps white space", "{\n  \"a\": 1 ,\n  \"b\": {} ,\n  \"c\": 3\n}", del("b"), "{\n  \"a\": 1  ,\n  \"c\": 3\n}"},
		{"delete first keeps white space", "{\n  \"a\": 1 ,\n  \"b\": 2\n}", del("a"), "{\n  \"b\": 2\n}"},
		{"delete last keeps white space", "{\n  \"a\": 1,\n  \"b\": 2\n}", del("b"), "{\n  \"a\": 1\n}"},
		{"delete the root", `{"a":1}`, func(e *Edit, v Value) { e.Delete(v) }, `{"a":1}`},
		{"replace", `{"a": 1 ,"b":{"c":[]}}`, func(e *Edit, v Value) {
			e.Replace(v.Get("a"), []byte(`{"x":2}`))
			e.Replace(v.Get("b").Get("c"), []byte("null"))
		}, `{"a": {"x":2} ,"b":{"c":null}}`},
		{"replace twice", `{"a":0}`, func(e *Edit, v Value) {
			e.Replace(v.Get("a"), []byte("5"))
			e.Replace(v.Get("a"), one)
		}, `{"a":1}`},
		{"replace the root", `[1,2]`, func(e *Edit, v Value) { e.Replace(v, one) }, `1`},
		{"rename", `{ "a" :1,"b":2}`, func(e *Edit, v Value) {
			e.Rename(v.Get("a"), `x"y`)
			e.Rename(v.Get("b"), "z")
		}, `{ "x\"y" :1,"z":2}`},
		{"rename and replace", `{"a":0}`, func(e *Edit, v Value) {
			e.Replace(v.Get("a"), one)
			e.Rename(v.Get("a"), "b")
		}, `{"b":1}`},
		{"rename and edit inside", `{"a":{"b":0}}`, func(e *Edit, v Value) {
			e.Replace(v.Get("a").Get("b"), one)
			e.Rename(v.Get("a"), "c")
		}, `{"c":{"b":1}}`},
		{"rename and delete", `{"a":0,"b":1}`, func(e *Edit, v Value) {
			e.Rename(v.Get("a"), "c")
			e.Delete(v.Get("a"))
		}, `{"b":1}`},
		{"insert into empty", `{ }`, func(e *Edit, v Value) { e.Insert(v, "a", one) }, `{"a":1 }`},
		{"insert", "{\"a\":0\n}", func(e *Edit, v Value) { e.Insert(v, "b", one); e.Insert(v, "c", []byte("{}")) }, "{\"a\":0,\"b\":1,\"c\":{}\n}"},
		{"insert into nested", `{"a":{"b":{}},"c":0}`, func(e *Edit, v Value) {
			e.Insert(v.Get("a").Get("b"), "x", one)
			e.Insert(v, "y", one)
			e.Insert(v.Get("a"), "z", one)
		}, `{"a":{"b":{"x":1},"z":1},"c":0,"y":1}`},
		{"insert after deleting all", `{"a":0,"b":0}`, func(e *Edit, v Value) {
			e.Insert(v, "c", one)
			e.Delete(v.Get("a"))
			e.Delete(v.Get("b"))
		}, `{"c":1}`},
		{"insert after deleting the last", `{"a":0, "b":0 }`, func(e *Edit, v Value) {
			e.Delete(v.Get("b"))
			e.Insert(v, "c", one)
		}, `{"a":0,"c":1 }`},
		{"insert into a scalar", `{"a":"{}"}`, func(e *Edit, v Value) {
			if e.Insert(v.Get("a"), "c", one) || e.Insert(Value{}, "c", one) {
				panic("inserted")
			}
		}, `{"a":"{}"}`},
		{"set", `{"a":0}`, func(e *Edit, v Value) { e.Set(v, "a", one); e.Set(v, "b", one) }, `{"a":1,"b":1}`},
		{"edits inside the deleted", `{"a":{"b":{"c":0}},"d":0}`, func(e *Edit, v Value) {
			e.Rename(v.Get("a").Get("b").Get("c"), "x")
			e.Insert(v.Get("a"), "y", one)
			e.Delete(v.Get("a").Get("b"))
			e.Delete(v.Get("a"))
			e.Replace(v.Get("d"), one)
		}, `{"d":1}`},
		{"edits inside the replaced", `{"a":{"b":{"c":0}},"d":0}`, func(e *Edit, v Value) {
			e.Insert(v.Get("a").Get("b"), "y", one)
			e.Replace(v.Get("a"), one)
			e.Insert(v.Get("a"), "z", one)
			e.Replace(v.Get("d"), one)
		}, `{"a":1,"d":1}`},
		{"array elements", `{"a":[ 1, {"b":0} ,3]}`, func(e *Edit, v Value) {
			i := 0
			for el := range v.Get("a").Elems() {
				if i != 1 {
					e.Delete(el)
				}
				e.Rename(el, "no key")
				e.Insert(el, "c", one)
				i++
			}
		}, `{"a":[ {"b":0,"c":1} ]}`},
	} {
		v := parse(t, c.in)
		e := v.Edit()
		c.edit(e, v)
		if got := string(e.Bytes()); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if got := string(e.Bytes()); got != c.want {
			t.Errorf("%s, a second time: got %s", c.name, got)
		}
	}
}

func TestEditMessage(t *testing.T) {
	const raw = " {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"arguments\":{ \"x\":1.0 }, \"task\":{}}}\n"
	m := mustDecode(t, raw)
	e := m.Edit()
	if got := e.Bytes(); string(got) != raw || &got[0] != &m.Raw[0] {
		t.Errorf("untouched: %s", got)
	}
	e.Delete(m.At("params", "task"))
	e.Insert(m.At("params", "arguments"), "y", []byte("2")) // untracked, yet an object
	want := " {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"arguments\":{ \"x\":1.0,\"y\":2 }}}\n"
	if got := string(e.Bytes()); got != want {
		t.Errorf("got %s", got)
	}
	params := m.Params().Edit()
	params.Delete(m.At("params", "arguments"))
	if got := string(params.Bytes()); got != `{ "task":{}}` {
		t.Errorf("params: %s", got)
	}
	if got := (Value{}).Edit().Bytes(); len(got) != 0 {
		t.Errorf("absent: %s", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an edit of another message's value passes")
		}
	}()
	e.Delete(mustDecode(t, raw).Params())
}

func TestSpliceTask(t *testing.T) {
	got := spliceTask(mustDecode(t, string(taskResponse)))
	want := strings.NewReplacer(`"resultType":"complete","taskId"`, `"taskId"`, `"status":"completed"`, `"status":"working"`, "ttlMs", "ttl", "pollIntervalMs", "pollInterval").Replace(string(taskResponse))
	i := strings.Index(want, `,"result":{"resultType"`)
	j := strings.Index(want, `,"_meta":{"io.modelcontextprotocol`)
	want = want[:i] + want[j:]
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !Equal(got, spliceWithMaps(bytes.Replace(taskResponse, []byte("9223372036854775807"), []byte("1"), 1))) {
		t.Error("encoding/json makes something else of it")
	}
}

// model renders a value with edits applied, without white space.
type model struct {
	deleted  map[uint32]bool
	replaced map[uint32]string
	renamed  map[uint32]string
	inserted map[uint32]string
}

func (md *model) render(v Value) string {
	if raw, ok := md.replaced[v.i]; ok {
		return raw
	}
	if v.Type() != Object && v.Type() != Array {
		return string(v.Raw())
	}
	var parts []string
	for m := range v.children() {
		if md.deleted[m.i] {
			continue
		}
		key := string(v.d.raw[m.node().keyStart:m.node().keyEnd])
		if name, ok := md.renamed[m.i]; ok {
			key = string(Quote(name))
		}
		if v.Type() == Object {
			key += ":"
		}
		parts = append(parts, key+md.render(m))
	}
	if ins, ok := md.inserted[v.i]; ok {
		parts = append(parts, strings.TrimPrefix(ins, ","))
	}
	open, shut := "{", "}"
	if v.Type() == Array {
		open, shut = "[", "]"
	}
	return open + strings.Join(parts, ",") + shut
}

// applyRandom makes one edit per byte of plan on the values of root, in the model
// as well.
func applyRandom(e *Edit, md *model, root Value, plan []byte) {
	var all []Value
	var collect func(v Value)
	collect = func(v Value) {
		all = append(all, v)
		for m := range v.children() {
			collect(m)
		}
	}
	collect(root)
	for n, b := range plan {
		v := all[(int(b>>2)+n*7)%len(all)]
		name, raw := fmt.Sprintf("n%d", n), fmt.Sprintf(`{"r":%d}`, n)
		switch b & 3 {
		case 0:
			if e.Delete(v); v.i != root.i {
				md.deleted[v.i] = true
			}
		case 1:
			e.Replace(v, []byte(raw))
			md.replaced[v.i] = raw
		case 2:
			if e.Rename(v, name); v.i != root.i && v.node().keyEnd > 0 {
				md.renamed[v.i] = name
			}
		case 3:
			if e.Insert(v, name, []byte(raw)) {
				md.inserted[v.i] += fmt.Sprintf(`,"%s":%s`, name, raw)
			}
		}
	}
}

// squeeze drops the white space between tokens.
func squeeze(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		end := i + 1
		if raw[i] == '"' {
			end, _, _ = scanString(raw, i)
		}
		if !isSpace(raw[i]) {
			out = append(out, raw[i:end]...)
		}
		i = end
	}
	return string(out)
}

// TestEditBig: pieces of any length are put together in order.
func TestEditBig(t *testing.T) {
	for _, n := range []int{bigPiece - 3, bigPiece, 3 * bigPiece} {
		big := func(c string) string { return `"` + strings.Repeat(c, n) + `"` }
		v := parse(t, `{"a":`+big("a")+`,"b":`+big("b")+`,"c":`+big("c")+`,"d":1}`)
		e := v.Edit()
		e.Rename(v.Get("a"), "A")
		e.Delete(v.Get("b"))
		e.Replace(v.Get("d"), []byte(big("d")))
		e.Insert(v, "e", []byte(big("e")))
		e.Insert(v, "f", []byte("2"))
		want := `{"A":` + big("a") + `,"c":` + big("c") + `,"d":` + big("d") + `,"e":` + big("e") + `,"f":2}`
		if got := string(e.Bytes()); got != want {
			t.Errorf("%d: got %d bytes, want %d", n, len(got), len(want))
		}
	}
}

// FuzzEdit: whatever is edited, the result is valid JSON, and but for white space
// it is what rendering the tree anew gives, untouched members byte for byte.
// TestEdit_Pieces: what is written out in parts is what Bytes gives, and long
// parts are the original's.
func TestEdit_Pieces(t *testing.T) {
	long := strings.Repeat("x", 2*bigPiece)
	raw := []byte(`{"jsonrpc":"2.0","id":"mine","method":"a","params":{"long":"` + long + `","_meta":{"progressToken":"p"},"more":"` + long + `"}}`)
	m, err := Decode(raw, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Edit().Pieces(); len(got) != 1 || &got[0][0] != &raw[0] {
		t.Errorf("%d pieces of what was not changed", len(got))
	}
	e := m.Edit()
	e.Replace(m.Root().Get("id"), []byte("7"))
	e.Replace(m.At("params", "_meta", "progressToken"), []byte("7"))
	pieces := e.Pieces()
	if got := bytes.Join(pieces, nil); !bytes.Equal(got, e.Bytes()) || !bytes.Contains(got, []byte(`"id":7,`)) {
		t.Errorf("%.60s… is not %.60s…", got, e.Bytes())
	}
	shared := 0
	for _, p := range pieces {
		if len(p) >= bigPiece {
			shared += len(p)
		}
	}
	if shared < 2*len(long) {
		t.Errorf("%d bytes in long pieces", shared)
	}
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte(`{"a":[1, {"b":1e5} ,"\ud83d"], "c" : {} ,"d":{"e":null}}`), []byte{0, 5, 9, 14, 3, 7, 28, 32})
	f.Add([]byte(`[ [ ], {"x": 1.0, "y":2} ]`), []byte{8, 12, 16, 3, 11})
	f.Add([]byte(`{"a":1,"b":2,"c":3}`), []byte{4, 3, 0, 8})
	f.Fuzz(func(t *testing.T, raw, plan []byte) {
		v, err := ParseValue(raw)
		if err != nil || len(plan) > 200 {
			return
		}
		md := &model{map[uint32]bool{}, map[uint32]string{}, map[uint32]string{}, map[uint32]string{}}
		e := v.Edit()
		applyRandom(e, md, v, plan)
		got := e.Bytes()
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("%s became %s", raw, got)
		}
		// The model is squeezed too: what it takes whole has white space inside.
		if want := squeeze([]byte(md.render(v))); squeeze(got) != want {
			t.Errorf("%s became %s, want %s", raw, got, want)
		}
	})
}
