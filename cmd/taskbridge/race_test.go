//go:build race

package main

// raceEnabled: the detector has memory of its own.
const raceEnabled = true
