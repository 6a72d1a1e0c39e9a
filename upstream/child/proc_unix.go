//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

// system is what the operating system knows of a child.
type system struct{}

// prepare: a group of its own, so that all of it can be signalled, and the
// terminal's signals are ours alone to pass on.
func (system) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func (system) started(*exec.Cmd) {}
func (system) close()            {}

// terminate and kill signal the whole group. A group outlives its leader, and
// its number is not given out again while it does.
func (system) terminate(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }
func (system) kill(pid int)      { _ = syscall.Kill(-pid, syscall.SIGKILL) }
