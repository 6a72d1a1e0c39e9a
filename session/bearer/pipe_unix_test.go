//go:build unix

package bearer

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKeyPipe: a pipe that came to stand where the keys were is not waited for.
func TestKeyPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(name, []byte(`{"keys":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := NewKeySet(KeyOptions{Source: name})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(name)
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.read(t.Context())
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "is no file") {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the reading does not end")
	}
}
