package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"taskbridge/translate/check"
)

// Findings writes what was found in a capture, in one of its forms. Text and
// JSON are written as findings come; JUnit and SARIF, which begin with what is
// known last, keep at most MaxKept findings and count the rest.
type Findings struct {
	// Capture names the file, Version this program's version.
	Capture, Version string

	form    string
	w       *bufio.Writer
	err     error
	kept    []check.Finding
	rest    int
	counts  map[string]int        // by rule
	sides   map[check.Side][4]int // by severity
	total   [4]int                // by severity
	written int
}

// MaxKept is the number of findings a SARIF file may have: common readers refuse
// more.
const MaxKept = 5000

// Forms are the forms a Findings can write.
var Forms = []string{"text", "json", "junit", "sarif"}

// NewFindings begins a report in one of Forms.
func NewFindings(w io.Writer, form, capture, version string) *Findings {
	f := &Findings{
		Capture: capture, Version: version, form: form, w: bufio.NewWriter(w),
		counts: map[string]int{}, sides: map[check.Side][4]int{},
	}
	if form == "json" {
		f.put(`{"capture":` + quoted(capture) + `,"findings":[`)
	}
	return f
}

// Add takes one finding.
func (f *Findings) Add(x check.Finding) {
	f.counts[x.Rule.ID]++
	side := f.sides[x.Side]
	side[x.Severity]++
	f.sides[x.Side] = side
	f.total[x.Severity]++
	switch f.form {
	case "text":
		f.put(textOf(&x))
	case "json":
		f.json(&x)
	default:
		if len(f.kept) >= MaxKept-1 {
			f.rest++
			return
		}
		f.kept = append(f.kept, x)
	}
	f.written++
}

func (f *Findings) put(s string) {
	if f.err == nil {
		_, f.err = f.w.WriteString(s)
	}
}

// Close writes what is left; records is how many were looked at.
func (f *Findings) Close(records int) error {
	switch f.form {
	case "text":
		f.put(f.summary(records))
	case "json":
		f.put("\n]," + f.jsonSummary(records) + "}\n")
	case "junit":
		f.fail(JUnit(f.w, f.suite()))
	case "sarif":
		f.fail(f.sarif())
	}
	f.fail(f.w.Flush())
	return f.err
}

func (f *Findings) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// place says where a finding is and who is at fault.
func place(x *check.Finding) string {
	var parts []string
	if x.Leg != 0 {
		parts = append(parts, x.Leg.String()+" leg")
	}
	switch x.Side {
	case check.Recording:
		parts = append(parts, "the recording")
	default:
		parts = append(parts, "the "+string(x.Side)+"'s fault")
	}
	if x.Method != "" {
		parts = append(parts, x.Method)
	}
	if x.Version != "" {
		parts = append(parts, x.Version)
	}
	return strings.Join(parts, ", ")
}

func textOf(x *check.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d: %s %s: %s", x.Line, x.Severity, x.Rule.ID, x.Message)
	if x.See > 0 {
		fmt.Fprintf(&b, " (see line %d)", x.See)
	}
	out := Text(b.String(), 2000) + "\n    " + Text(place(x), 400)
	if ref := x.Reference(); ref.URL != "" {
		out += "; " + ref.URL
	}
	return out + "\n"
}

func (f *Findings) summary(records int) string {
	all := f.total[check.Error] + f.total[check.Warning] + f.total[check.Note]
	if all == 0 {
		return fmt.Sprintf("%s: nothing found in %s\n", Text(f.Capture, 200), many(records, "record"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s in %s\n", Text(f.Capture, 200), bySeverity(f.total), many(records, "record"))
	for _, side := range []check.Side{check.Proxy, check.Client, check.Server, check.Recording} {
		if n, ok := f.sides[side]; ok {
			fmt.Fprintf(&b, "  %-10s %s\n", side, bySeverity(n))
		}
	}
	for _, id := range f.byCount() {
		fmt.Fprintf(&b, "  %6d  %s\n", f.counts[id], id)
	}
	return b.String()
}

func (f *Findings) byCount() []string {
	ids := slices.Collect(maps.Keys(f.counts))
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(f.counts[b], f.counts[a]), cmp.Compare(a, b))
	})
	return ids
}

func bySeverity(n [4]int) string {
	return many(n[check.Error], "error") + ", " + many(n[check.Warning], "warning") + ", " + many(n[check.Note], "note")
}

func many(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// quoted is a JSON string without anything a terminal would act on.
func quoted(s string) string {
	raw, err := json.Marshal(Text(s, 0))
	if err != nil {
		return `""`
	}
	return string(raw)
}

type jsonFinding struct {
	Line     int    `json:"line"`
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
	Leg      string `json:"leg,omitempty"`
	Side     string `json:"side"`
	See      int    `json:"see,omitempty"`
	Method   string `json:"method,omitempty"`
	Version  string `json:"version,omitempty"`
	Spec     string `json:"spec,omitempty"`
	URL      string `json:"url,omitempty"`
}

func (f *Findings) json(x *check.Finding) {
	ref := x.Reference()
	out := jsonFinding{
		Line: x.Line, Rule: x.Rule.ID, Severity: x.Severity.String(), Message: Text(x.Message, 2000),
		Side: string(x.Side), See: x.See, Method: Text(x.Method, 200), Version: x.Version, Spec: ref.Text, URL: ref.URL,
	}
	if x.Leg != 0 {
		out.Leg = x.Leg.String()
	}
	raw, err := json.Marshal(out)
	f.fail(err)
	if f.written > 0 {
		f.put(",")
	}
	f.put("\n" + string(raw))
}

func (f *Findings) jsonSummary(records int) string {
	raw, err := json.Marshal(struct {
		Records  int            `json:"records"`
		Errors   int            `json:"errors"`
		Warnings int            `json:"warnings"`
		Notes    int            `json:"notes"`
		Rules    map[string]int `json:"rules"`
	}{records, f.total[check.Error], f.total[check.Warning], f.total[check.Note], f.counts})
	f.fail(err)
	return `"summary":` + string(raw)
}

// suite is a test case for each rule: one that was broken fails.
func (f *Findings) suite() Suite {
	s := Suite{Name: "taskbridge check " + f.Capture}
	rules := check.Rules()
	for i := range rules {
		group, _, _ := strings.Cut(rules[i].ID, "/")
		c := Case{Class: group, Name: rules[i].ID}
		if n := f.counts[rules[i].ID]; n > 0 {
			var details strings.Builder
			shown := 0
			for k := range f.kept {
				if f.kept[k].Rule.ID == rules[i].ID && shown < 100 {
					details.WriteString(textOf(&f.kept[k]))
					shown++
				}
			}
			if n > shown {
				fmt.Fprintf(&details, "and %d more\n", n-shown)
			}
			c.Failure = &Problem{Message: fmt.Sprintf("%d times not kept: %s", n, rules[i].Says), Kind: rules[i].Severity.String(), Details: details.String()}
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}
