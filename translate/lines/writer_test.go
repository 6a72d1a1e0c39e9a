package lines

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestWriter(t *testing.T) {
	big := strings.Repeat("x", 3*piece+7)
	for _, c := range []struct{ name, msg, want string }{
		{"small", `{"a":1}`, `{"a":1}`},
		// Case S36: the only bytes that may change.
		{"line ends between tokens", "{\r\n\"a\":\r1,\n\"b\":\"\\n\"}\n", `{"a":1,"b":"\n"}`},
		{"large", `{"a":"` + big + `"}`, `{"a":"` + big + `"}`},
		{"a whole piece", `"` + strings.Repeat("y", piece-2) + `"`, `"` + strings.Repeat("y", piece-2) + `"`},
		{"large, with line ends", "{\n\"a\":\n\"" + big + "\"\n}\r\n", `{"a":"` + big + `"}`},
		{"pieces of nothing", "[" + strings.Repeat("\n", 2*piece) + "]", "[]"},
	} {
		var out bytes.Buffer
		if err := NewWriter(&out).Write([]byte(c.msg)); err != nil || out.String() != c.want+"\n" {
			t.Errorf("%s: %v, %d bytes, want %d", c.name, err, out.Len(), len(c.want)+1)
		}
	}
}

// TestWriter_Parts: a message in parts is the same line.
func TestWriter_Parts(t *testing.T) {
	whole := []byte(`{"a":"` + strings.Repeat("x", 2*piece) + "\",\n\"b\":1}")
	for _, at := range []int{0, 1, piece - 1, piece, piece + 1, len(whole) - 3, len(whole)} {
		var one, two bytes.Buffer
		if err := NewWriter(&one).Write(whole); err != nil {
			t.Fatal(err)
		}
		if err := NewWriter(&two).Write(whole[:at], nil, whole[at:]); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one.Bytes(), two.Bytes()) {
			t.Errorf("in parts of %d and %d it is another line", at, len(whole)-at)
		}
	}
}

type fullWriter struct{ left int }

var errFull = errors.New("full")

func (f *fullWriter) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriter_Error(t *testing.T) {
	w := NewWriter(&fullWriter{left: piece + 1})
	if err := w.Write(bytes.Repeat([]byte{'x'}, 3*piece)); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}
