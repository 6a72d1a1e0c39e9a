package translate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"taskbridge/translate/jsonrpc"
)

// same compares two JSON texts as values and refuses repeated members.
func same(t testing.TB, what string, got []byte, want string) {
	t.Helper()
	if _, err := jsonrpc.ParseValue(got); err != nil {
		t.Errorf("%s: %v in %s", what, err, got)
		return
	}
	if !jsonrpc.Equal(got, []byte(want)) {
		t.Errorf("%s\n got %s\nwant %s", what, got, want)
	}
}

// result decodes a response around raw.
func result(t testing.TB, raw string) *jsonrpc.Message {
	t.Helper()
	return decode(t, `{"jsonrpc":"2.0","id":1,"result":`+raw+`}`)
}

// inner is the result of a message that a rule made.
func inner(t testing.TB, raw []byte) []byte {
	t.Helper()
	m := decode(t, string(raw))
	if m.Kind != jsonrpc.Response {
		t.Fatalf("no result in %s", raw)
	}
	return m.Result().Raw()
}

// params are the params of a request, as the decoder records them.
func params(t testing.TB, method, raw string) jsonrpc.Value {
	t.Helper()
	return decode(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+raw+`}`).Params()
}

func value(t testing.TB, raw string) jsonrpc.Value {
	t.Helper()
	v, err := jsonrpc.ParseValue([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// constants reads the values of all string constants of a type from a file of
// this package, so that a new one without a row in its table is found.
func constants(t *testing.T, file, typeName string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typeName {
			return true
		}
		for _, v := range spec.Values {
			if lit, ok := v.(*ast.BasicLit); ok {
				s, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, s)
			}
		}
		return true
	})
	if len(out) == 0 {
		t.Fatalf("no constants of type %s in %s", typeName, file)
	}
	return out
}

func payloadToLegacy(result jsonrpc.Value, taskID string) []byte {
	raw, _ := PayloadToLegacy(result, taskID)
	return raw
}
