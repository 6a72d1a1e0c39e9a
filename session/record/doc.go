// Package record keeps what passes a bridge in capture files, and opens them
// again. What a capture looks like is translate/capture's.
package record
