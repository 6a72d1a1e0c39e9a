package bearer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"taskbridge/session"
)

const (
	// maxToken bounds what cryptography is done on.
	maxToken = 16 << 10
	// skew is how much sooner than by our clock a token may begin to be valid.
	// Its end is not moved.
	skew = 30 * time.Second
)

// Algorithms are those a token may be signed with by default, Asymmetric all
// that may be allowed. With a symmetric one the key that verifies also signs,
// and a public key would do as the secret (RFC 8725 section 3.1).
var (
	Algorithms = []string{"RS256", "ES256", "EdDSA"}
	Asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)

// Options say which tokens are believed.
type Options struct {
	Keys     *KeySet  // required
	Audience []string // required; a token is for one of them
	Issuer   string   // empty: any whose key is in the set
	// Algorithms out of Asymmetric; none: Algorithms.
	Algorithms []string
}

// Verifier says who a token stands for. It is safe for concurrent use.
type Verifier struct {
	keys   *KeySet
	find   keyfunc.Keyfunc
	parser *jwt.Parser
	algs   []string
}

// New returns a verifier.
func New(o Options) (*Verifier, error) {
	if o.Keys == nil {
		return nil, errors.New("bearer: Options.Keys is required")
	}
	if len(o.Audience) == 0 || slices.Contains(o.Audience, "") {
		return nil, errors.New("bearer: Options.Audience is required")
	}
	algs := o.Algorithms
	if len(algs) == 0 {
		algs = Algorithms
	}
	for _, a := range algs {
		if err := CheckAlgorithm(a); err != nil {
			return nil, err
		}
	}
	find, err := keyfunc.New(keyfunc.Options{Storage: o.Keys})
	if err != nil {
		return nil, err
	}
	po := []jwt.ParserOption{
		jwt.WithValidMethods(algs), jwt.WithExpirationRequired(), jwt.WithAudience(o.Audience...),
		jwt.WithLeeway(skew), jwt.WithStrictDecoding(),
	}
	if o.Issuer != "" {
		po = append(po, jwt.WithIssuer(o.Issuer))
	}
	return &Verifier{keys: o.Keys, find: find, parser: jwt.NewParser(po...), algs: algs}, nil
}

// CheckAlgorithm says what is wrong with an algorithm's name.
func CheckAlgorithm(name string) error {
	if slices.Contains(Asymmetric, name) {
		return nil
	}
	if name == "none" || strings.HasPrefix(name, "HS") {
		return fmt.Errorf("algorithm %q: tokens are signed with a private key; want %s", name, strings.Join(Asymmetric, ", "))
	}
	return fmt.Errorf("algorithm %q: want %s", name, strings.Join(Asymmetric, ", "))
}

// Issues are told in these words: the library's texts hold parts of the token.
var (
	errLong    = errors.New("it is too long")
	errCrit    = errors.New("its header wants what is not understood here (crit)")
	errSubject = errors.New("it names no subject")
	refusals   = []struct {
		is   error
		text string
	}{
		{errCrit, errCrit.Error()},
		{jwkset.ErrKeyNotFound, "it was signed with a key that is not in the key set"},
		{jwt.ErrTokenMalformed, "it is no signed JSON Web Token"},
		{jwt.ErrTokenUnverifiable, "no key in the key set verifies it"},
		{jwt.ErrTokenSignatureInvalid, "its signature is wrong"},
		{jwt.ErrTokenExpired, "it has expired"},
		{jwt.ErrTokenNotValidYet, "it is not valid yet"},
		{jwt.ErrTokenInvalidAudience, "it is for another audience"},
		{jwt.ErrTokenInvalidIssuer, "it is of another issuer"},
		{jwt.ErrTokenRequiredClaimMissing, "it lacks exp, aud or iss"},
	}
)

// Verify says who sent a token and until when it holds. The principal is of
// issuer and subject: a refreshed token is the same caller. Errors wrap
// session.ErrTokenRefused, or session.ErrTokenUndecided where there are no keys
// to decide with; their texts hold nothing of the token.
func (v *Verifier) Verify(ctx context.Context, token string) (session.Principal, time.Time, error) {
	if len(token) > maxToken {
		return "", time.Time{}, refused(errLong.Error())
	}
	if v.keys.Fetched().IsZero() && !v.keys.lookAgain(ctx) && v.keys.Fetched().IsZero() {
		return "", time.Time{}, fmt.Errorf("%w: there are no keys to verify it with", session.ErrTokenUndecided)
	}
	claims, t, err := v.parse(ctx, token)
	if errors.Is(err, jwt.ErrTokenSignatureInvalid) && t != nil && t.Header[jwkset.HeaderKID] == nil && v.allowed(t) && v.keys.lookAgain(ctx) {
		// It does not say which key it was signed with: perhaps a new one.
		claims, t, err = v.parse(ctx, token)
	}
	if err != nil {
		return "", time.Time{}, v.refusal(t, err)
	}
	iss, _ := claims.GetIssuer()
	sub, err := claims.GetSubject()
	if err != nil || sub == "" {
		return "", time.Time{}, refused(errSubject.Error())
	}
	exp, err := claims.GetExpirationTime()
	if err != nil || exp == nil || !time.Now().Before(exp.Time) {
		return "", time.Time{}, refused("it has expired")
	}
	return session.HashPrincipal("jwt", iss, sub), exp.Time, nil
}

// parse reads claims into a map: into a struct, encoding/json would take "SUB"
// for "sub", and issuers let users add claims.
func (v *Verifier) parse(ctx context.Context, token string) (jwt.MapClaims, *jwt.Token, error) {
	claims := jwt.MapClaims{}
	find := v.find.KeyfuncCtx(ctx)
	t, err := v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (any, error) {
		// RFC 7515 section 4.1.11: what is critical and not understood makes it
		// invalid; nothing is understood.
		if _, ok := t.Header["crit"]; ok {
			return nil, errCrit
		}
		return find(t)
	})
	return claims, t, err
}

func (v *Verifier) allowed(t *jwt.Token) bool {
	return t != nil && t.Method != nil && slices.Contains(v.algs, t.Method.Alg())
}

func (v *Verifier) refusal(t *jwt.Token, err error) error {
	if t != nil && t.Method != nil && !v.allowed(t) {
		return refused("its algorithm is not allowed")
	}
	for _, r := range refusals {
		if errors.Is(err, r.is) {
			return refused(r.text)
		}
	}
	return refused("it is not valid")
}

func refused(why string) error { return fmt.Errorf("%w: %s", session.ErrTokenRefused, why) }
