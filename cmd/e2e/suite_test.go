package e2e

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"taskbridge/session"
)

var updateSuite = flag.Bool("update-suite", false, "write docs/conformance.md anew")

const suiteFile = "../../docs/conformance.md"

// suiteRow is what one scenario of the official suite came to.
type suiteRow struct {
	Scenario                        string
	Unscored                        string // why the suite does not count it
	Passed, Failed, Warned, Skipped int
	Verdict                         string
	Checks                          []suiteCheck
	Problems                        []string
}

type suiteCheck struct{ ID, Status string }

// suiteRun is a run of testdata/conformance/run.mjs: its rows by scenario.
type suiteRun map[string]suiteRow

// runSuite runs the suite with the arguments of run.mjs.
func runSuite(t *testing.T, args ...string) suiteRun {
	t.Helper()
	needNode(t, conformanceDir)
	file := filepath.Join(t.TempDir(), "rows.json")
	cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(conformanceDir, "run.mjs"), "--json", file, "--jobs", "2"}, args...)...)
	out, err := cmd.CombinedOutput()
	raw, readErr := os.ReadFile(file)
	if readErr != nil {
		t.Fatalf("the suite gave no table: %v\n%s", err, out)
	}
	var rows []suiteRow
	if err := json.Unmarshal(raw, &rows); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", out)
	run := suiteRun{}
	for _, r := range rows {
		run[r.Scenario] = r
	}
	return run
}

// suiteWorse lists the checks that fail in got and not in direct, and those
// that warn and passed there: the suite makes some checks only of a server that
// got through others.
func suiteWorse(direct, got suiteRow) []string {
	count := func(r suiteRow, status string) map[string]int {
		n := map[string]int{}
		for _, c := range r.Checks {
			if c.Status == status {
				n[c.ID]++
			}
		}
		return n
	}
	worse := map[string]bool{}
	before, passed := count(direct, "FAILURE"), count(direct, "SUCCESS")
	for id, n := range count(got, "FAILURE") {
		worse[id] = n > before[id]
	}
	for id := range count(got, "WARNING") {
		worse[id] = worse[id] || passed[id] > 0
	}
	if got.Verdict != direct.Verdict && got.Failed == 0 {
		worse["the scenario itself"] = true // skipped, or it did not end well
	}
	maps.DeleteFunc(worse, func(_ string, w bool) bool { return !w })
	return slices.Sorted(maps.Keys(worse))
}

// suiteCell is a set of scenarios with a server of one era behind the proxy.
type suiteCell struct {
	set, behind string
	mixed       bool
	// baseline: scenarios that do worse than directly, each with the reason and
	// where it is written. One that does not has to be taken off.
	baseline map[string]string
	// own: scenarios that the conformance server cannot play for clients of the
	// other era, which gosdk-questions plays instead.
	own []string
}

const (
	setLegacy = "2025-11-25"
	setModern = "2026-07-28"
)

var suiteCells = []suiteCell{
	{set: setLegacy, behind: "legacy"},
	{set: setLegacy, behind: "modern", mixed: true, own: []string{
		"tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums",
	}},
	{set: setModern, behind: "legacy", mixed: true, own: []string{"input-required-result-multi-round"}, baseline: map[string]string{
		"input-required-result-basic-elicitation": "looks for the question under the key `user_name`. A legacy server asks by a request, which has an id " +
			"and no key (2025-11-25 client/elicitation, Elicitation Requests), so the key is the proxy's own.",
		"input-required-result-ignore-extra-params": "brings an answer under the key `user_name` to a call that has asked nothing yet. Keys are the server's to " +
			"assign within the scope of the request (2026-07-28 basic/patterns/mrtr, Server Requirements); behind the proxy none is `user_name`.",
	}},
	{set: setModern, behind: "modern"},
}

func (c suiteCell) name() string { return c.set + ", " + c.behind + " server behind" }

// suiteResults collects what the cells and clients came to, for the document.
type suiteResults struct {
	mu     sync.Mutex
	direct map[string]suiteRun // by set
	cells  map[string]suiteRun // by cell
	// clients: by set, direct and through.
	clientsDirect, clientsThrough map[string]suiteRun
}

func (r *suiteResults) put(m map[string]suiteRun, key string, run suiteRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m[key] == nil {
		m[key] = suiteRun{}
	}
	maps.Copy(m[key], run)
}

