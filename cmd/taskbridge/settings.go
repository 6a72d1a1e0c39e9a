package main

import "time"

// settings are all a serve command runs with, whether they came from flags or
// from a file. They have been checked.
type settings struct {
	bridgeConfig
	state        string
	logs         logFlags
	drainTimeout time.Duration
	say          naming
}
