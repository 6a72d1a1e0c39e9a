// Package session runs the operations of the proxy: what must be remembered
// over several messages of a client and a server.
//
// An operation (call, task, listen, session, pool) is a deterministic state
// machine: Step takes one Event and returns Effects; its state is bytes. A
// Runner does the I/O: it loads an operation's state from the Store, steps
// it, writes the state back with compare-and-swap and carries the effects
// out. The same operations therefore serve the live proxy, scenarios under a
// virtual clock, restarts and several runners on one store.
//
// Nothing but the Store, the credential holder and open sockets survives
// between two messages: a Runner may forget everything else at any time.
package session
