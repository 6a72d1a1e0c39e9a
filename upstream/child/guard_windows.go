package child

import "io"

// Guard is not needed here: the job object ends with us.
type Guard struct{}

// NewGuard returns nil: see Guard.
func NewGuard(...string) *Guard { return nil }

func (*Guard) expect(string)     {}
func (*Guard) watch(string, int) {}
func (*Guard) forget(string)     {}

// Close implements io.Closer.
func (*Guard) Close() error { return nil }

// RunGuard does nothing: see Guard.
func RunGuard(io.Reader) {}
