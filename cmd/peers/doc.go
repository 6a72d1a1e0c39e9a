// Package peers holds small, honest MCP peers, one server and one client for
// each era, for the demo command and for tests. They speak Streamable HTTP and
// share no code with the proxy, so that a mistake in the proxy cannot be
// hidden by the same mistake here.
//
// Legacy means protocol version 2025-11-25: initialize handshake, sessions,
// tasks as part of the core protocol. Modern means 2026-07-28 with the tasks
// extension io.modelcontextprotocol/tasks.
//
// Every goroutine ends with its peer's Close. Nothing sleeps outside a wait
// that a context can end, so the package works inside testing/synctest with a
// [MemListener]. Close a server before the http.Server that serves it: it ends
// the streams that http.Server.Shutdown would wait for.
package peers
