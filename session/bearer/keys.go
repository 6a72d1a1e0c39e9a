package bearer

import (
	"cmp"
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
)

const (
	maxSetBytes = 1 << 20
	maxKeys     = 100
	// minRSABits is RFC 7518 section 3.3's.
	minRSABits   = 2048
	fetchTimeout = 10 * time.Second
	firstRetry   = 5 * time.Second
)

// ErrSource is wrapped by what is wrong with the place of a key set itself, not
// with reaching it.
var ErrSource = errors.New("not a place of keys")

// KeyOptions say where a key set is and how often it is looked at. Zero fields
// but Source mean the default.
type KeyOptions struct {
	// Source is the path of a file or a URL: https://, or http:// on this machine,
	// because whoever can change the keys on their way is everybody.
	Source string
	// Refresh is the time between two looks; 10 min, 1 min for a file. A key that
	// was taken out of the set is believed for that long.
	Refresh time.Duration
	// Again is the least time between two looks that tokens of unknown keys cause;
	// 10 s, 1 s for a file.
	Again time.Duration

	Client *http.Client // nil: one of its own, without redirects
	Logger *slog.Logger // nil: discarded
}

// KeySet is a JWK set and the memory of it. What was had last stays in use while
// a newer one cannot be had. It is safe for concurrent use.
type KeySet struct {
	*jwkset.MemoryJWKSet // the keys in use
	o                    KeyOptions
	remote               bool
	shown                string // the source without its query

	mu    sync.Mutex // protects the fields below
	look  *look      // under way, nil: none is
	tried time.Time  // when the last one began
	had   time.Time  // when it was last had; zero: never
}

// look is one reading of the set, for all who want it meanwhile.
type look struct {
	done chan struct{}
	err  error // valid once done is closed
}

var _ jwkset.Storage = (*KeySet)(nil)

// NewKeySet returns a set without keys yet; Load looks for them and Run keeps
// them fresh. Errors wrap ErrSource.
func NewKeySet(o KeyOptions) (*KeySet, error) {
	s := &KeySet{MemoryJWKSet: jwkset.NewMemoryStorage(), o: o, shown: o.Source}
	if o.Source == "" {
		return nil, fmt.Errorf("%w: want the path of a file or a URL", ErrSource)
	}
	if strings.Contains(o.Source, "://") {
		u, err := checkURL(o.Source)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSource, err)
		}
		u.RawQuery = ""
		s.remote, s.shown = true, u.String()
	}
	refresh, again := time.Minute, time.Second
	if s.remote {
		refresh, again = 10*time.Minute, 10*time.Second
	}
	s.o.Refresh, s.o.Again = cmp.Or(o.Refresh, refresh), cmp.Or(o.Again, again)
	if s.o.Logger == nil {
		s.o.Logger = slog.New(slog.DiscardHandler)
	}
	if s.o.Client == nil {
		s.o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return s, nil
}

func checkURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("the URL cannot be read") // its error would show all of it
	case u.User != nil:
		return nil, errors.New("a URL of keys has no user or password")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, errors.New("keys come over https://, or over http:// from this machine: who can change them on their way can be anybody")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("scheme %q: want https", u.Scheme)
	}
	u.Fragment = ""
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// Source is the set's place as it may be shown.
func (s *KeySet) Source() string { return s.shown }

// Remote says that the set is behind a URL, so that it may be there later.
func (s *KeySet) Remote() bool { return s.remote }

// Fetched is when the set was last had; zero: never yet.
func (s *KeySet) Fetched() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.had
}

// Run looks at the set again and again until ctx is done. A look that fails is
// repeated sooner, with a growing pause.
func (s *KeySet) Run(ctx context.Context) {
	retry := firstRetry
	for {
		wait := s.o.Refresh
		if s.Fetched().IsZero() {
			wait = min(retry, wait)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		for err := s.Load(ctx); err != nil && ctx.Err() == nil; err = s.Load(ctx) {
			s.o.Logger.Warn("the keys of callers' tokens cannot be had; those had last stay in use", "keys", s.shown, "err", err, "retry", retry)
			t := time.NewTimer(retry)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
			retry = min(2*retry, s.o.Refresh)
		}
		retry = firstRetry
	}
}

// Load looks at the set now. Callers at the same time share one look.
func (s *KeySet) Load(ctx context.Context) error { return s.wait(ctx, s.begin(0)) }

// begin is the look under way or a new one; nil where the last one was begun
// less than pause ago.
func (s *KeySet) begin(pause time.Duration) *look {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.look != nil {
		return s.look
	}
	now := time.Now()
	if pause > 0 && !s.tried.IsZero() && now.Sub(s.tried) < pause {
		return nil
	}
	l := &look{done: make(chan struct{})}
	s.look, s.tried = l, now
	go s.run(l)
	return l
}

// run reads the set for a look, which outlives whoever happened to ask first.
func (s *KeySet) run(l *look) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	l.err = s.load(ctx)
	s.mu.Lock()
	s.look = nil
	if l.err == nil {
		s.had = time.Now()
	}
	s.mu.Unlock()
	close(l.done)
}

