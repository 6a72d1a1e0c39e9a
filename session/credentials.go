package session

import (
	"fmt"
	"log/slog"
	"net/http"

	lru "github.com/hashicorp/golang-lru/v2"
)

// DefaultCredentials is how many principals' credentials are held.
const DefaultCredentials = 10_000

const redacted = "[redacted]"

// Credentials holds what each principal last came with, for operations that
// go on after its request. It lives in this process only and shows itself
// nowhere: every way to print it says that it is redacted. The least recently
// used principal leaves first; its operations then wait for its next request.
// Safe for concurrent use.
type Credentials struct {
	held *lru.Cache[holder, http.Header]
	at   string
}

// holder is whose credential it is, and where it was shown.
type holder struct {
	at string
	p  Principal
}

// NewCredentials returns a holder for at most max principals (max <= 0:
// DefaultCredentials).
func NewCredentials(max int) *Credentials {
	if max <= 0 {
		max = DefaultCredentials
	}
	c, err := lru.New[holder, http.Header](max)
	if err != nil {
		panic("session: " + err.Error()) // only for a size that is not positive
	}
	return &Credentials{held: c}
}

// At is the same holder for what is shown at another place, a route say: what
// was shown at one is not found at another, where it may be meant for nobody
// (2026-07-28 basic/authorization, Token Audience Binding). The bound is that of
// all places together.
func (c *Credentials) At(place string) *Credentials { return &Credentials{held: c.held, at: place} }

// Put holds h, of which it keeps a copy, as p's newest credential. Nothing is
// held for the zero Principal: all callers without identity would share it.
// An empty h (a caller that needs none) is held too.
func (c *Credentials) Put(p Principal, h http.Header) {
	if p == "" {
		return
	}
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	c.held.Add(holder{c.at, p}, h)
}

// Get returns a copy of p's newest credential; false means that p must come
// again.
func (c *Credentials) Get(p Principal) (http.Header, bool) {
	h, ok := c.held.Get(holder{c.at, p})
	return h.Clone(), ok
}

// Delete forgets p's credential.
func (c *Credentials) Delete(p Principal) { c.held.Remove(holder{c.at, p}) }

// Len is how many principals' credentials are held, at all places.
func (c *Credentials) Len() int { return c.held.Len() }

// String says nothing. So do the methods below.
func (c Credentials) String() string { return redacted }

// GoString says nothing.
func (c Credentials) GoString() string { return redacted }

// Format says nothing, whatever the verb.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue says nothing.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON says nothing.
func (c Credentials) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText says nothing.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(redacted), nil }
