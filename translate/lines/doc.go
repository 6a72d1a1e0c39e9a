// Package lines frames messages as lines: one JSON text a line, as on the
// standard streams of a process (2026-07-28 basic/transports/stdio). It is
// pure: it knows no clock and starts nothing.
package lines
