// Command taskbridge is a proxy for the Model Context Protocol that lets any
// client talk to any server although they speak different dialects of it: the
// legacy revisions up to 2025-11-25 and the modern one, 2026-07-28.
//
// This package is the command line: it reads flags, wires a listener
// (downstream), operations (session) and a server (upstream) together, and
// shows what happens. It holds no rule of the protocol.
package main
