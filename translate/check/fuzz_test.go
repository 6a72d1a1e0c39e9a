package check

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate/capture"
)

// FuzzCheck: whatever stands in a capture, looking at it ends, with findings in
// the order of the lines that have a rule and somebody at fault.
func FuzzCheck(f *testing.F) {
	for _, c := range slices.Concat(legacyCases, taskCases, modernCases) {
		for _, text := range []string{c.broken, c.kept} {
			var b bytes.Buffer
			w, err := capture.NewWriter(&b, capture.Header{By: "taskbridge"})
			if err != nil {
				f.Fatal(err)
			}
			for _, r := range script(f, text) {
				if r.Msg != nil && bytes.ContainsAny(r.Msg, "\n") {
					continue
				}
				if err := w.Write(r); err != nil {
					f.Fatal(err)
				}
			}
			_, rest, _ := strings.Cut(b.String(), "\n")
			f.Add([]byte(rest), false)
		}
	}
	f.Fuzz(func(t *testing.T, lines []byte, direct bool) {
		head := `{"capture":"taskbridge-capture","format":1,"by":"taskbridge"}` + "\n"
		src, err := capture.NewReader(io.MultiReader(strings.NewReader(head), bytes.NewReader(lines)))
		if err != nil {
			t.Fatal(err)
		}
		c := New(Options{Direct: direct}, func(f Finding) {
			if f.Rule == nil || f.Severity == 0 || f.Side == "" || f.Line == 0 || f.Message == "" || direct && f.Side == Proxy {
				t.Errorf("%+v", f)
			}
		})
		if err := c.Capture(src, nil); err != nil {
			t.Fatal(err)
		}
	})
}
