package main

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// monotonic is the time the service manager compares with, in microseconds
// (sd_notify(3), MONOTONIC_USEC); empty if it cannot be had.
func monotonic() string {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return ""
	}
	return strconv.FormatInt(t.Nano()/1000, 10)
}
