package child

import (
	"os/exec"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// system is a job object: whatever the child starts is in it, and all of it
// ends when the last handle to it is closed, by us or by our own end.
type system struct {
	mu  sync.Mutex // protects job
	job windows.Handle
}

func (s *system) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return
	}
	s.job = job
}

// started puts the child into its job. What it has started before, within the
// first moments, stays outside.
func (s *system) started(cmd *exec.Cmd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job == 0 {
		return
	}
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid))
	if err != nil {
		return
	}
	defer windows.CloseHandle(h)
	_ = windows.AssignProcessToJobObject(s.job, h)
}

// terminate: Windows has no signal a process without a console could be sent;
// closing the input was the orderly way.
func (s *system) terminate(pid int) { s.kill(pid) }

func (s *system) kill(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job != 0 {
		_ = windows.TerminateJobObject(s.job, 1)
		return
	}
	if h, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, uint32(pid)); err == nil {
		_ = windows.TerminateProcess(h, 1)
		_ = windows.CloseHandle(h)
	}
}

func (s *system) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.job != 0 {
		_ = windows.CloseHandle(s.job)
		s.job = 0
	}
}

// sweep: closing the job does it.
func sweep(int, string, []kin, time.Duration) {}

// kin is not needed here: see system.
type kin struct{}

func family(int, string) []kin { return nil }
