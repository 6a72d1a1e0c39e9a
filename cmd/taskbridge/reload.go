package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// reloader puts a changed configuration file to work while the proxy runs.
type reloader struct {
	load    func() (*settings, error)
	bridge  *bridge
	manager notifier
	file    string       // empty: the command line is the configuration
	logs    *logOutput   // nil: the log stays as it is
	admin   *adminServer // nil: there is none

	running sync.Mutex // one reload at a time

	mu      sync.Mutex // protects the fields below
	current *settings
	ok      bool // what was last read is what runs
	at      time.Time
	read    [sha256.Size]byte // the file, just before it was last read
}

func newReloader(a *app, f *serveFlags, fs *pflag.FlagSet, c *settings, b *bridge, m notifier) *reloader {
	r := &reloader{
		load:   func() (*settings, error) { return f.load(a, fs) },
		bridge: b, manager: m, file: f.config, current: c, ok: true, at: time.Now(),
	}
	if r.file != "" {
		c.metrics.watchReloads(r.last)
	}
	r.read = c.read
	return r
}

// last says how the last reading went, and when one was last put to work.
func (r *reloader) last() (ok bool, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ok, r.at
}

// lastRead are the contents of the file when it was last read, by whatever
// asked for it.
func (r *reloader) lastRead() [sha256.Size]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read
}

// settings are those that run.
func (r *reloader) settings() *settings {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// errNoFile: there is nothing that could have changed.
var errNoFile = errors.New("the command line is the configuration, and stays as it is while the proxy runs; start it with --config FILE for what is to change")

// errStdin: what came from standard input cannot be read again.
var errStdin = errors.New("the configuration came from standard input and cannot be read again; start the proxy with --config FILE for what is to change")

// reload reads the file and puts it to work. On an error nothing has changed;
// the error says why, each line beginning with FILE:LINE:COLUMN.
func (r *reloader) reload(ctx context.Context, why string) error {
	r.running.Lock()
	defer r.running.Unlock()
	if r.file != "" && r.file != "-" {
		now := contents(r.file)
		r.mu.Lock()
		r.read = now
		r.mu.Unlock()
	}
	err := r.try(ctx)
	if r.file == "" || r.file == "-" {
		r.bridge.log.Info("nothing is reloaded", "because", why, "err", err)
		return err
	}
	r.mu.Lock()
	r.ok = err == nil
	if err == nil {
		r.at = time.Now()
	}
	r.mu.Unlock()
	if err == nil {
		r.bridge.log.Info("the configuration was reloaded", "because", why, "file", r.file)
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		r.bridge.log.Error("the configuration was not reloaded, what ran before goes on", "because", why, "problem", strings.TrimSpace(line))
	}
	return err
}

func (r *reloader) try(ctx context.Context) error {
	r.manager.reloading()
	defer r.manager.say("READY=1")
	switch r.file {
	case "":
		return errNoFile
	case "-":
		return errStdin
	}
	next, err := r.load()
	if err != nil {
		return err
	}
	old := r.settings()
	if err := fixed(old, next); err != nil {
		return err
	}
	next.log, next.tap, next.metrics = old.log, old.tap, old.metrics
	var place logPlace
	if r.logs != nil {
		if place, err = r.logs.place(next.logs); err != nil {
			return fmt.Errorf("%s: %w", next.say.at("log-file", nil, nil), err)
		}
	}
	if err := r.bridge.apply(ctx, next.bridgeConfig); err != nil {
		place.drop()
		if e, ok := errors.AsType[*settingError](err); ok {
			return fmt.Errorf("%s: %w", next.say.at(e.setting, nil, nil), e.err)
		}
		return fmt.Errorf("%s: %w", r.file, err)
	}
	if r.logs != nil {
		r.logs.take(place)
	}
	if r.admin != nil && next.admin != nil && next.admin.token != "" {
		r.admin.setToken(next.admin.token)
	}
	next.advise(next.log, false)
	r.mu.Lock()
	r.current = next
	r.mu.Unlock()
	return nil
}

// fixed refuses what cannot change while the proxy runs.
func fixed(old, next *settings) error {
	var lines []string
	refuse := func(setting string, l *listenerConfig, what string) {
		lines = append(lines, fmt.Sprintf("%s: %s while the proxy runs; restart it, or put back what was there", next.say.at(setting, l, nil), what))
	}
	fixedListeners(old, next, refuse)
	for _, one := range []struct {
		setting string
		same    bool
	}{
		{"admin", old.admin.like(next.admin)},
		{"state", old.state == next.state},
		{"max-message", old.maxMessage == next.maxMessage},
		{"record", sameRecord(old.record, next.record)},
	} {
		if !one.same {
			refuse(one.setting, nil, "cannot change")
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return problems(strings.Join(lines, "\n"))
}

func fixedListeners(old, next *settings, refuse func(setting string, l *listenerConfig, what string)) {
	if len(old.listeners) != len(next.listeners) {
		refuse("listeners", nil, fmt.Sprintf("there were %d, and none can come or go", len(old.listeners)))
		return
	}
	for i := range next.listeners {
		was, is := &old.listeners[i], &next.listeners[i]
		switch {
		case was.name != is.name:
			refuse("listeners", nil, "their names and order cannot change")
		case was.address != is.address || was.loopback != is.loopback:
			refuse("listen", is, "it was "+was.address+" and cannot change")
		case (was.pair == nil) != (is.pair == nil):
			refuse("tls", is, "encryption cannot be switched on or off")
		}
	}
}

func sameRecord(a, b *recordConfig) bool {
	if a == nil || b == nil {
		return a == b
	}
	return reflect.DeepEqual(a.recordFlags, b.recordFlags)
}

// reopen goes on in new files for what is appended to one, where the old ones
// were moved away; what cannot be had stays as it was.
func (r *reloader) reopen() {
	if r.logs != nil {
		if err := r.logs.reopen(); err != nil {
			r.bridge.log.Error("the log's file could not be opened anew", "err", err)
		}
	}
	if err := r.bridge.audit.reopen(); err != nil {
		r.bridge.log.Error("the audit file could not be opened anew", "err", err)
	}
}

// takeHangups makes SIGHUP no longer end the process: to a service it says read
// your configuration again. The command's own handler of it is replaced, until
// undo.
func (r *reloader) takeHangups() (undo func()) {
	c, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Reset(syscall.SIGHUP)
	signal.Notify(c, syscall.SIGHUP)
	go func() {
		defer close(done)
		for range c {
			r.reopen()
			_ = r.reload(context.Background(), "SIGHUP") // it is in the log
		}
	}()
	return func() { signal.Stop(c); close(c); <-done }
}
