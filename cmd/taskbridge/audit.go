package main

import (
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"taskbridge/cmd/taskbridge/config"
	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// auditFlag says where audit lines go: off, log or file:PATH.
type auditFlag config.Audit

func (f *auditFlag) register(fs *pflag.FlagSet) {
	*f = auditFlag{Log: true}
	fs.Var(f, "audit", "where lines about tasks made, fetched, cancelled and refused go: off, log or file:PATH")
}

func (f *auditFlag) Type() string { return "off|log|file:PATH" }

func (f *auditFlag) String() string {
	switch {
	case f.Log:
		return "log"
	case f.File != "":
		return "file:" + f.File
	}
	return "off"
}

func (f *auditFlag) Set(s string) error {
	path, file := strings.CutPrefix(s, "file:")
	switch {
	case s == "off", s == "log":
		*f = auditFlag{Log: s == "log"}
	case file && path != "":
		*f = auditFlag{File: path}
	default:
		return errors.New("want off, log or file:PATH")
	}
	return nil
}

// auditLog writes one line for each task a client made, fetched, cancelled or
// was refused, with what it was told. Tasks and callers are keyed hashes: lines
// tell who did what to which task and nothing that could be used.
type auditLog struct {
	mask func(kind, text string) string
	main *slog.Logger // where lines go that have no file

	mu  sync.RWMutex // held for writing while the place changes
	now auditPlace
}

// auditPlace is where lines go.
type auditPlace struct {
	log  *slog.Logger // nil: nowhere
	file *appendFile  // nil: it is no file, or none was opened
	as   config.Audit
}

var _ session.Observer = (*auditLog)(nil)

func newAuditLog(log *slog.Logger, handles *session.Handles) *auditLog {
	return &auditLog{main: log, mask: handles.MaskText}
}

// place opens where lines are to go, if that is not where they go already.
func (l *auditLog) place(a config.Audit) (auditPlace, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	switch {
	case a == l.now.as:
		return l.now, nil
	case a.File != "":
		f, err := openAppend(a.File)
		if err != nil {
			return auditPlace{}, err
		}
		return auditPlace{newLogger(f, "info", "json"), f, a}, nil
	case a.Log:
		return auditPlace{l.main, nil, a}, nil
	}
	return auditPlace{as: a}, nil
}

// take has lines go to another place. None is lost.
func (l *auditLog) take(p auditPlace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.file != l.now.file {
		l.now.file.close()
	}
	l.now = p
}

// drop gives a place up that was not taken.
func (l *auditLog) drop(p auditPlace) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if p.file != l.now.file {
		p.file.close()
	}
}

func (l *auditLog) close() {
	if l != nil {
		l.take(auditPlace{})
	}
}

// reopen goes on in a new file where the old one was moved away.
func (l *auditLog) reopen() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.now.file.reopen()
}

// Begin implements session.Observer.
func (l *auditLog) Begin(*session.Request) {}

// Loss implements session.Observer.
func (l *auditLog) Loss(session.Lost) {}

// End implements session.Observer.
func (l *auditLog) End(q *session.Request, e session.Ended) {
	what := audited(q, e)
	if what == "" {
		return
	}
	attrs := []any{"what", what, "method", q.MethodLabel(), "outcome", string(e.Outcome), "route", q.Route, "upstream", q.Upstream}
	if e.Code != 0 {
		attrs = append(attrs, "code", e.Code)
	}
	if q.Principal != "" {
		attrs = append(attrs, "principal", l.mask("principal", string(q.Principal)))
	}
	raw := q.Task
	if what == taskCreated {
		raw = e.TaskID
	}
	if id := taskID(raw); id != "" {
		attrs = append(attrs, "task", l.mask("task", id))
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.now.log != nil {
		l.now.log.Info("audit", attrs...)
	}
}

// taskCreated is what a request was that got a task.
const taskCreated = "created"

// audited is what a request was to a task: created, retrieved, cancelled,
// answered or refused; "": none that is written down. Of tasks/get, which
// clients ask again and again, only that which brings the result or is refused is.
func audited(q *session.Request, e session.Ended) string {
	if q.Kind != jsonrpc.Request {
		return ""
	}
	of := map[string]string{"tasks/get": "retrieved", "tasks/result": "retrieved", "tasks/cancel": "cancelled", "tasks/update": "answered", "tasks/list": "listed"}[q.Method]
	failed := e.Outcome == translate.OutcomeError || e.Outcome == translate.OutcomeRefused || e.Outcome == translate.OutcomeUnavailable
	switch {
	case e.Outcome == translate.OutcomeTask && of == "": // within a result that is fetched it is part of that
		return taskCreated
	case of == "":
		if failed && q.Uses&translate.OnlyTaskParam != 0 {
			return "refused"
		}
		return ""
	case failed && q.Method == "tasks/result" && e.Status < 400 && e.Code != unknownTaskCode:
		return of // the error is what the task ended with
	case failed:
		return "refused"
	case e.Outcome == translate.OutcomeCancelled || e.Outcome == translate.OutcomeGone:
		return ""
	case q.Method == "tasks/get" && (q.Down == translate.Legacy || e.Task != translate.Completed && e.Task != translate.Failed):
		return ""
	}
	return of
}

// unknownTaskCode is said of tasks that are unknown, expired or another's.
var unknownTaskCode = int64(translate.ReplyFor(translate.CondUnknownTask, translate.Legacy).Code)

// taskID is the text of an id given as JSON.
func taskID(raw string) string {
	v, err := jsonrpc.ParseValue([]byte(raw))
	if err != nil {
		return ""
	}
	id, _ := v.Str()
	return id
}
