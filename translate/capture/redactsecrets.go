package capture

import (
	"regexp"
	"strings"
)

// secretNames are members whose value is a secret, in small letters without
// what parts words.
var secretNames = map[string]bool{
	"authorization": true, "proxyauthorization": true, "cookie": true, "setcookie": true, "credential": true, "credentials": true,
	"password": true, "passwd": true, "pwd": true, "passphrase": true, "secret": true, "secretkey": true, "privatekey": true,
	"token": true, "apikey": true, "apitoken": true, "accesskey": true, "accesskeyid": true, "jwt": true, "bearer": true,
	"xapikey": true, "connectionstring": true,
}

// secretEnds are how the name of such a member may end: db_password, githubToken.
var secretEnds = []string{"password", "passphrase", "secret", "token", "apikey", "secretkey", "privatekey", "accesskey"}

// tokensOfNone are names that end like a secret's and are none.
var tokensOfNone = map[string]bool{
	"progresstoken": true, "pagetoken": true, "nextpagetoken": true, "nexttoken": true, "continuationtoken": true, "synctoken": true,
	"stoptoken": true,
}

func secretName(name string) bool {
	if len(name) > 64 {
		return false
	}
	plain := strings.Map(func(r rune) rune {
		switch {
		case r == '_' || r == '-' || r == ' ' || r == '.':
			return -1
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, name)
	if secretNames[plain] {
		return true
	}
	if tokensOfNone[plain] {
		return false
	}
	for _, end := range secretEnds {
		if strings.HasSuffix(plain, end) {
			return true
		}
	}
	return false
}

// secretForm is how a secret looks in running text.
type secretForm struct {
	hints []string // one of them is in any text that matches
	re    *regexp.Regexp
	group int // what is taken of a match
	fits  func(string) bool
}

var secretForms = []secretForm{
	{hints: []string{"PRIVATE KEY"}, re: regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\z)`)},
	{hints: []string{"eyJ"}, re: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){1,3}`)},
	{hints: []string{"earer", "EARER", "asic", "ASIC"}, re: regexp.MustCompile(`(?i)\b(?:bearer|basic)[ \t]+([A-Za-z0-9._~+/-]{8,}=*)`), group: 1, fits: random},
	{hints: []string{"AKIA", "ASIA"}, re: regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{hints: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, re: regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`)},
	{hints: []string{"glpat-"}, re: regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{hints: []string{"sk-"}, re: regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{16,}`), fits: random},
	{hints: []string{"_live_", "_test_"}, re: regexp.MustCompile(`\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}`)},
	{hints: []string{"xox", "xapp-"}, re: regexp.MustCompile(`\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}`)},
	{hints: []string{"AIza"}, re: regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{30,}`)},
	{hints: []string{"npm_"}, re: regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}`)},
	{hints: []string{"://"}, re: regexp.MustCompile(`://[^/\s:@"']*:([^/\s@"']+)@`), group: 1},
	{
		hints: []string{"assword", "ASSWORD", "asswd", "ecret", "ECRET", "oken", "OKEN", "pi_key", "PI_KEY", "pi-key", "pikey", "piKey", "PIKEY", "uthorization"},
		re: regexp.MustCompile(`(?i)\b(?:[a-z0-9]+[_-])*(?:password|passwd|secret|token|api[_-]?key|authorization|(?:secret|access|private)[_-]key)` +
			`\\?["']?\s*[:=]\s*\\?["']?([^\s"'\\,;&\[{]{6,})`),
		group: 1, fits: random,
	},
}

// random tells a secret from a word that stands where one could: it has a digit
// or a sign beside its letters, or is long.
func random(s string) bool {
	return len(s) >= 24 || strings.ContainsAny(s, "0123456789+/=_~!@#$%^*")
}

// take puts the mark for what matches in s.
func (f *secretForm) take(s string) (string, bool) {
	hinted := false
	for _, h := range f.hints {
		if hinted = strings.Contains(s, h); hinted {
			break
		}
	}
	if !hinted {
		return s, false
	}
	var b strings.Builder
	from := 0
	for _, m := range f.re.FindAllStringSubmatchIndex(s, -1) {
		start, end := m[2*f.group], m[2*f.group+1]
		if f.fits != nil && !f.fits(s[start:end]) {
			continue
		}
		b.WriteString(s[from:start])
		b.WriteString(redacted(kindSecrets))
		from = end
	}
	if from == 0 {
		return s, false
	}
	b.WriteString(s[from:])
	return b.String(), true
}
