// Package jsonrpc is the only entrance for bytes that come from a peer.
//
// [Decode] makes one iterative pass over a message: it checks the JSON grammar
// (RFC 8259), UTF-8 and depth, refuses repeated members in every object a
// translation rule reads or edits (see paths.go), and records where the members
// of those objects lie. Nothing is turned into Go values, so unknown members,
// number spelling, key order and white space survive. [Edit] then splices the
// original bytes by those spans.
//
// The package is pure: no I/O, no goroutines, no clock. A [Message] and its
// [Value]s may be read by several goroutines; an [Edit] belongs to one.
package jsonrpc
