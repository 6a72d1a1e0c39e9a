package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"taskbridge/translate/compare"
	"taskbridge/translate/operation"
)

type jsonReport struct {
	Command string     `json:"command"`
	A       string     `json:"a"`
	B       string     `json:"b"`
	Verdict string     `json:"verdict"`
	Counts  jsonCounts `json:"counts"`
	Notes   []string   `json:"notes,omitempty"`
	Pairs   []jsonPair `json:"operations"`
	Skipped []jsonSkip `json:"leftOut,omitempty"`
}

type jsonCounts struct {
	Same         int            `json:"same"`
	Different    int            `json:"different"`
	Inconclusive int            `json:"inconclusive"`
	Skipped      int            `json:"leftOut"`
	Differences  map[string]int `json:"differences"`
	Reasons      map[string]int `json:"leftOutReasons,omitempty"`
}

type jsonPair struct {
	Verdict     string           `json:"verdict"`
	Reason      string           `json:"reason,omitempty"`
	A           *jsonOperation   `json:"a,omitempty"`
	B           *jsonOperation   `json:"b,omitempty"`
	Differences []jsonDifference `json:"differences,omitempty"`
	Omitted     int              `json:"omitted,omitempty"`
}

type jsonOperation struct {
	N       int       `json:"n"`
	Kind    string    `json:"kind"`
	Method  string    `json:"method,omitempty"`
	Name    string    `json:"name,omitempty"`
	Era     string    `json:"era"`
	Version string    `json:"version,omitempty"`
	Session string    `json:"session,omitempty"`
	Client  string    `json:"client,omitempty"`
	Outcome string    `json:"outcome"`
	Task    string    `json:"task,omitempty"`
	Began   time.Time `json:"began"`
	TookMs  *float64  `json:"tookMs,omitempty"`
	Line    int       `json:"line,omitempty"`
}

type jsonDifference struct {
	Path     string `json:"path"`
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Was      string `json:"was,omitempty"`
	Now      string `json:"now,omitempty"`
	Diff     string `json:"diff,omitempty"`
}

type jsonSkip struct {
	Operation *jsonOperation `json:"operation"`
	Reason    string         `json:"reason"`
}

// JSON writes all of it as one JSON object: command, a, b, verdict, counts and
// an entry for each operation. Times are RFC 3339, durations milliseconds.
func (c *Comparison) JSON(w io.Writer) error {
	n := c.Report.Counts()
	out := jsonReport{
		Command: c.Command, A: c.A, B: c.B, Verdict: string(c.Report.Verdict()), Notes: c.Notes, Pairs: []jsonPair{},
		Counts: jsonCounts{Same: n.Same, Different: n.Different, Inconclusive: n.Inconclusive, Skipped: n.Skipped, Differences: map[string]int{}, Reasons: n.ByReason},
	}
	for _, s := range severities {
		out.Counts.Differences[string(s)] = n.BySeverity[s]
	}
	for i := range c.Report.Pairs {
		out.Pairs = append(out.Pairs, jsonPairOf(&c.Report.Pairs[i]))
	}
	for _, s := range c.Report.Skipped {
		out.Skipped = append(out.Skipped, jsonSkip{jsonOperationOf(s.Op), s.Reason})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	_, err := w.Write(EscapeJSON(b.Bytes()))
	return err
}

func jsonPairOf(p *compare.Pair) jsonPair {
	out := jsonPair{Verdict: string(p.Verdict), Reason: p.Reason, A: jsonOperationOf(p.A), B: jsonOperationOf(p.B), Omitted: p.Omitted}
	for _, d := range p.Differences {
		out.Differences = append(out.Differences, jsonDifference{d.Path, string(d.Kind), string(d.Severity), d.Text, d.Was, d.Now, d.Unified})
	}
	return out
}

func jsonOperationOf(op *operation.Operation) *jsonOperation {
	if op == nil {
		return nil
	}
	out := &jsonOperation{
		N: op.N, Kind: string(op.Kind), Method: op.Method, Name: op.Name, Era: op.Era.String(), Version: op.Version,
		Session: op.Session, Client: op.Client, Outcome: string(op.Outcome), Task: op.TaskID, Began: op.Began, Line: op.First().Record.Line,
	}
	if !op.Ended.IsZero() {
		ms := float64(compare.Took(op)) / float64(time.Millisecond)
		out.TookMs = &ms
	}
	return out
}

// EscapeJSON writes as escapes what Text would in JSON text, where it can only
// stand inside strings.
func EscapeJSON(raw []byte) []byte {
	if !bytes.ContainsFunc(raw, func(r rune) bool { return !unicode.IsPrint(r) && r >= ' ' }) {
		return raw
	}
	var b bytes.Buffer
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		switch {
		case r < ' ' || unicode.IsPrint(r):
			b.Write(raw[:n]) // in valid JSON a control character is white space between tokens
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		raw = raw[n:]
	}
	return b.Bytes()
}
