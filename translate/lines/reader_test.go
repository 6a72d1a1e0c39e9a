package lines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// drain reads all lines; errors that do not end reading are lines too.
func drain(r *Reader) (out []string, end error) {
	for {
		line, err := r.Next()
		tooLong := &TooLong{}
		switch {
		case errors.As(err, &tooLong):
			out = append(out, fmt.Sprintf("too long id=%s call=%v busy=%v endless=%v", tooLong.ID, tooLong.Call, tooLong.Busy, tooLong.Endless))
			if tooLong.Endless {
				return out, err
			}
		case err != nil:
			return out, err
		default:
			out = append(out, string(line))
		}
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"lines", "{}\n[]\n", []string{"{}", "[]"}},
		{"CRLF and blank lines", "\r\n{}\r\n\n  \n[]\r\n", []string{"{}", "[]"}},
		{"last line without end", "{}\n[1]", []string{"{}", "[1]"}},
		{"a CR inside stays", "{\r}\n", []string{"{\r}"}},
		{"exactly the limit", strings.Repeat("a", 32) + "\n", []string{strings.Repeat("a", 32)}},
		{"exactly the limit, CRLF", strings.Repeat("a", 32) + "\r\nb\n", []string{strings.Repeat("a", 32), "b"}},
		{"one over, short id", `{"id":7,"a":"` + strings.Repeat("a", 20) + "\"}\nb\n", []string{"too long id=7 call=false busy=false endless=false", "b"}},
		{"id at the end", `{"a":"` + long + `","id":"q\"]}","method":"x"}` + "\nb", []string{`too long id="q\"]}" call=true busy=false endless=false`, "b"}},
		{"only the top level counts", `{"params":{"id":1,"method":"m","a":["` + long + `",{"id":2}]},"id" : 3 }` + "\nb", []string{"too long id=3 call=false busy=false endless=false", "b"}},
		{"escaped key", `{"\u0069d":4,"a":"` + long + `"}` + "\n", []string{"too long id=4 call=false busy=false endless=false"}},
		{"two ids", `{"id":4,"a":"` + long + `","id":5}` + "\n", []string{"too long id= call=false busy=false endless=false"}},
		{"id of another kind", `{"id":[4],"a":"` + long + `"}` + "\n", []string{"too long id= call=false busy=false endless=false"}},
		{"a value that looks like a key", `{"a":"id","id":6,"b":"` + long + `"}` + "\n", []string{"too long id=6 call=false busy=false endless=false"}},
		{"no JSON", long + "\n{}\n", []string{"too long id= call=false busy=false endless=false", "{}"}},
		{"too long and unended", `{"id":8,"a":"` + long, []string{"too long id=8 call=false busy=false endless=false"}},
	} {
		for _, how := range []struct {
			name string
			wrap func(io.Reader) io.Reader
		}{
			{"whole", func(r io.Reader) io.Reader { return r }},
			{"bytes", iotest.OneByteReader},
			{"error with data", iotest.DataErrReader},
		} {
			t.Run(c.name+"/"+how.name, func(t *testing.T) {
				got, err := drain(NewReader(how.wrap(strings.NewReader(c.in)), Options{Limit: 32}))
				if err != io.EOF {
					t.Errorf("ended with %v", err)
				}
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("got  %q\nwant %q", got, c.want)
				}
			})
		}
	}
}

// endlessReader never ends a line.
type endlessReader struct{ read int }

func (e *endlessReader) Read(p []byte) (int, error) {
	n := copy(p, bytes.Repeat([]byte{'x'}, len(p)))
	e.read += n
	return n, nil
}

