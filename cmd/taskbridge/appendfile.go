package main

import (
	"os"
	"sync"
	"syscall"
)

// appendFile is a file that lines are appended to. It can be opened anew where
// it was moved away, as logrotate does. A nil *appendFile is none.
type appendFile struct {
	name string

	mu sync.Mutex // protects f
	f  *os.File
}

func openAppend(name string) (*appendFile, error) {
	f, err := openToAppend(name)
	if err != nil {
		return nil, err
	}
	return &appendFile{name: name, f: f}, nil
}

// openToAppend does not wait for somebody to read where the name is a pipe's: that
// is an error (ENXIO), or who reloads would wait for ever, and all others for him.
func openToAppend(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
}

// Write implements io.Writer.
func (a *appendFile) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.f.Write(p)
}

// reopen goes on in the file that has the name now, which is made if there is
// none. On an error what was open stays so.
func (a *appendFile) reopen() error {
	if a == nil {
		return nil
	}
	f, err := openToAppend(a.name)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.f
	a.f = f
	return old.Close()
}

func (a *appendFile) close() {
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.f.Close()
	}
}
