package downstream

import (
	"crypto/rand"
	"net/netip"
	"sync"

	"taskbridge/session"
	"taskbridge/translate"
)

// sessionParam names the session in the URL a client of HTTP+SSE posts to.
const sessionParam = "sessionId"

// links are the clients of HTTP+SSE (2024-11-05 basic/transports, HTTP with
// SSE) of this process: each is an event stream that is open here, so another
// process could do nothing for it.
type links struct {
	stream, message     string // paths; empty: nobody is served
	prefix              string
	prefixKnown         bool
	trusted             []netip.Prefix
	mostAll, mostCaller int
	shared              *Shared

	*openLinks
}

// openLinks are those that are open at one endpoint, whatever its settings have
// become meanwhile.
type openLinks struct {
	mu     sync.Mutex // protects the fields below
	open   map[string]*sseLink
	counts map[string]int // by caller
}

func newLinks(o Options) *links {
	l := &links{
		stream: o.SSEPath, trusted: o.TrustedProxies,
		mostAll: o.Limits.Links, mostCaller: o.Limits.CallerLinks, shared: o.Shared,
		openLinks: &openLinks{open: map[string]*sseLink{}, counts: map[string]int{}},
	}
	if o.Follows != nil {
		l.openLinks = o.Follows.links.openLinks
	}
	if l.stream != "" {
		l.message = messagePath(l.stream)
		l.prefix, l.prefixKnown = publicPrefix(o.PublicURL, o.Path)
	}
	return l
}

// route is who serves a path; nil: not here.
func (l *links) route(path string) func(*exchange) {
	switch {
	case l.stream == "":
		return nil
	case path == l.stream || path == l.stream+"/":
		return (*exchange).openLink
	case path == l.message:
		return (*exchange).postLink
	}
	return nil
}

// callerKey is under whose name a caller's links are counted.
func callerKey(c session.Caller) string {
	if c.Open {
		return "at " + c.Address
	}
	return "by " + string(c.Principal)
}

// add registers a link under an id nobody can guess; false: there are as many
// as may.
func (l *links) add(k *sseLink) bool {
	key := callerKey(k.caller)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts[key] >= l.mostCaller || !l.shared.addLink(l.mostAll) {
		return false
	}
	k.id = rand.Text()
	l.open[k.id] = k
	l.counts[key]++
	return true
}

func (l *links) drop(k *sseLink) {
	key := callerKey(k.caller)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, k.id)
	l.shared.dropLink()
	if l.counts[key]--; l.counts[key] <= 0 {
		delete(l.counts, key)
	}
}

// find is a caller's own link. Another's is unknown to it (case S21).
func (l *links) find(id string, c session.Caller) (*sseLink, translate.Cond) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.open[id]
	if k == nil || k.caller.Principal != c.Principal || k.caller.Open != c.Open {
		return nil, translate.CondUnknownSession
	}
	return k, translate.CondNone
}
