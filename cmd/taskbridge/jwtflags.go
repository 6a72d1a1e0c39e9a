package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"taskbridge/session/bearer"
)

// jwtFlags say which tokens are believed under --principal jwt:JWKS.
type jwtFlags struct {
	audience   []string
	issuer     string
	algorithms []string
}

func (f *jwtFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.audience, "jwt-audience", nil, "whom tokens must be for (`AUD`); --public-url unless given")
	fs.StringVar(&f.issuer, "jwt-issuer", "", "whom tokens must be from (`ISS`); anybody whose key is in the set unless given")
	fs.StringSliceVar(&f.algorithms, "jwt-alg", bearer.Algorithms, "how tokens may be signed, a `LIST` of asymmetric algorithms")
}

// jwtConfig is how callers are verified; it has been checked.
type jwtConfig struct {
	keysAt   bearer.KeyOptions
	audience []string // none: the public URL of each route
	issuer   string
	algs     []string
}

// check returns nil where callers bring no such tokens; source is the set of
// keys.
func (f *jwtFlags) check(fs *pflag.FlagSet, source, publicURL string) (*jwtConfig, error) {
	if source == "" {
		for _, name := range []string{"jwt-audience", "jwt-issuer", "jwt-alg"} {
			if fs.Changed(name) {
				return nil, usagef("%s: goes with --principal jwt:JWKS only", where(fs, name))
			}
		}
		return nil, nil
	}
	if len(f.audience) == 0 && publicURL == "" {
		return nil, usagef("%s jwt: a token for another service would get in; say whom tokens are for with --jwt-audience or --public-url", where(fs, "principal"))
	}
	c, at, err := newJWT(source, f.audience, f.issuer, f.algorithms)
	if err != nil {
		return nil, usagef("%s: %w", where(fs, at), err)
	}
	return c, nil
}

// newJWT checks how callers are verified; at is the setting an error is about.
func newJWT(source string, audience []string, issuer string, algorithms []string) (c *jwtConfig, at string, err error) {
	c = &jwtConfig{keysAt: bearer.KeyOptions{Source: source}, audience: audience, issuer: issuer}
	if _, err := bearer.NewKeySet(c.keysAt); err != nil {
		return nil, "principal", err
	}
	for _, a := range audience {
		if strings.TrimSpace(a) == "" {
			return nil, "jwt-audience", errors.New("is empty")
		}
	}
	for a := range strings.SplitSeq(strings.Join(algorithms, ","), ",") {
		a = strings.TrimSpace(a)
		if err := bearer.CheckAlgorithm(a); err != nil {
			return nil, "jwt-alg", err
		}
		c.algs = append(c.algs, a)
	}
	return c, "", nil
}

// callers has the keys of callers' tokens while a bridge runs.
type callers struct {
	jwtConfig
	*keysInUse
}

// keysInUse is a key set that is kept fresh. Where only whom tokens must be for
// or from changes, it goes on: the place of the keys may be out of reach just
// then, and callers are known all the same.
type keysInUse struct {
	keys *bearer.KeySet
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// start reads the keys. Those behind a URL may come later: callers are told to
// try again until then. Not so where callers are known already (running): all
// of them would be shut out by a place that may never answer.
func (c *jwtConfig) start(ctx context.Context, log *slog.Logger, running bool) (*callers, error) {
	o := c.keysAt
	o.Logger = log
	keys, err := bearer.NewKeySet(o)
	if err != nil {
		return nil, err
	}
	if err := keys.Load(ctx); err != nil {
		if !keys.Remote() {
			return nil, fmt.Errorf("principal jwt: read keys: %w", err)
		}
		if running {
			return nil, fmt.Errorf("principal jwt: the keys of %s cannot be had, and without them all callers would be refused: %w; reload once they are there", keys.Source(), err)
		}
		log.Warn("the keys of callers' tokens cannot be had yet; callers are refused until they can", "keys", keys.Source(), "err", err)
	}
	used := &keysInUse{keys: keys}
	ctx, used.stop = context.WithCancel(context.WithoutCancel(ctx))
	used.wg.Go(func() { keys.Run(ctx) })
	return &callers{*c, used}, nil
}

// verifier takes the tokens that are for a route: where nobody said whom they
// are for, those for the URL clients know it by (RFC 8707 section 2).
func (cs *callers) verifier(publicURL string) (*bearer.Verifier, error) {
	audience := cs.audience
	if len(audience) == 0 {
		audience = []string{publicURL}
	}
	return bearer.New(bearer.Options{Keys: cs.keys, Audience: audience, Issuer: cs.issuer, Algorithms: cs.algs})
}

// ready says whether callers can be told apart at all.
func (cs *callers) ready() bool { return cs == nil || !cs.keys.Fetched().IsZero() }

func (cs *callers) close() {
	if cs != nil {
		cs.stop()
		cs.wg.Wait()
	}
}

// shares: both have the same keys in use.
func (cs *callers) shares(o *callers) bool {
	return cs != nil && o != nil && cs.keysInUse == o.keysInUse
}

// ownMetadata is our own protected resource metadata (RFC 9728 section 2),
// for clients that must bring us a token; nil where it could not say where to
// get one, which it must (2026-07-28 basic/authorization, Authorization Server
// Location).
func (c *jwtConfig) ownMetadata(resource string) []byte {
	if c == nil || !strings.Contains(c.issuer, "://") {
		return nil
	}
	raw, err := json.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Methods  []string `json:"bearer_methods_supported"`
	}{resource, []string{c.issuer}, []string{"header"}})
	if err != nil {
		return nil
	}
	return raw
}
