package downstream

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// Who calls is the other end of the connection; only a trusted front end is
// believed about whom it speaks for, hop by hop.
func TestClientAddr(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	for _, row := range []struct {
		remote    string
		forwarded []string
		trusted   []netip.Prefix
		want      string
	}{
		{"192.0.2.1:5000", nil, nil, "192.0.2.1:5000"},
		{"[::ffff:192.0.2.1]:5000", nil, nil, "192.0.2.1:5000"},
		{"@", nil, trusted, "invalid AddrPort"},
		{"192.0.2.1:5000", []string{"198.51.100.9"}, nil, "192.0.2.1:5000"},
		{"192.0.2.1:5000", []string{"198.51.100.9"}, trusted, "192.0.2.1:5000"}, // not from a front end
		{"10.0.0.1:5000", nil, trusted, "10.0.0.1:5000"},
		{"10.0.0.1:5000", []string{"203.0.113.5, 198.51.100.9"}, trusted, "198.51.100.9:0"}, // what came before is anybody's word
		{"10.0.0.1:5000", []string{"198.51.100.9, 10.2.3.4"}, trusted, "198.51.100.9:0"},
		{"10.0.0.1:5000", []string{"198.51.100.9", "10.2.3.4"}, trusted, "198.51.100.9:0"},
		{"[2001:db8::1]:5000", []string{"2001:db9::7"}, trusted, "[2001:db9::7]:0"},
		{"10.0.0.1:5000", []string{"unknown"}, trusted, "10.0.0.1:5000"},
		{"10.0.0.1:5000", []string{"x, 10.2.3.4"}, trusted, "10.2.3.4:0"},
		{"10.0.0.1:5000", []string{strings.Repeat("10.0.0.2,", 1000) + "10.0.0.2"}, trusted, "10.0.0.2:0"},
	} {
		r := &http.Request{RemoteAddr: row.remote, Header: http.Header{"X-Forwarded-For": row.forwarded}}
		if got := clientAddr(r, row.trusted).String(); got != row.want {
			t.Errorf("%s for %q: %s, want %s", row.remote, row.forwarded, got, row.want)
		}
	}
}
