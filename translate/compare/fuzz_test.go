package compare_test

import (
	"slices"
	"strings"
	"testing"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/capture/capturetest"
	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

func lineRecords(file string) (out []*capture.Record) {
	for line := range strings.SplitSeq(file, "\n") {
		if r, _, err := capture.ParseLine([]byte(line)); err == nil {
			out = append(out, &r)
		}
	}
	return out
}

// FuzzCompare: any two captures can be compared, and one is the same as itself.
func FuzzCompare(f *testing.F) {
	seeds := []string{sessions("A"), crossLegacy, crossModern}
	for _, a := range seeds {
		for _, b := range seeds {
			f.Add(string(capturetest.File(a)), string(capturetest.File(b)))
		}
	}
	ignore, err := compare.ParseIgnore("$..[0]")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		left := operation.Gather(slices.Values(lineRecords(a)), translate.ClientLeg)
		right := operation.Gather(slices.Values(lineRecords(b)), translate.ClientLeg)
		r := compare.Captures(left, right, threshold)
		if len(r.Pairs)+len(r.Skipped) < max(len(left), len(right)) {
			t.Errorf("%d pairs and %d left out of %d and %d operations", len(r.Pairs), len(r.Skipped), len(left), len(right))
		}
		for _, d := range differences(r) {
			if d.Kind == "" || d.Severity == "" || d.Text == "" || !strings.HasPrefix(d.Path, "$") {
				t.Errorf("%+v", d)
			}
			// The path of a difference is one that can be ignored.
			if _, err := compare.ParseIgnore(d.Path); err != nil {
				t.Error(err)
			}
		}
		same := compare.Captures(left, operation.Gather(slices.Values(lineRecords(a)), translate.ClientLeg), threshold)
		if found := differences(same); same.Verdict() != compare.Same || len(found) > 0 {
			t.Errorf("not the same as itself: %s", list(found))
		}
		compare.Captures(left, right, compare.Options{Ignore: []compare.Ignore{ignore}, IgnoreNumberSpelling: true})
	})
}
