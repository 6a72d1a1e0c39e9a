package session

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestStoreFailed: what the store refuses is logged, what a runner breaks off
// because it is closed is not.
func TestStoreFailed(t *testing.T) {
	var out strings.Builder
	r := &Runner{log: slog.New(slog.NewTextHandler(&out, nil))}
	var stop context.CancelFunc
	r.ctx, stop = context.WithCancel(t.Context())
	r.storeFailed("write timer", errors.New("full"), "kind", "ltask")
	if got := out.String(); !strings.Contains(got, `level=ERROR msg="write timer" kind=ltask err=full`) {
		t.Errorf("logged: %s", got)
	}
	out.Reset()
	stop()
	r.storeFailed("write timer", context.Canceled)
	if out.Len() > 0 {
		t.Errorf("logged: %s", out.String())
	}
}
