//go:build !linux

package main

// monotonic: only Linux has a service manager that asks for it.
func monotonic() string { return "" }
