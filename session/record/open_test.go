package record

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const small = `{"capture":"taskbridge-capture","format":1,"created":"2026-11-30T10:00:00Z"}
{"time":"2026-11-30T10:00:00Z","leg":"client","dir":"to-server","msg":{"jsonrpc":"2.0","method":"x"}}
{"end":{"records":1,"dropped":0}}
`

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.jsonl")
	if err := os.WriteFile(name, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{name, "-"} {
		f, err := Open(from, strings.NewReader(small))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := f.Next(); err != nil || string(r.Msg) != `{"jsonrpc":"2.0","method":"x"}` {
			t.Errorf("%s: %s %v", from, r.Msg, err)
		}
		if _, err := f.Next(); err != io.EOF {
			t.Errorf("%s: %v", from, err)
		}
		read, size := f.Progress()
		if want := int64(len(small)); read != want || from != "-" && size != want {
			t.Errorf("%s: read %d of %d", from, read, size)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open("-", strings.NewReader("x")); err == nil || !strings.HasPrefix(err.Error(), "standard input: line 1: ") {
		t.Errorf("got %v", err)
	}
	for _, missing := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := Open(missing, nil); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s: %v", missing, err)
		}
	}
}
