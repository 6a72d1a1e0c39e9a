package upstream

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"taskbridge/session"
)

const (
	cookieSessions = 4096
	maxCookies     = 16
	maxCookieBytes = 4 << 10
)

// cookieStore keeps the cookies a server sets together with a legacy session:
// balancers pin sessions by them. They live in memory, belong to one session
// of one principal at one upstream, and go back to that endpoint only; path
// and domain are therefore not looked at.
type cookieStore struct {
	mu       sync.Mutex // protects sessions and what is in it
	sessions *lru.Cache[cookieKey, []*http.Cookie]
}

type cookieKey struct {
	upstream  string
	principal session.Principal
	session   string
}

func newCookieStore() *cookieStore {
	sessions, err := lru.New[cookieKey, []*http.Cookie](cookieSessions)
	if err != nil {
		panic(err) // only a size below 1 gives one
	}
	return &cookieStore{sessions: sessions}
}

// add puts the session's cookies into a request's header, after any Cookie of
// the upstream's own.
func (c *cookieStore) add(hd http.Header, target session.Target, id string) {
	if id == "" {
		return
	}
	c.mu.Lock()
	kept, _ := c.sessions.Get(cookieKey{target.Upstream, target.Principal, id})
	c.mu.Unlock()
	if len(kept) == 0 {
		return
	}
	r := http.Request{Header: make(http.Header, 1)}
	for _, k := range kept {
		r.AddCookie(&http.Cookie{Name: k.Name, Value: k.Value})
	}
	all := append(slices.Clone(hd["Cookie"]), r.Header["Cookie"]...)
	hd["Cookie"] = []string{strings.Join(all, "; ")}
}

// keep remembers what resp sets, for the session the request named or, on
// initialize, the one the response names.
func (c *cookieStore) keep(resp *http.Response, target session.Target, id string) {
	if len(resp.Header["Set-Cookie"]) == 0 {
		return
	}
	if id == "" {
		id = resp.Header.Get("Mcp-Session-Id")
	}
	if id == "" {
		return
	}
	key := cookieKey{target.Upstream, target.Principal, id}
	c.mu.Lock()
	defer c.mu.Unlock()
	old, _ := c.sessions.Get(key)
	kept := slices.Clone(old)
	for _, set := range resp.Cookies() {
		kept = slices.DeleteFunc(kept, func(k *http.Cookie) bool { return k.Name == set.Name })
		gone := set.MaxAge < 0 || !set.Expires.IsZero() && set.Expires.Before(time.Now())
		if !gone && len(kept) < maxCookies && len(set.Name)+len(set.Value) <= maxCookieBytes {
			kept = append(kept, set)
		}
	}
	c.sessions.Add(key, kept)
}

// drop forgets a session.
func (c *cookieStore) drop(target session.Target, id string) {
	c.mu.Lock()
	c.sessions.Remove(cookieKey{target.Upstream, target.Principal, id})
	c.mu.Unlock()
}
