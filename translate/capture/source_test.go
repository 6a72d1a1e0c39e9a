package capture

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

func zipped(t *testing.T, text string) []byte { return zipBytes(t, text) }

func zipBytes(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readAll reads r to its end: how many records, how many lines that could not
// be read, and what ended it.
func readAll(t *testing.T, r io.Reader) (records, bad int, s Source, last error) {
	t.Helper()
	s, err := NewAnyReader(r)
	if err != nil {
		return 0, 0, nil, err
	}
	for {
		_, err := s.Next()
		if _, ok := errors.AsType[*FormatError](err); ok {
			if bad++; bad > 1000 {
				t.Fatal("reading never ends")
			}
			continue
		}
		if err != nil {
			return records, bad, s, err
		}
		records++
	}
}

func TestAnyForm(t *testing.T) {
	plain := written(t, sample(), true)
	for name, data := range map[string][]byte{"plain": []byte(plain), "gzip": zipped(t, plain)} {
		n, bad, s, err := readAll(t, bytes.NewReader(data))
		if n != len(sample()) || bad != 0 || err != io.EOF || s.End() == nil || s.Header().By != "taskbridge test" {
			t.Errorf("%s: %d records, %d bad, ended by %v", name, n, bad, err)
		}
	}
}

// Wherever recording was cut short, what came before is read, and that
// something is missing is said: no line of it counts as a bad one.
func TestCutAnywhere(t *testing.T) {
	plain := written(t, sample(), true)
	header := strings.IndexByte(plain, '\n') + 1
	for cut := header; cut < len(plain)-1; cut++ {
		n, bad, _, err := readAll(t, strings.NewReader(plain[:cut]))
		if lines := strings.Count(plain[:cut], "\n") - 1; n < lines || n > lines+1 || bad != 0 || err != ErrNotWhole {
			t.Errorf("cut at %d: %d records of %d, %d bad, ended by %v", cut, n, lines, bad, err)
		}
	}
	z := zipped(t, plain)
	for cut := 2; cut < len(z); cut++ {
		_, bad, s, err := readAll(t, bytes.NewReader(z[:cut]))
		whole := s != nil && s.End() != nil // all but the checksum is there
		if _, ok := errors.AsType[*FormatError](err); bad != 0 || !whole && err != ErrNotWhole && !ok {
			t.Errorf("compressed, cut at %d: %d bad, ended by %v", cut, bad, err)
		}
	}
}

func TestDamagedGzip(t *testing.T) {
	z := zipped(t, written(t, sample(), true))
	for i := 10; i < len(z); i++ {
		data := bytes.Clone(z)
		data[i] ^= 0x55
		// Whatever it says, it ends and is no surprise.
		_, _, _, err := readAll(t, bytes.NewReader(data))
		if _, ok := errors.AsType[*FormatError](err); !ok && err != io.EOF && err != ErrNotWhole {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	_, _, _, err := readAll(t, strings.NewReader("\x1f\x8bno gzip"))
	if err == nil || err.Error() != "line 1: the compressed file is damaged from here on" {
		t.Errorf("got %v", err)
	}
}