// TestSuite runs the official suite directly and through the proxy, and holds
// docs/conformance.md to what came out.
func TestSuite(t *testing.T) {
	if !*updateSuite {
		long(t)
	}
	t.Parallel()
	needNode(t, conformanceDir)
	r := &suiteResults{direct: map[string]suiteRun{}, cells: map[string]suiteRun{}, clientsDirect: map[string]suiteRun{}, clientsThrough: map[string]suiteRun{}}
	ok := t.Run("runs", func(t *testing.T) {
		for _, set := range []string{setLegacy, setModern} {
			t.Run(set+", directly", func(t *testing.T) {
				t.Parallel()
				era := map[string]string{setLegacy: "legacy", setModern: "modern"}[set]
				r.put(r.direct, set, runSuite(t, startGoSDKServer(t, era), "--requirements", set))
			})
			t.Run(set+", clients", func(t *testing.T) {
				t.Parallel()
				suiteClients(t, r, set)
			})
		}
		t.Run("tasks, other transports", func(t *testing.T) {
			t.Parallel()
			for _, c := range taskRoutes { // in turn: they start many processes
				t.Run(c.name(), func(t *testing.T) { r.put(r.cells, c.name(), c.run(t)) })
			}
		})
		t.Run("tasks, directly", func(t *testing.T) {
			t.Parallel()
			r.put(r.direct, setModern, runSuite(t, startServer(t, modernServer)))
		})
		for _, c := range suiteCells {
			for _, f := range suiteForms() {
				t.Run(c.name()+f.suffix, func(t *testing.T) {
					t.Parallel()
					c.run(t, r, f)
				})
			}
			if c.set == setModern {
				t.Run(c.name()+", tasks", func(t *testing.T) {
					t.Parallel()
					r.put(r.cells, c.name(), suiteTasks(t, c.behind))
				})
			}
		}
	})
	if !ok {
		return
	}
	for _, c := range suiteCells {
		for _, f := range suiteForms() {
			t.Run(c.name()+f.suffix, func(t *testing.T) { c.check(t, r, f) })
		}
	}
	for _, c := range taskRoutes {
		t.Run("tasks, "+c.name(), func(t *testing.T) { c.check(t, r) })
	}
	for set := range r.clientsThrough {
		t.Run(set+", clients", func(t *testing.T) { checkClients(t, r, set) })
	}
	checkSuiteFile(t, r)
}

// suiteForm is a form of the bridge; the document shows the first, whose suffix
// is empty.
type suiteForm struct {
	suffix string
	o      bridgeOptions
}

// suiteForms are all in full runs: two runners on a store and a forgetful one
// must do as well.
func suiteForms() (list []suiteForm) {
	for i, f := range forms {
		switch {
		case i == 0:
			list = append(list, suiteForm{o: f.o})
		case fullE2E():
			list = append(list, suiteForm{", " + f.name, f.o})
		}
	}
	return list
}

// run plays a cell's scenarios through the proxy.
func (c suiteCell) run(t *testing.T, r *suiteResults, f suiteForm) {
	b := newBridge(t, startGoSDKServer(t, c.behind), f.o)
	run := runSuite(t, b.URL, "--requirements", c.set)
	for _, name := range c.own {
		if run[name].Verdict != "fail" {
			t.Errorf("%s passes with the conformance server behind: it needs no server of its own", name)
		}
	}
	if len(c.own) > 0 {
		b := newBridge(t, startServer(t, goPeer("gosdk-questions", "-era", c.behind)), f.o)
		maps.Copy(run, runSuite(t, append([]string{b.URL, "--spec-version", c.set}, c.own...)...))
	}
	r.put(r.cells, c.name()+f.suffix, run)
}

// suiteTasks plays the tasks-* scenarios with a tasks server of an era behind.
// A legacy one refuses task-only tools to who did not declare the extension, as
// the scenarios want it.
func suiteTasks(t *testing.T, behind string) suiteRun {
	if behind == "modern" {
		return runSuite(t, newBridge(t, startServer(t, modernServer), bridgeOptions{}).URL)
	}
	return runSuite(t, newBridge(t, startServer(t, legacyServer), bridgeOptions{Policy: session.Policy{RefuseUndeclared: true}}).URL)
}

// check compares a cell with the direct run.
func (c suiteCell) check(t *testing.T, r *suiteResults, f suiteForm) {
	direct, through := r.direct[c.set], r.cells[c.name()+f.suffix]
	if !c.mixed && len(c.baseline) > 0 || len(c.baseline) > 3 {
		t.Errorf("%d baseline lines", len(c.baseline))
	}
	scored := 0
	for name, d := range direct {
		if d.Unscored == "" && !strings.HasPrefix(name, "tasks-") {
			if scored++; d.Verdict != "pass" {
				t.Errorf("%s fails directly: %v", name, d.Problems)
			}
		}
		got, ran := through[name]
		worse := suiteWorse(d, got)
		reason, listed := c.baseline[name]
		switch {
		case !ran && f.suffix != "" && strings.HasPrefix(name, "tasks-"): // TestReal_* play tasks in all forms
		case !ran:
			t.Errorf("%s did not run", name)
		case len(worse) > 0 && !listed:
			t.Errorf("%s does worse than directly in %v: %v", name, worse, got.Problems)
		case len(worse) == 0 && listed:
			t.Errorf("%s does as well as directly: take it off the baseline (%s)", name, reason)
		}
	}
	if want := map[string]int{setLegacy: 30, setModern: 37}[c.set]; scored != want {
		t.Errorf("%d scored scenarios ran directly, the set has %d", scored, want)
	}
	for name := range c.baseline {
		if _, known := direct[name]; !known {
			t.Errorf("a baseline line for %s, which is no scenario", name)
		}
	}
}
