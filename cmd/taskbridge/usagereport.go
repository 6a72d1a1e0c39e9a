package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"taskbridge/session/usage"
)

// reportFlags are the flags of admin report as the user gave them.
type reportFlags struct {
	window time.Duration
	route  string
	format string
	failOn []string
}

// failWords are what --fail-on takes, with the verdicts they mean.
var failWords = map[string]usage.Verdict{
	"legacy": usage.Needed, "unknown": usage.Unknown, "attempted": usage.Attempted,
}

// reportVerb asks for the report and shows it. With --fail-on it fails where a
// route has one of the verdicts: the check before the legacy dialect is switched
// off.
func reportVerb() adminVerb {
	f := &reportFlags{}
	return adminVerb{
		use: "report", short: "Who still needs the legacy dialect", method: http.MethodGet, path: "/report",
		flags: func(fs *pflag.FlagSet) {
			durationVar(fs, &f.window, "window", usage.DefaultWindow, "how long nobody may have used the legacy dialect before it may be switched off")
			fs.StringVar(&f.route, "route", "", "`NAME` of the one route to report on")
			enumVar(fs, &f.format, "format", "table", []string{"table", "json", "csv"}, "how the report is written")
			fs.StringSliceVar(&f.failOn, "fail-on", nil, "`VERDICTS` that make the exit code 1: legacy (it is needed), unknown, attempted; separated by commas")
		},
		check: f.check,
		query: func() url.Values {
			q := url.Values{"window": {f.window.String()}}
			if f.route != "" {
				q.Set("route", f.route)
			}
			return q
		},
		show:  f.show,
		judge: f.judge,
	}
}

func (f *reportFlags) check(fs *pflag.FlagSet) error {
	if f.window <= 0 || f.window > usage.MaxWindow {
		return usagef("%s %s: want more than 0 and at most %gh: older days are kept as sums", where(fs, "window"), f.window, usage.MaxWindow.Hours())
	}
	for _, word := range f.failOn {
		if _, ok := failWords[word]; !ok {
			return usagef("%s %q: want legacy, unknown or attempted", where(fs, "fail-on"), word)
		}
	}
	return nil
}

func (f *reportFlags) show(w io.Writer, answer []byte) error {
	var rep usage.Report
	if err := json.Unmarshal(answer, &rep); err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	var err error
	switch f.format {
	case "json":
		_, err = w.Write(asciiControls(answer))
	case "csv":
		err = reportCSV(w, &rep)
	default:
		err = reportTable(w, &rep)
	}
	return err
}

func (f *reportFlags) judge(answer []byte) error {
	var rep usage.Report
	if err := json.Unmarshal(answer, &rep); err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	for _, r := range rep.Routes {
		for _, word := range f.failOn {
			if r.Verdict == failWords[word] {
				return &failure{code: exitFailed, name: "verdict", err: fmt.Errorf("route %s: %s", r.Name, r.Text)}
			}
		}
	}
	return nil
}

// moment writes a time for people; a zero one is a dash.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// clientName is how a client is called in a table.
func clientName(c *usage.Client) string {
	switch {
	case c.Folded && c.Principal == "":
		return "(all others)"
	case c.Folded:
		return "(others of this caller)"
	case c.Name == "":
		return "(gave no name)"
	}
	return c.Name
}

// countsText writes counters in the order of their names.
func countsText(m map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+strconv.FormatUint(m[name], 10))
	}
	return strings.Join(parts, " ")
}