func (s *KeySet) wait(ctx context.Context, l *look) error {
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lookAgain is Load because of a token whose key is unknown, which anybody can
// send: it is done at a bounded rate. It is false where nothing new was had.
func (s *KeySet) lookAgain(ctx context.Context) bool {
	l := s.begin(s.o.Again)
	if l == nil {
		return false
	}
	err := s.wait(ctx, l)
	if err != nil && ctx.Err() == nil {
		s.o.Logger.Debug("the keys of callers' tokens cannot be had", "keys", s.shown, "err", err)
	}
	return err == nil
}

// KeyRead implements jwkset.Storage: a key that is not there may be new.
func (s *KeySet) KeyRead(ctx context.Context, kid string) (jwkset.JWK, error) {
	k, err := s.MemoryJWKSet.KeyRead(ctx, kid)
	if err == nil {
		return k, nil
	}
	s.lookAgain(ctx)
	return s.MemoryJWKSet.KeyRead(ctx, kid)
}

func (s *KeySet) load(ctx context.Context) error {
	raw, err := s.read(ctx)
	if err != nil {
		return err
	}
	keys, skipped, err := parseSet(raw)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		// Whoever publishes no key wants none believed.
		s.o.Logger.Warn("no key in the set can verify tokens: all callers are refused", "keys", s.shown, "unusable", skipped)
	}
	if err := s.KeyReplaceAll(ctx, keys); err != nil {
		return err
	}
	s.o.Logger.Debug("read the keys of callers' tokens", "keys", s.shown, "usable", len(keys), "unusable", skipped)
	return nil
}

func (s *KeySet) read(ctx context.Context) ([]byte, error) {
	if !s.remote {
		// Looked at first: opening a pipe waits for who writes to it.
		if fi, err := os.Stat(s.o.Source); err == nil && !fi.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is no file", s.shown)
		}
		f, err := os.Open(s.o.Source)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readSet(f)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.o.Source, nil)
	if err != nil {
		return nil, errors.New("the URL cannot be read")
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	resp, err := s.o.Client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // without the URL, whose query may be a secret
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("want status 200, got %d (redirects are not followed)", resp.StatusCode)
	}
	return readSet(resp.Body)
}

func readSet(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxSetBytes+1))
	if err == nil && len(raw) > maxSetBytes {
		err = fmt.Errorf("more than %d bytes", maxSetBytes)
	}
	return raw, err
}

// parseSet reads the public keys for signatures of a set. Others in it are
// skipped (RFC 7517 section 5), and private parts are not read.
func parseSet(raw []byte) (keys []jwkset.JWK, skipped int, err error) {
	var set struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil || set.Keys == nil {
		return nil, 0, errors.New(`not a JWK set: want an object with a list "keys"`)
	}
	if len(*set.Keys) > maxKeys {
		return nil, 0, fmt.Errorf("more than %d keys", maxKeys)
	}
	keys = []jwkset.JWK{}
	for _, one := range *set.Keys {
		if k, ok := parseKey(one); ok {
			keys = append(keys, k)
		} else {
			skipped++
		}
	}
	return keys, skipped, nil
}

func parseKey(raw []byte) (jwkset.JWK, bool) {
	var m jwkset.JWKMarshal
	if json.Unmarshal(raw, &m) != nil || m.KTY == jwkset.KtyOct || m.USE != "" && m.USE != jwkset.UseSig {
		return jwkset.JWK{}, false
	}
	// Certificates say nothing here that the set does not, and their URL is not
	// to be followed.
	m.X5C, m.X5U, m.X5T, m.X5TS256 = nil, "", "", ""
	k, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{SkipKeyOps: true})
	if err != nil {
		return jwkset.JWK{}, false
	}
	if pub, ok := k.Key().(*rsa.PublicKey); ok && pub.N.BitLen() < minRSABits {
		return jwkset.JWK{}, false
	}
	return k, true
}
