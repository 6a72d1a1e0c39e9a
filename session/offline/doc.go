// Package offline plays captures without sockets: a [Link] makes one runner the
// server of another, a [Mock] makes a capture a server, and Translate puts
// both together, so that a conversation is said again in the other dialect by
// the same operations that carry live traffic.
package offline
