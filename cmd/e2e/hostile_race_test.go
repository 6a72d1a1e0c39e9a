//go:build race

package e2e

// raceEnabled: the detector's own cost says nothing about ours.
const raceEnabled = true
