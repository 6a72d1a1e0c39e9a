package session

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Principal is an authorization context: a hash over the kind of the
// credential and its value, each with its length.
// It is safe to use as a key; where it must be shown, Handles.Mask turns it
// into a keyed hash. The zero value is no principal.
type Principal string

// LocalPrincipal is everybody on stdio, and on a loopback listener that shows
// no sign of a proxy before it.
var LocalPrincipal = HashPrincipal("local")

// HashPrincipal is the principal of a credential: its kind ("token") and what
// makes it one of its kind. It has 43 characters of the URL-safe base64
// alphabet. Parts are hashed with their lengths, so ("a", "bc") and
// ("ab", "c") are two principals.
func HashPrincipal(kind string, parts ...string) Principal {
	h := sha256.New()
	var n [8]byte
	write := func(s string) {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	write(kind)
	for _, p := range parts {
		write(p)
	}
	return Principal(base64.RawURLEncoding.EncodeToString(h.Sum(nil)))
}

// ErrPrincipalHeader is wrapped by what PrincipalPolicy.Of returns for a
// request that names its caller twice or by nothing. It is answered with 400;
// the text never holds a header's value.
var ErrPrincipalHeader = errors.New("ambiguous caller")

// ErrTokenRefused is wrapped by what a verifier says of a token it does not
// believe (401), ErrTokenUndecided where it cannot tell now (503). Their texts
// hold nothing of the token.
var (
	ErrTokenRefused   = errors.New("the token is refused")
	ErrTokenUndecided = errors.New("the token cannot be verified now")
)

// PrincipalPolicy says how callers are told apart. The zero value is "token".
type PrincipalPolicy struct {
	header string // canonical name for header:NAME, else empty
	jwks   string // where the keys are for jwt:JWKS, else empty
}

// PrincipalRequest is what a PrincipalPolicy may look at.
type PrincipalRequest struct {
	Header     http.Header // as received, duplicates included
	RemoteAddr netip.Addr  // the peer of the connection, never from a header
	Loopback   bool        // the listener takes connections of this machine only
	Trusted    []netip.Prefix
	// ProxySigns: the configuration says that others than this machine's users
	// come in here (--trusted-proxy, --public-url, a non-loopback
	// --allowed-host).
	ProxySigns bool
}

// ParsePrincipalPolicy reads the value of --principal.
func ParsePrincipalPolicy(s string) (PrincipalPolicy, error) {
	kind, arg, _ := strings.Cut(s, ":")
	switch kind {
	case "token", "":
		if s == "" || s == "token" {
			return PrincipalPolicy{}, nil
		}
	case "header":
		if err := checkPrincipalHeader(arg); err != nil {
			return PrincipalPolicy{}, fmt.Errorf("principal %q: %w", s, err)
		}
		return PrincipalPolicy{header: http.CanonicalHeaderKey(arg)}, nil
	case "jwt":
		if arg == "" {
			return PrincipalPolicy{}, fmt.Errorf("principal %q: jwt: needs the file or URL of a key set, as in jwt:https://issuer.example/jwks.json", s)
		}
		return PrincipalPolicy{jwks: arg}, nil
	}
	return PrincipalPolicy{}, fmt.Errorf("principal %q: want token, header:NAME or jwt:JWKS", s)
}

func checkPrincipalHeader(name string) error {
	if name == "" {
		return errors.New("header: needs a name, as in header:X-User")
	}
	for i := range len(name) {
		c := name[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' {
			continue
		}
		// Gateways fold "_" and "-" together, so such a name can be forged
		// through its twin.
		return fmt.Errorf("a header name that identifies callers has letters, digits and '-' only, not %q", c)
	}
	switch lower := strings.ToLower(name); {
	case lower == "authorization":
		return errors.New("use token to tell callers apart by Authorization")
	case lower == "host", lower == "connection", lower == "cookie", lower == "te", lower == "trailer",
		lower == "transfer-encoding", lower == "upgrade", lower == "keep-alive", lower == "content-length",
		lower == "forwarded", lower == "via",
		strings.HasPrefix(lower, "proxy-"), strings.HasPrefix(lower, "mcp-"), strings.HasPrefix(lower, "x-forwarded-"):
		return fmt.Errorf("header %s has a meaning of its own and cannot name a caller", name)
	}
	return nil
}

// String is the form ParsePrincipalPolicy reads.
func (pp PrincipalPolicy) String() string {
	switch {
	case pp.header != "":
		return "header:" + pp.header
	case pp.jwks != "":
		return "jwt:" + pp.jwks
	}
	return "token"
}

// NeedsTrusted says that the policy is worth nothing without trusted
// addresses.
func (pp PrincipalPolicy) NeedsTrusted() bool { return pp.header != "" }

// JWKS is the file or URL of the keys under jwt:JWKS; empty under other
// policies. Who a caller is is not Of's to say then but a verifier's, and who
// brings no good token is nobody.
func (pp PrincipalPolicy) JWKS() string { return pp.jwks }

// ByToken says that callers are told apart by what they send, unverified.
func (pp PrincipalPolicy) ByToken() bool { return pp == PrincipalPolicy{} }

// Of says who sent r. With open set there is no identity and p is the zero
// Principal. An error wraps ErrPrincipalHeader and means 400.
func (pp PrincipalPolicy) Of(r PrincipalRequest) (p Principal, open bool, err error) {
	auth, n := oneHeader(r.Header, "Authorization")
	if n > 1 {
		return "", false, fmt.Errorf("%w: more than one Authorization header", ErrPrincipalHeader)
	}
	if pp.jwks != "" {
		return "", false, fmt.Errorf("%w: this policy wants a verified token", ErrPrincipalHeader)
	}
	if pp.header == "" {
		if n == 1 {
			if strings.TrimSpace(auth) == "" {
				return "", false, fmt.Errorf("%w: empty Authorization header", ErrPrincipalHeader)
			}
			return HashPrincipal("token", auth), false, nil
		}
	} else {
		// A doubled or empty one is refused from untrusted peers too: nothing
		// legitimate sends it, and the answer must not tell who is trusted.
		user, n := oneHeader(r.Header, pp.header)
		if n > 1 {
			return "", false, fmt.Errorf("%w: more than one %s header", ErrPrincipalHeader, pp.header)
		}
		if n == 1 && strings.TrimSpace(user) == "" {
			return "", false, fmt.Errorf("%w: empty %s header", ErrPrincipalHeader, pp.header)
		}
		if n == 1 && trustedAddr(r.RemoteAddr, r.Trusted) {
			return HashPrincipal("header", pp.header, user), false, nil
		}
		// Who tells callers apart by a proxy's header has a proxy, so nobody
		// is taken for this machine's user.
		return "", true, nil
	}
	if r.Loopback && !r.ProxySigns && len(r.Trusted) == 0 && !forwardSigns(r.Header) {
		return LocalPrincipal, false, nil
	}
	return "", true, nil
}

// oneHeader returns a value of the header and how many there are. It compares
// names itself since a map can hold spellings that are not canonical.
func oneHeader(h http.Header, name string) (value string, n int) {
	for k, vs := range h {
		if len(vs) > 0 && strings.EqualFold(k, name) {
			value = vs[0]
			n += len(vs)
		}
	}
	return value, n
}

func trustedAddr(a netip.Addr, trusted []netip.Prefix) bool {
	a = a.Unmap().WithZone("")
	for _, p := range trusted {
		if a4 := p.Addr().Unmap(); a4 != p.Addr() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a4, p.Bits()-96)
		}
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// forwardSigns says that the request came through a proxy on its way.
func forwardSigns(h http.Header) bool {
	for k := range h {
		if k == "" || !strings.ContainsRune("fFvVxX", rune(k[0])) {
			continue // most names: spares them the copies
		}
		k = strings.ReplaceAll(strings.ToLower(k), "_", "-")
		if k == "forwarded" || k == "via" || k == "x-real-ip" || strings.HasPrefix(k, "x-forwarded-") {
			return true
		}
	}
	return false
}