func reportTable(out io.Writer, rep *usage.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Who needs the legacy dialect, %s UTC, window %s\n", moment(rep.At), rep.Window)
	for i := range rep.Routes {
		routeTable(&b, &rep.Routes[i])
	}
	if len(rep.Routes) == 0 {
		b.WriteString("\nno route is served\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func routeTable(b *strings.Builder, r *usage.Route) {
	fmt.Fprintf(b, "\nroute %s\n  clients: %s\n", showText(r.Name, maxShown), showText(r.Text, maxShownError))
	fmt.Fprintf(b, "  servers: %s\n", serversText(r))
	fmt.Fprintf(b, "  observed: %s", r.Observed.For)
	if !r.Observed.From.IsZero() {
		fmt.Fprintf(b, " since %s", moment(r.Observed.From))
	}
	b.WriteByte('\n')
	if r.Observed.MoreGaps > 0 {
		fmt.Fprintf(b, "  gaps: %d more before these\n", r.Observed.MoreGaps)
	}
	for _, g := range r.Observed.Gaps {
		fmt.Fprintf(b, "  gap: %s to %s, %s (%s)\n", moment(g.From), moment(g.To), g.For, showText(g.Why, maxShown))
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	cells := func(list ...string) {
		for i, c := range list {
			list[i] = showText(c, 4*maxShown)
		}
		_, _ = io.WriteString(t, strings.Join(list, "\t")+"\n") // ends in b
	}
	cells("  client", "version", "caller", "state", "era", "legacy done", "failed", "probes", "modern done", "failed", "open", "first seen", "last seen", "legacy last used", "legacy only", "losses")
	for i := range r.Clients {
		c := &r.Clients[i]
		cells("  "+showText(clientName(c), maxShown), cmp.Or(c.Version, "-"), cmp.Or(c.Principal, "-"), string(c.State), cmp.Or(strings.Join(c.Eras, "+"), "-"),
			count(c.Legacy.Completed), count(c.Legacy.Failed), count(c.Legacy.Probes), count(c.Modern.Completed), count(c.Modern.Failed), count(uint64(c.OpenSessions)),
			moment(c.First), moment(c.Last), moment(c.Legacy.LastUsed), cmp.Or(countsText(c.LegacyOnly), "-"), cmp.Or(countsText(c.Losses), "-"))
	}
	_ = t.Flush() // another table, with columns of its own
	cells("  server", "speaks", "legacy done", "failed", "modern done", "failed", "legacy last used", "modern last used")
	for i := range r.Servers {
		s := &r.Servers[i]
		speaks := cmp.Or(strings.Join(s.Speaks, "+"), "not known")
		if s.Gone {
			speaks += ", gone"
		}
		cells("  "+showText(s.Name, maxShown), speaks, count(s.Legacy.Completed), count(s.Legacy.Failed), count(s.Modern.Completed), count(s.Modern.Failed),
			moment(s.Legacy.LastUsed), moment(s.Modern.LastUsed))
	}
	_ = t.Flush()
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

// serversText says what the route's servers need.
func serversText(r *usage.Route) string {
	var alone, open []string
	there := 0
	for _, s := range r.Servers {
		if s.Gone {
			continue
		}
		there++
		switch {
		case s.LegacyAlone():
			alone = append(alone, showText(s.Name, maxShown))
		case len(s.Speaks) == 0:
			open = append(open, showText(s.Name, maxShown))
		}
	}
	switch {
	case there == 0:
		return "none was asked yet"
	case len(alone) > 0:
		return fmt.Sprintf("legacy needed toward %d of %d: %s", len(alone), there, strings.Join(alone, ", "))
	case len(open) > 0:
		return "not known what they speak: " + strings.Join(open, ", ")
	}
	return "all speak modern"
}

// csvHead names the columns. A line is a route, one of its clients, or one of
// its servers (row).
var csvHead = []string{
	"row", "route", "verdict", "text", "observed_seconds", "name", "version", "principal", "folded", "state", "eras",
	"legacy_completed", "legacy_failed", "legacy_probes", "modern_completed", "modern_failed", "modern_probes",
	"open_sessions", "first_seen", "last_seen", "legacy_last_used", "modern_last_used", "revisions", "legacy_only", "losses",
}

func reportCSV(out io.Writer, rep *usage.Report) error {
	w := csv.NewWriter(out)
	line := func(cells map[string]string) {
		row := make([]string, len(csvHead))
		for i, name := range csvHead {
			row[i] = csvCell(cells[name])
		}
		_ = w.Write(row) // kept for w.Error
	}
	_ = w.Write(csvHead)
	for i := range rep.Routes {
		r := &rep.Routes[i]
		line(map[string]string{"row": "route", "route": r.Name, "verdict": string(r.Verdict), "text": r.Text,
			"observed_seconds": strconv.FormatFloat(time.Duration(r.Observed.For).Seconds(), 'f', -1, 64), "losses": countsText(r.Losses)})
		for k := range r.Clients {
			c := &r.Clients[k]
			cells := dialectCells(&c.Legacy, &c.Modern)
			maps.Copy(cells, map[string]string{"row": "client", "route": r.Name, "name": c.Name, "version": c.Version, "principal": c.Principal, "folded": strconv.FormatBool(c.Folded),
				"state": string(c.State), "eras": strings.Join(c.Eras, " "), "open_sessions": strconv.Itoa(c.OpenSessions),
				"first_seen": csvTime(c.First), "last_seen": csvTime(c.Last), "legacy_only": countsText(c.LegacyOnly), "losses": countsText(c.Losses)})
			line(cells)
		}
		for k := range r.Servers {
			s := &r.Servers[k]
			cells := dialectCells(&s.Legacy, &s.Modern)
			maps.Copy(cells, map[string]string{"row": "server", "route": r.Name, "name": s.Name, "eras": strings.Join(s.Speaks, " "), "revisions": strings.Join(s.Versions, " ")})
			if s.Gone {
				cells["state"] = "gone"
			}
			line(cells)
		}
	}
	w.Flush()
	return w.Error()
}

func dialectCells(legacy, modern *usage.Dialect) map[string]string {
	revisions := maps.Clone(legacy.Revisions)
	if revisions == nil {
		revisions = map[string]uint64{}
	}
	maps.Copy(revisions, modern.Revisions)
	return map[string]string{
		"legacy_completed": count(legacy.Completed), "legacy_failed": count(legacy.Failed), "legacy_probes": count(legacy.Probes), "legacy_last_used": csvTime(legacy.LastUsed),
		"modern_completed": count(modern.Completed), "modern_failed": count(modern.Failed), "modern_probes": count(modern.Probes), "modern_last_used": csvTime(modern.LastUsed),
		"revisions": countsText(revisions),
	}
}

func csvTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// formulaSigns begin what a table calculation may take for a formula, or for an
// escape we wrote ourselves.
const formulaSigns = "=+-@＝＋－＠\\|%"

// cellEnds may end a cell, by the language of whoever opens the file: a comma
// here is a semicolon there, and quotes inside a line are then no quotes.
const cellEnds = ";,\"\t"

// csvCell makes text of a peer fit for a table calculation (OWASP, CSV
// Injection): control characters are shown as escapes, and what a program would
// take for a formula gets an apostrophe before it, blanks and other forms of the
// signs included, also where a cell may begin in the midst of the text.
func csvCell(s string) string {
	s = showText(s, 0)
	if !strings.ContainsAny(s, formulaSigns) {
		return s
	}
	var out []byte
	cell, begins := 0, true // where a cell may begin, and whether it has but blanks
	for _, r := range s {
		if begins && strings.ContainsRune(formulaSigns, r) {
			out = slices.Insert(out, cell, '\'')
		}
		out = utf8.AppendRune(out, r)
		switch {
		case strings.ContainsRune(cellEnds, r):
			cell, begins = len(out), true
		case r != ' ' && r != '\u00a0' && r != '\u3000':
			begins = false
		}
	}
	return string(out)
}
