package translate

import (
	"fmt"
	"strings"
)

// VersionRange says which versions of a client are meant. The zero value means
// any, those that are no versions too.
type VersionRange struct{ rules []versionRule }

type versionRule struct {
	op     string // =, !=, <, <=, >, >=
	want   []string
	pre    string
	prefix bool // only the parts of want count
}

// ParseVersionRange reads comparisons that must all hold, blanks or commas
// between them: "1.4.2" (that one), "1.*" (any that begins so), ">=1.2 <2",
// "!=1.5.0". Empty and "*" mean any. Parts that are numbers compare as numbers;
// what follows "-" comes before the version itself, what follows "+" is left
// out (semver.org, 10 and 11). A leading v is left out.
func ParseVersionRange(s string) (VersionRange, error) {
	var r VersionRange
	if all := strings.TrimSpace(s); all == "" || all == "*" {
		return r, nil
	}
	fields := strings.FieldsFunc(s, func(c rune) bool { return c == ' ' || c == ',' || c == '\t' })
	for i := 0; i < len(fields); i++ {
		text := strings.TrimLeft(fields[i], "<>=!")
		rule := versionRule{op: fields[i][:len(fields[i])-len(text)]}
		switch rule.op {
		case "":
			rule.op = "="
		case "==":
			rule.op = "="
		case "=", "!=", "<", "<=", ">", ">=":
		default:
			return VersionRange{}, fmt.Errorf("version %q: %q is no comparison; want one of = != < <= > >=", s, rule.op)
		}
		if text == "" && i+1 < len(fields) { // ">= 1.2"
			i++
			text = fields[i]
		}
		if body, ok := strings.CutSuffix(text, ".*"); ok {
			if rule.op != "=" && rule.op != "!=" {
				return VersionRange{}, fmt.Errorf("version %q: %s does not go with *", s, rule.op)
			}
			text, rule.prefix = body, true
		}
		var ok bool
		if rule.want, rule.pre, ok = splitVersion(text); !ok {
			return VersionRange{}, fmt.Errorf("version %q: %q is no version; want numbers with dots, as in 1.2 or 1.2.3-beta", s, text)
		}
		r.rules = append(r.rules, rule)
	}
	if len(r.rules) == 0 {
		return VersionRange{}, fmt.Errorf("version %q: no comparison", s)
	}
	return r, nil
}

// Has says whether version is in the range. What is no version is in none but
// the zero one.
func (r VersionRange) Has(version string) bool {
	if len(r.rules) == 0 {
		return true
	}
	parts, pre, ok := splitVersion(version)
	if !ok {
		return false
	}
	for _, rule := range r.rules {
		if !rule.has(parts, pre) {
			return false
		}
	}
	return true
}

func (rule versionRule) has(parts []string, pre string) bool {
	if rule.prefix {
		for len(parts) < len(rule.want) {
			parts = append(parts, "0")
		}
		same := compareParts(parts[:len(rule.want)], rule.want) == 0
		return same == (rule.op == "=")
	}
	c := compareParts(parts, rule.want)
	if c == 0 {
		c = comparePre(pre, rule.pre)
	}
	switch rule.op {
	case "=":
		return c == 0
	case "!=":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// splitVersion cuts a version into its numbers and what follows "-".
func splitVersion(s string) (parts []string, pre string, ok bool) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "+")
	s, pre, _ = strings.Cut(s, "-")
	if len(s) > 128 || len(pre) > 128 {
		return nil, "", false
	}
	parts = strings.Split(s, ".")
	for _, p := range parts {
		if !isNumber(p) {
			return nil, "", false
		}
	}
	return parts, pre, true
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func compareParts(a, b []string) int {
	for i := range max(len(a), len(b)) {
		x, y := "0", "0"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if c := compareNumbers(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// compareNumbers compares digits of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// comparePre: without one comes after; numbers before words.
func comparePre(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, y := isNumber(as[i]), isNumber(bs[i])
		c := strings.Compare(as[i], bs[i])
		switch {
		case x && y:
			c = compareNumbers(as[i], bs[i])
		case x:
			c = -1
		case y:
			c = 1
		}
		if c != 0 {
			return c
		}
	}
	return len(as) - len(bs)
}
