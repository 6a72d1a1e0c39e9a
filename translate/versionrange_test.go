package translate

import "testing"

func TestVersionRange(t *testing.T) {
	for _, c := range []struct {
		in, version string
		want        bool
	}{
		{"", "anything", true}, {"*", "1", true},
		{"1.4.2", "1.4.2", true}, {"1.4.2", "1.4.3", false}, {"1.4", "1.4.0", true}, {"v1.4", "1.4.0+build", true},
		{"1.*", "1.99.3", true}, {"1.*", "10.0", false}, {"1.2.*", "1.2", true}, {"1.0.*", "1", true}, {"!=1.*", "2.0", true},
		{">=1.2 <2", "1.2.0", true}, {">=1.2, <2", "2.0.0", false}, {">= 1.2", "1.10", true}, {">1.2", "1.2", false},
		{"<=1.2", "1.2.0", true}, {"<2", "2.0.0-rc.1", true}, {">=2.0.0-rc.2", "2.0.0-rc.10", true}, {"<2.0.0-beta", "2.0.0-1", true},
		{">=1", "99999999999999999999999.0", true},
		{"!=1.5.0", "1.5", false},
		{"nightly", "nightly", false}, // refused below
		{">=1", "nightly", false}, {">=1", "", false}, {"=1.2.3", "1.2.3-a", false},
	} {
		r, err := ParseVersionRange(c.in)
		if c.in == "nightly" {
			if err == nil {
				t.Error("nightly is taken")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Has(c.version); got != c.want {
			t.Errorf("%q has %q: %v, want %v", c.in, c.version, got, c.want)
		}
	}
	for _, bad := range []string{"=>1", ">", "1.x", "a", ">=1.*", ",", "1..2", "~1.2", "^1"} {
		if _, err := ParseVersionRange(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
