// Package downstream is the client's side: transports that take bytes from
// clients, decide nothing about their meaning, and hand decoded messages to a
// session.Hub.
//
// Where to look:
//
//	options and defaults                       options.go
//	listening, readiness, the orderly end      server.go
//	who may speak to us at all (Host, Origin)  guard.go
//	the order of checks on a request           handler.go
//	reading a body within bounds               body.go
//	replies, event streams, keep-alives        reply.go
//	arrays of messages (2025-03-26)            batch.go
package downstream
