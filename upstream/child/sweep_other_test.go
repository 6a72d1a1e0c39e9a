//go:build unix && !linux

package child

import "syscall"

const sweeps = false

func running(pid int) bool { return syscall.Kill(pid, 0) == nil }
