package check

import (
	"fmt"
	"strings"
)

// RulesDoc is docs/check.md's list of rules, made from the rows.
func RulesDoc() string {
	var b strings.Builder
	group := ""
	for i := range rules {
		r := &rules[i]
		if g, _, _ := strings.Cut(r.ID, "/"); g != group {
			group = g
			fmt.Fprintf(&b, "\n### %s\n\n| rule | severity | what holds | specification |\n|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.ID, r.Severity, strings.ReplaceAll(r.Says, "|", "\\|"), links(r))
	}
	return b.String()
}

func links(r *Rule) string {
	var out []string
	if r.Legacy != "" {
		ref := r.Reference(false)
		out = append(out, "["+ref.Text+"]("+ref.URL+")")
	}
	if r.Modern != "" && r.Modern != r.Legacy {
		ref := r.Reference(true)
		out = append(out, "["+ref.Text+"]("+ref.URL+")")
	}
	return strings.Join(out, "; ")
}
