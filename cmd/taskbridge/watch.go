package main

import (
	"context"
	"crypto/sha256"
	"io"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"taskbridge/cmd/taskbridge/config"
)

// settleTime is how long a file must stay the same before it is put to work:
// editors and copies write in several steps.
const settleTime = 200 * time.Millisecond

// watch reloads when the file has other contents than before, until stop. It
// looks at folders, not at the file: editors and Kubernetes put another file in
// its place, the latter by moving a symbolic link further up.
func (r *reloader) watch() (stop func()) {
	if r.file == "" || r.file == "-" {
		return func() {}
	}
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = w.Add(filepath.Dir(r.file))
	}
	if err != nil {
		r.bridge.log.Warn("the configuration file is not watched; after a change send SIGHUP", "file", r.file, "err", err)
		if w != nil {
			w.Close()
		}
		return func() {}
	}
	r.watchTarget(w)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.follow(w)
	}()
	return func() { w.Close(); <-done }
}

// watchTarget adds the folder the file is in when all links are followed.
func (r *reloader) watchTarget(w *fsnotify.Watcher) {
	if target, err := filepath.EvalSymlinks(r.file); err == nil {
		_ = w.Add(filepath.Dir(target)) // it may be the same, or gone again
	}
}

// follow looks at the file soon after each event. Other files of the folder may
// change all the time, a log say, so that nothing is waited for but what the file
// itself holds.
func (r *reloader) follow(w *fsnotify.Watcher) {
	absent, seen := 0, r.lastRead()
	due := true // once: it may have changed since it was read
	look := time.NewTimer(settleTime)
	defer look.Stop()
	soon := func() {
		if !due {
			due = true
			look.Reset(settleTime)
		}
	}
	for {
		select {
		case _, ok := <-w.Events:
			if !ok {
				return
			}
			soon()
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			r.bridge.log.Warn("watch the configuration file", "file", r.file, "err", err)
			soon() // events may have been lost
		case <-look.C:
			due = false
			r.watchTarget(w) // a link may lead elsewhere now
			now := contents(r.file)
			if absent++; now != none {
				absent = 0
			}
			if now == r.lastRead() {
				continue
			}
			if now != seen || now == none && absent < maxAbsent {
				seen = now
				soon()
				continue
			}
			_ = r.reload(context.Background(), "the file changed") // it is in the log
		}
	}
}

// maxAbsent is how often a file may not be there, or not be readable, before
// that is said: it may be about to be replaced.
const maxAbsent = 5

// none are the contents of a file that cannot be read.
var none [sha256.Size]byte

// contents tells one reading of a file from another, of one that is too large
// to be taken by its beginning.
func contents(name string) [sha256.Size]byte {
	f, err := config.OpenRegular(name)
	if err != nil {
		return none
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, config.MaxSource+1))
	if err != nil {
		return none
	}
	return sha256.Sum256(raw)
}
