package main

import (
	"context"
	"encoding/json"
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
	keys     bearer.KeyOptions
	audience []string
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
	c := &jwtConfig{keys: bearer.KeyOptions{Source: source}, audience: f.audience, issuer: f.issuer}
	if _, err := bearer.NewKeySet(c.keys); err != nil {
		return nil, usagef("%s: %w", where(fs, "principal"), err)
	}
	if len(c.audience) == 0 && publicURL != "" {
		c.audience = []string{publicURL}
	}
	for _, a := range c.audience {
		if strings.TrimSpace(a) == "" {
			return nil, usagef("%s: is empty", where(fs, "jwt-audience"))
		}
	}
	if len(c.audience) == 0 {
		return nil, usagef("%s jwt: a token for another service would get in; say whom tokens are for with --jwt-audience or --public-url", where(fs, "principal"))
	}
	for a := range strings.SplitSeq(strings.Join(f.algorithms, ","), ",") {
		a = strings.TrimSpace(a)
		if err := bearer.CheckAlgorithm(a); err != nil {
			return nil, usagef("%s: %w", where(fs, "jwt-alg"), err)
		}
		c.algs = append(c.algs, a)
	}
	return c, nil
}

// callers verifies tokens while a bridge runs.
type callers struct {
	*bearer.Verifier
	keys *bearer.KeySet
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// start reads the keys. Those behind a URL may come later: callers are told to
// try again until then.
func (c *jwtConfig) start(ctx context.Context, log *slog.Logger) (*callers, error) {
	o := c.keys
	o.Logger = log
	keys, err := bearer.NewKeySet(o)
	if err != nil {
		return nil, err
	}
	v, err := bearer.New(bearer.Options{Keys: keys, Audience: c.audience, Issuer: c.issuer, Algorithms: c.algs})
	if err != nil {
		return nil, err
	}
	if err := keys.Load(ctx); err != nil {
		if !keys.Remote() {
			return nil, fmt.Errorf("principal jwt: read keys: %w", err)
		}
		log.Warn("the keys of callers' tokens cannot be had yet; callers are refused until they can", "keys", keys.Source(), "err", err)
	}
	cs := &callers{Verifier: v, keys: keys}
	ctx, cs.stop = context.WithCancel(context.WithoutCancel(ctx))
	cs.wg.Go(func() { keys.Run(ctx) })
	return cs, nil
}

// ready says whether callers can be told apart at all.
func (cs *callers) ready() bool { return cs == nil || !cs.keys.Fetched().IsZero() }

func (cs *callers) close() {
	if cs != nil {
		cs.stop()
		cs.wg.Wait()
	}
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
