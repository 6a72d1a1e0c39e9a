package main

import (
	"crypto/sha256"
	"time"
)

// settings are all a serve command runs with, whether they came from flags or
// from a file. They have been checked.
type settings struct {
	bridgeConfig
	state        string
	logs         logFlags
	drainTimeout time.Duration
	say          naming
	// read is the file before it was read, so that no change after that is missed.
	read [sha256.Size]byte
}
