// Package bearer verifies JSON Web Tokens that say who calls (RFC 7519, RFC
// 6750). Keys come from a JWK set (RFC 7517) that the configuration names, and
// from nowhere else: what a token's header says of keys is not looked at, but
// for which key of the set it was signed with.
package bearer
