package main

import (
	"context"
	"io"
	"log/slog"
	"math"
	"unicode"

	"github.com/spf13/pflag"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// logFlags say what is logged, how and where to.
type logFlags struct{ level, format, file string }

func (l *logFlags) register(fs *pflag.FlagSet) {
	enumVar(fs, &l.level, "log-level", "info", []string{"debug", "info", "warn", "error", "off"}, "least severe messages to log")
	enumVar(fs, &l.format, "log-format", "text", []string{"text", "json"}, "form of log lines")
	fs.StringVar(&l.file, "log-file", "", "append the log to FILE instead of standard error (- is standard output)")
}

// open returns the logger and what closes it.
func (l *logFlags) open(a *app, fs *pflag.FlagSet) (*slog.Logger, func(), error) {
	o, err := l.start(a, fs)
	if err != nil {
		return nil, nil, err
	}
	return o.Logger, o.close, nil
}

func (l *logFlags) start(a *app, fs *pflag.FlagSet) (*logOutput, error) {
	o := &logOutput{app: a}
	p, err := o.place(*l)
	if err != nil {
		return nil, usagef("%s: %w", where(fs, "log-file"), err)
	}
	o.take(p)
	o.Logger = slog.New(logHandler{o: o})
	return o, nil
}

// levelOff is above all levels.
const levelOff = slog.Level(math.MaxInt32)

func levelOf(level string) (least slog.Level) {
	if level == "off" || least.UnmarshalText([]byte(level)) != nil {
		return levelOff
	}
	return least
}

func newLogger(w io.Writer, level, format string) *slog.Logger {
	return slog.New(newHandler(w, levelOf(level), format))
}

func newHandler(w io.Writer, least slog.Leveler, format string) slog.Handler {
	o := &slog.HandlerOptions{Level: least}
	if format == "json" {
		o.ReplaceAttr = escapeAttr
		return slog.NewJSONHandler(w, o)
	}
	// The text handler itself quotes whatever is not printable.
	return slog.NewTextHandler(w, o)
}

// escapeAttr: JSON lets through what turns a terminal's direction of writing,
// and people read logs on terminals.
func escapeAttr(_ []string, a slog.Attr) slog.Attr {
	text := ""
	switch v := a.Value.Any().(type) {
	case string:
		text = v
	case error:
		text = v.Error()
	default:
		return a
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return slog.String(a.Key, showText(text, maxShownError))
		}
	}
	return slog.String(a.Key, text)
}

// logTap logs each message's method and size, never what it says.
type logTap struct{ log *slog.Logger }

var _ session.Tap = logTap{}

// Frame implements session.Tap.
func (t logTap) Frame(f translate.Frame) {
	attrs := make([]any, 0, 12)
	attrs = append(attrs, "leg", f.Leg.String(), "dir", f.Dir.String(), "stream", f.Stream)
	if h := f.HTTP; h != nil && h.Verb != "" {
		attrs = append(attrs, "verb", h.Verb)
	} else if h != nil && h.Status != 0 {
		attrs = append(attrs, "status", h.Status)
	}
	if m := f.Msg; m != nil {
		attrs = append(attrs, "what", messageName(m), "bytes", len(m.Raw))
	}
	t.log.Debug("message", attrs...)
}

func messageName(m *jsonrpc.Message) string {
	switch m.Kind {
	case jsonrpc.Response:
		return "result"
	case jsonrpc.ErrorResponse:
		return "error"
	}
	return showText(m.Method, 80)
}

// taps shows frames to several, one after the other.
type taps []session.Tap

// Frame implements session.Tap.
func (t taps) Frame(f translate.Frame) {
	for _, one := range t {
		one.Frame(f)
	}
}

// tee is a tap for both; first may be nil.
func tee(first, second session.Tap) session.Tap {
	if first == nil {
		return second
	}
	return taps{first, second}
}

// debugTap is a tap for log, or nil if nobody would read it.
func debugTap(log *slog.Logger) session.Tap {
	if log.Enabled(context.Background(), slog.LevelDebug) {
		return logTap{log}
	}
	return nil
}
