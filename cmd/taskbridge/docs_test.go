package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// foreign are flags of other programs that the documents name.
var foreign = map[string][]string{
	"docs/config.md":  {"root"},
	"docs/operate.md": {"unix-socket", "system", "shell", "now", "build"},
}

// TestDocsFlags: a flag the documents name is one of ours.
func TestDocsFlags(t *testing.T) {
	known := map[string]bool{"help": true, "version": true}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, fs := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			fs.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).rootCommand())
	flag := regexp.MustCompile(`(?:^|[^\w-])--([a-z][a-z0-9-]*)`)
	for _, doc := range []string{"README.md", "docs/config.md", "docs/operate.md", "docs/report.md", "docs/check.md", "docs/mapping.md"} {
		found := 0
		for _, m := range flag.FindAllStringSubmatch(repository(t, doc), -1) {
			if strings.HasSuffix(m[1], "-") { // --max-…: those that begin so
				continue
			}
			if found++; !known[m[1]] && !slices.Contains(foreign[doc], m[1]) {
				t.Errorf("%s tells of --%s, which no command has", doc, m[1])
			}
		}
		if found == 0 && doc != "docs/mapping.md" {
			t.Errorf("no flag was found in %s", doc)
		}
	}
}

// labelsOf are the labels of each metric of ours, by its name.
func labelsOf(t *testing.T, m *metrics) map[string][]string {
	t.Helper()
	of := map[string][]string{}
	parts := regexp.MustCompile(`fqName: "(\w+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	descs := make(chan *prometheus.Desc, 1024)
	m.registry.Describe(descs)
	close(descs)
	for d := range descs {
		p := parts.FindStringSubmatch(d.String())
		if p == nil {
			t.Fatalf("a description of another form: %s", d)
		}
		list := strings.FieldsFunc(p[3], func(r rune) bool { return r == ',' || r == ' ' })
		for _, label := range regexp.MustCompile(`(\w+)=`).FindAllStringSubmatch(p[2], -1) {
			list = append(list, label[1])
		}
		of[p[1]] = list
	}
	return of
}

// TestAlertLabels: the labels alerts ask for are those of their metrics, and so
// are the values.
func TestAlertLabels(t *testing.T) {
	labels := labelsOf(t, newMetrics())
	if !slices.Contains(labels["taskbridge_refused_total"], "condition") {
		t.Fatalf("labels %v", labels)
	}
	mapping := repository(t, "docs/mapping.md") // made of the conditions
	values := map[string]func(string) bool{
		"condition": func(v string) bool { return strings.Contains(mapping, "| "+v+" |") },
		"era":       func(v string) bool { return v == "undecided" || v == "legacy" || v == "modern" },
	}
	exprs := regexp.MustCompile(`(?m)expr: (.*)$`).FindAllStringSubmatch(repository(t, "docs/deploy/alerts.yaml"), -1)
	for _, e := range exprs {
		var used []string
		for _, m := range regexp.MustCompile(`(taskbridge_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(e[1], -1) {
			name := seriesPart.ReplaceAllString(m[1], "")
			used = append(used, labels[name]...)
			for _, pair := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(labels[name], pair[1]) {
					t.Errorf("%s has no label %s: %s", name, pair[1], e[1])
				}
				if ok := values[pair[1]]; ok == nil || !ok(pair[2]) {
					t.Errorf("%s of %s is never %q", pair[1], name, pair[2])
				}
			}
		}
		for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(e[1], -1) {
			for label := range strings.SplitSeq(by[1], ",") {
				if label = strings.TrimSpace(label); label != "le" && !slices.Contains(used, label) {
					t.Errorf("nothing has a label %s: %s", label, e[1])
				}
			}
		}
	}
	if len(exprs) < 5 {
		t.Errorf("%d alerts were found", len(exprs))
	}
}
