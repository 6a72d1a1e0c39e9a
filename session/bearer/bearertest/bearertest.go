// Package bearertest makes key sets and tokens for tests.
package bearertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
)

// Key is a private key with the id its public half has in a set; an empty one:
// none.
type Key struct {
	ID      string
	Private crypto.Signer
}

// RSA is a new RSA key of so many bits.
func RSA(t testing.TB, id string, bits int) Key {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, k}
}

// EC is a new key on a curve.
func EC(t testing.TB, id string, c elliptic.Curve) Key {
	t.Helper()
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, k}
}

// Ed is a new Ed25519 key.
func Ed(t testing.TB, id string) Key {
	t.Helper()
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, k}
}

// JWK is the public half as a member of a set.
func (k Key) JWK(t testing.TB) json.RawMessage {
	t.Helper()
	j, err := jwkset.NewJWKFromKey(k.Private.Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: k.ID, USE: jwkset.UseSig}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(j.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Set is a JWK set of the keys' public halves.
func Set(t testing.TB, keys ...Key) []byte {
	t.Helper()
	members := []json.RawMessage{}
	for _, k := range keys {
		members = append(members, k.JWK(t))
	}
	raw, err := json.Marshal(map[string]any{"keys": members})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Sign makes a token; header is added to what a token's header has anyway.
func (k Key) Sign(t testing.TB, alg string, claims, header map[string]any) string {
	t.Helper()
	tok := jwt.NewWithClaims(jwt.GetSigningMethod(alg), jwt.MapClaims(claims))
	if k.ID != "" {
		tok.Header["kid"] = k.ID
	}
	maps.Copy(tok.Header, header)
	raw, err := tok.SignedString(k.Private)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Forge makes a token of any header and claims, signed with whatever sign does.
func Forge(t testing.TB, header, claims map[string]any, sign func(text string) []byte) string {
	t.Helper()
	part := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	text := part(header) + "." + part(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(sign(text))
}
