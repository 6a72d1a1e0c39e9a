package config

import (
	"errors"
	"fmt"
	"strings"
)

// Getenv is the value of an environment variable, and whether it is set.
type Getenv = func(name string) (value string, set bool)

// expand replaces ${VAR} by the variable, ${VAR:-x} by x where the variable is
// not set or empty, and $${ by a ${ that stands for itself. An unset variable is
// an error: a credential that silently becomes empty is worse. Errors name
// variables and show no values.
func expand(s string, getenv Getenv) (string, error) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		if !ok {
			b.WriteString(s)
			return b.String(), nil
		}
		if plain, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(plain + "${")
			s = rest
			continue
		}
		b.WriteString(before)
		inner, after, ok := strings.Cut(rest, "}")
		if !ok {
			return "", errors.New("${ has no closing }; write $${ for a ${ that stands for itself")
		}
		name, def, hasDefault := strings.Cut(inner, ":-")
		switch {
		case !IsVarName(name):
			return "", errors.New("${…} does not hold the name of an environment variable; want ${VAR} or ${VAR:-default}, or $${ for a ${ that stands for itself")
		case strings.Contains(def, "${"):
			return "", fmt.Errorf("the default of ${%s:-…} cannot hold another ${…}", name)
		}
		value, set := getenv(name)
		switch {
		case hasDefault && value == "":
			value = def
		case !set:
			return "", fmt.Errorf("environment variable %s is not set; set it, or give a default as in ${%s:-value}", name, name)
		}
		if len(value) > maxValue || b.Len() > maxValue {
			return "", fmt.Errorf("environment variable %s is longer than %d bytes", name, maxValue)
		}
		b.WriteString(value)
		s = after
	}
}

// maxValue bounds one expanded value.
const maxValue = 64 << 10

// IsVarName says that s can name an environment variable: letters of ASCII, digits
// and _, no digit first.
func IsVarName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
