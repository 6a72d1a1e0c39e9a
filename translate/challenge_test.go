package translate_test

import (
	"testing"

	"taskbridge/translate"
)

func TestChallengeWith(t *testing.T) {
	const ours = "https://us.example/.well-known/oauth-protected-resource/mcp"
	for _, c := range []struct{ name, in, want string }{
		{"quoted", `Bearer resource_metadata="https://them/x"`, `Bearer resource_metadata="` + ours + `"`},
		{"others stay", `Bearer realm="a, b", error="invalid_token", resource_metadata="https://them/x", scope="s t"`,
			`Bearer realm="a, b", error="invalid_token", resource_metadata="` + ours + `", scope="s t"`},
		{"bare", `Bearer resource_metadata=https://them/x?a=b, scope=s`, `Bearer resource_metadata="` + ours + `", scope=s`},
		{"blanks and case", "Bearer Resource_Metadata \t= \"x\"", "Bearer Resource_Metadata \t= \"" + ours + `"`},
		{"none", `Bearer realm="x"`, `Bearer realm="x"`},
		{"in a quoted string", `Bearer realm="resource_metadata=\"x\", resource_metadata=y"`, `Bearer realm="resource_metadata=\"x\", resource_metadata=y"`},
		{"longer name", `Bearer x_resource_metadata="x", resource_metadata2=y`, `Bearer x_resource_metadata="x", resource_metadata2=y`},
		{"two challenges", `Basic realm="r", Bearer resource_metadata="x"`, `Basic realm="r", Bearer resource_metadata="` + ours + `"`},
		{"no end", `Bearer resource_metadata="x`, `Bearer resource_metadata="` + ours + `"`},
		{"nothing behind", `Bearer resource_metadata=`, `Bearer resource_metadata="` + ours + `"`},
		{"empty", ``, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := translate.ChallengeWith([]string{c.in}, ours); len(got) != 1 || got[0] != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func FuzzChallengeWith(f *testing.F) {
	f.Add(`Bearer realm="a\"b", resource_metadata=x, y`)
	f.Fuzz(func(t *testing.T, line string) {
		const ours = "https://us.example/m"
		once := translate.ChallengeWith([]string{line}, ours)
		if twice := translate.ChallengeWith(once, ours); twice[0] != once[0] {
			t.Errorf("%q becomes %q, and that %q", line, once[0], twice[0])
		}
	})
}
