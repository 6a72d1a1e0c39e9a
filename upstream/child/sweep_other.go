//go:build unix && !linux

package child

import (
	"syscall"
	"time"
)

// sweep ends what is left of the group of a process that has exited. Processes
// that moved to a session of their own are not found here: only Linux lets us
// look for them.
func sweep(pid int, _ string, _ []kin, grace time.Duration) {
	if pid <= 1 || !groupAlive(pid) {
		return
	}
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	for end := time.Now().Add(grace); groupAlive(pid) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}

// groupAlive says whether any process of the group is left.
func groupAlive(pid int) bool { return syscall.Kill(-pid, 0) == nil }

// kin is not known here.
type kin struct{}

func family(int, string) []kin { return nil }
