package downstream

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// identify finds out who calls.
func (x *exchange) identify() (translate.Cond, string) {
	o := &x.s.o
	if o.Tokens != nil {
		return x.verify()
	}
	p, open, err := o.Principal.Of(session.PrincipalRequest{
		Header:     x.r.Header,
		RemoteAddr: remoteAddr(x.r),
		Loopback:   o.Loopback,
		Trusted:    o.TrustedProxies,
		ProxySigns: x.s.proxySigns,
	})
	if err != nil {
		// Its text holds no header's value (session.ErrPrincipalHeader).
		return translate.CondBadHeader, err.Error()
	}
	x.caller.Principal, x.caller.Open = p, open
	if open {
		x.caller.Address = network(remoteAddr(x.r))
	}
	return translate.CondNone, ""
}

// verify takes who calls from the bearer token of the request (RFC 6750 section
// 2.1). A token elsewhere, in the URL say, is not looked for (2026-07-28
// basic/authorization, Token Requirements).
func (x *exchange) verify() (translate.Cond, string) {
	auth := x.r.Header["Authorization"]
	if len(auth) == 0 {
		x.challenge("")
		return translate.CondUnauthorized, "a bearer token is needed"
	}
	scheme, token, _ := strings.Cut(auth[0], " ")
	if token = strings.Trim(token, " "); !strings.EqualFold(scheme, "Bearer") || token == "" {
		x.challenge("")
		return translate.CondUnauthorized, "a bearer token is needed, not another kind of credential"
	}
	p, until, err := x.s.o.Tokens.Verify(x.r.Context(), token)
	switch {
	case errors.Is(err, session.ErrTokenUndecided):
		return translate.CondUndecided, err.Error()
	case err != nil:
		x.challenge(err.Error())
		return translate.CondUnauthorized, err.Error()
	}
	x.caller.Principal, x.until = p, until
	return translate.CondNone, ""
}

// challenge says how to be let in (RFC 6750 section 3, RFC 9728 section 5.1).
// Why is what is wrong with the token; empty: there is none, and then no error
// is named.
func (x *exchange) challenge(why string) {
	var params []string
	if why != "" {
		params = append(params, `error="invalid_token"`, `error_description="`+why+`"`)
	}
	if at := x.s.o.ChallengeURL; at != "" {
		params = append(params, `resource_metadata="`+at+`"`)
	}
	x.w.Header()["Www-Authenticate"] = []string{strings.TrimSuffix("Bearer "+strings.Join(params, ", "), " ")}
}

// expired says that the caller's token is no longer good. What is under way for
// it then ends: it was let in for as long.
func (x *exchange) expired() bool { return !x.until.IsZero() && !time.Now().Before(x.until) }

// within is d, or the time until the caller's token expires if that is less.
func (x *exchange) within(d time.Duration) time.Duration {
	if x.until.IsZero() {
		return d
	}
	return max(0, min(d, time.Until(x.until)))
}

const tokenExpired = "the token has expired"

// endExpired ends a reply at its caller's token's expiry. As at a shutdown, a
// listen gets its result (2026-07-28 subscriptions, Graceful Closure) and a
// modern call, which cannot be resumed, an error; a legacy stream just ends and
// can be resumed with a new token.
func (x *exchange) endExpired() {
	switch {
	case x.status == 0:
		x.challenge(tokenExpired)
		x.refuse(translate.CondUnauthorized, tokenExpired, nil)
	case x.kind == kindListen:
		x.endListen()
	case x.caller.Era == translate.Modern && !x.id.IsZero():
		_, code := translate.StatusOf(translate.CondUnauthorized, translate.Modern)
		x.put(session.Out{Raw: jsonrpc.NewError(x.id, code, tokenExpired, nil), Final: true})
	}
}

// network is the part of an address one host owns: all of IPv4, the /64 of
// IPv6.
func network(a netip.Addr) string {
	a = a.Unmap()
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

func remoteAddr(r *http.Request) netip.Addr { return remotePeer(r).Addr() }

// remotePeer is the other end of the connection, zero where it has no address.
func remotePeer(r *http.Request) netip.AddrPort {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.AddrPort{}
	}
	return a
}

// maxForwarded bounds the addresses of X-Forwarded-For that are looked at.
const maxForwarded = 32

// clientAddr is who calls, for observers alone: the other end of the connection,
// or whom trusted front ends say they speak for, then without a port.
func clientAddr(r *http.Request, trusted []netip.Prefix) netip.AddrPort {
	peer := remotePeer(r)
	peer = netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port())
	believed := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if len(trusted) == 0 || !believed(peer.Addr()) {
		return peer
	}
	hops := strings.Join(r.Header["X-Forwarded-For"], ",")
	for range maxForwarded {
		i := strings.LastIndexByte(hops, ',')
		a, err := netip.ParseAddr(strings.TrimSpace(hops[i+1:]))
		if err != nil {
			return peer
		}
		if peer = netip.AddrPortFrom(a.Unmap(), 0); i < 0 || !believed(peer.Addr()) {
			return peer
		}
		hops = hops[:i]
	}
	return peer
}
