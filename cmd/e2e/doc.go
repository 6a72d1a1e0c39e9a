// Package e2e holds the tests that run whole bridges between real peers:
// every pair of eras, the built-in peers and those of testdata/peers, with one
// runner, two on one store, and one that forgets between messages.
package e2e
