package translate

import "strings"

// ChallengeParam is the auth-param of WWW-Authenticate that says where a
// server's protected resource metadata is (RFC 9728 section 5.1).
const ChallengeParam = "resource_metadata"

// ChallengeWith returns the lines of a WWW-Authenticate header with the value
// of each resource_metadata parameter replaced by url; everything else stays
// as it was said. Text in quoted strings is no parameter (RFC 9110 section
// 11.6.1). A line that has none is returned as it is.
func ChallengeWith(lines []string, url string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = challengeLine(line, url)
	}
	return out
}

func challengeLine(line, url string) string {
	var b strings.Builder
	rest := line
	for rest != "" {
		switch {
		case rest[0] == '"':
			n := quotedLen(rest)
			b.WriteString(rest[:n])
			rest = rest[n:]
		case tokenLen(rest) > 0:
			n := tokenLen(rest)
			name := rest[:n]
			b.WriteString(name)
			rest = rest[n:]
			eq := blanks(rest)
			if !strings.EqualFold(name, ChallengeParam) || eq == len(rest) || rest[eq] != '=' {
				continue
			}
			value := eq + 1 + blanks(rest[eq+1:])
			b.WriteString(rest[:value] + `"` + url + `"`)
			rest = rest[value:]
			if strings.HasPrefix(rest, `"`) {
				rest = rest[quotedLen(rest):]
			} else {
				rest = rest[bareLen(rest):]
			}
		default:
			b.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	return b.String()
}

// quotedLen is the length of the quoted string s begins with; one without an
// end takes all.
func quotedLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// bareLen is the length of a value outside of quotes; peers write URLs so,
// though they are no tokens.
func bareLen(s string) int {
	if i := strings.IndexAny(s, ", \t"); i >= 0 {
		return i
	}
	return len(s)
}

func blanks(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

func tokenLen(s string) int {
	n := 0
	for n < len(s) && s[n] > ' ' && s[n] < 0x7f && !strings.ContainsRune(`"(),/:;<=>?@[\]{}`, rune(s[n])) {
		n++
	}
	return n
}
