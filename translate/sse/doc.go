// Package sse reads and writes event streams as the WHATWG HTML standard defines
// them (section 9.2, Server-sent events), with a bound on everything a peer can
// make long. It does not look into the data.
package sse
