// Package ws carries messages over WebSocket (RFC 6455), the same way on both
// sides of the proxy: one message a text message, bounds of size, memory and
// time, keep-alive, and an orderly end. The protocol has no page for WebSocket:
// it is a custom transport (2025-11-25 and 2026-07-28 basic/transports), and what
// is done here is what the official SDK's client does.
package ws