func TestReader_Endless(t *testing.T) {
	src := &endlessReader{}
	in := io.MultiReader(strings.NewReader(`{"id":1,"a":"`), src)
	discarding := 0
	r := NewReader(in, Options{Limit: 1 << 20, Discarding: func(on bool) {
		if on {
			discarding++
		} else {
			discarding--
		}
	}})
	_, err := r.Next()
	tooLong := &TooLong{}
	if !errors.Is(err, ErrEndless) || !errors.As(err, &tooLong) || tooLong.ID.String() != "1" {
		t.Fatalf("got %#v", err)
	}
	if discarding != 0 {
		t.Errorf("discarding is %d at the end", discarding)
	}
	if _, err := r.Next(); !errors.Is(err, ErrEndless) {
		t.Errorf("went on with %v", err)
	}
	if src.read > 5<<20 {
		t.Errorf("read %d bytes", src.read)
	}
}

func TestReader_Room(t *testing.T) {
	var used, most int64
	o := Options{
		Limit: 8 << 20,
		Room: func(n int64) bool {
			if used+n > 1<<20 {
				return false
			}
			used += n
			most = max(most, used)
			return true
		},
		Give: func(n int64) { used -= n },
	}
	pad := func(n int) string { return strings.Repeat("x", n) }
	in := `{"id":1,"a":"` + pad(500<<10) + "\"}\n" + `{"id":2,"a":"` + pad(3<<20) + "\"}\n" + "{}\n"
	r := NewReader(strings.NewReader(in), o)
	line, err := r.Next()
	if err != nil || len(line) < 500<<10 || used == 0 {
		t.Fatalf("%d bytes, %v, %d used", len(line), err, used)
	}
	_, err = r.Next()
	tooLong := &TooLong{}
	if !errors.As(err, &tooLong) || !tooLong.Busy || tooLong.ID.String() != "2" {
		t.Fatalf("got %#v", err)
	}
	if line, err = r.Next(); err != nil || string(line) != "{}" {
		t.Fatalf("%q %v", line, err)
	}
	r.Close()
	if used != 0 || most == 0 {
		t.Errorf("%d still used, at most %d", used, most)
	}
}

// TestReader_LinesAreTheCallers: what was given out does not change.
func TestReader_LinesAreTheCallers(t *testing.T) {
	var in strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&in, "%d%s\n", i, strings.Repeat("y", i*7%9000))
	}
	r := NewReader(strings.NewReader(in.String()), Options{Limit: 1 << 20})
	var got [][]byte
	for {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	var back strings.Builder
	for _, l := range got {
		back.Write(l)
		back.WriteByte('\n')
	}
	if back.String() != in.String() {
		t.Error("lines changed after they were given out")
	}
}

// FuzzReader: any chunking gives the same lines, and what is not too long is
// what a split at line ends gives.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{}\n[]\r\n\n{\"id\":1}"), uint8(3))
	f.Add([]byte(`{"id":"a\"b","method":"m","p":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`+"\n{}"), uint8(1))
	f.Add([]byte(strings.Repeat("x", 400)), uint8(7))
	f.Fuzz(func(t *testing.T, in []byte, chunk uint8) {
		const limit = 40
		whole, end := drain(NewReader(bytes.NewReader(in), Options{Limit: limit}))
		pieces, endPieces := drain(NewReader(&chunked{in, int(chunk)%13 + 1}, Options{Limit: limit}))
		if errors.Is(end, ErrEndless) || errors.Is(endPieces, ErrEndless) {
			return // where it is given up depends on the pieces
		}
		if fmt.Sprint(whole) != fmt.Sprint(pieces) {
			t.Errorf("in pieces of %d: %q\nwhole: %q", int(chunk)%13+1, pieces, whole)
		}
		i := 0
		for line := range bytes.SplitSeq(in, []byte{'\n'}) {
			line = bytes.TrimSuffix(line, []byte{'\r'})
			if len(line) <= limit && len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if i == len(whole) || len(line) <= limit && whole[i] != string(line) || len(line) > limit && !strings.HasPrefix(whole[i], "too long") {
				t.Fatalf("line %d of %q: want %q", i, whole, line)
			}
			i++
		}
		if i != len(whole) {
			t.Errorf("%d lines, want %d", len(whole), i)
		}
	})
}

type chunked struct {
	rest []byte
	n    int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest[:min(c.n, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}
