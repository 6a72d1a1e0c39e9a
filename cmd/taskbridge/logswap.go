package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
)

// logOutput is a log that can change while it is written: its level, the form of
// its lines, and where they go.
type logOutput struct {
	*slog.Logger
	app   *app
	level slog.LevelVar

	mu   sync.RWMutex // held for writing while the fields below change
	to   slog.Handler
	file *appendFile // nil: it is no file
	as   logFlags    // what was asked for
}

// logPlace is where lines go, and how.
type logPlace struct {
	to   slog.Handler
	file *appendFile // opened for it; nil: none was
	kept bool        // the file is the one there is
	as   logFlags
}

// set changes the level.
func (o *logOutput) set(level string) { o.level.Set(levelOf(level)) }

// place opens what flags name, if it is not what there is already.
func (o *logOutput) place(l logFlags) (p logPlace, err error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	p.as = l
	var w io.Writer = o.app.stderr
	switch {
	case l.file == "":
	case l.file == "-":
		w = &lockedWriter{w: o.app.stdout}
	case o.file != nil && o.file.name == l.file:
		p.file, p.kept, w = o.file, true, o.file
	default:
		if p.file, err = openAppend(l.file); err != nil {
			return p, err
		}
		w = p.file
	}
	p.to = newHandler(w, &o.level, l.format)
	return p, nil
}

// drop gives a place up that was not taken.
func (p logPlace) drop() {
	if !p.kept {
		p.file.close()
	}
}

// take has lines go to another place. None is lost.
func (o *logOutput) take(p logPlace) {
	o.set(p.as.level)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !p.kept {
		o.file.close()
	}
	o.to, o.file, o.as = p.to, p.file, p.as
}

// reopen goes on in a new file where the old one was moved away.
func (o *logOutput) reopen() error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.file.reopen()
}

func (o *logOutput) close() {
	o.mu.RLock()
	defer o.mu.RUnlock()
	o.file.close()
}

// logHandler writes to where a logOutput goes at the time.
type logHandler struct {
	o *logOutput
	// with is what a logger was given beforehand, in order.
	with []func(slog.Handler) slog.Handler
}

var _ slog.Handler = logHandler{}

// Enabled implements slog.Handler.
func (h logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.o.level.Level() }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	h.o.mu.RLock()
	defer h.o.mu.RUnlock()
	to := h.o.to
	for _, with := range h.with {
		to = with(to)
	}
	return to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.then(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	return h.then(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h logHandler) then(with func(slog.Handler) slog.Handler) slog.Handler {
	return logHandler{h.o, append(h.with[:len(h.with):len(h.with)], with)}
}
