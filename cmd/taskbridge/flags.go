package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const (
	envPrefix = "TASKBRIDGE_"
	// fromEnv marks a flag whose value came from the environment.
	fromEnv = "taskbridge_env"
)

// envName is the environment variable of a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// noEnv: questions, not settings. An image that sets TASKBRIDGE_VERSION must
// not turn every command into that question.
var noEnv = []string{"help", "version"}

// applyEnv gives every flag that is not on the command line the value of its
// environment variable, if that is set and not empty. Lists are split at
// newlines.
func applyEnv(fs *pflag.FlagSet) error {
	var failed error
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed || failed != nil || slices.Contains(noEnv, f.Name) {
			return
		}
		name := envName(f.Name)
		value := os.Getenv(name)
		if value == "" {
			return
		}
		if err := setFromEnv(f, value); err != nil {
			failed = usagef("%s=%q: %s", name, value, plainValueError(err))
			return
		}
		f.Changed = true
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[fromEnv] = []string{name}
	})
	return failed
}

func setFromEnv(f *pflag.Flag, value string) error {
	list, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return f.Value.Set(value)
	}
	var lines []string
	for line := range strings.Lines(value) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return list.Replace(lines)
}

// where names a flag as the user gave it: "--listen", or its environment
// variable.
func where(fs *pflag.FlagSet, name string) string {
	if f := fs.Lookup(name); f != nil && len(f.Annotations[fromEnv]) > 0 {
		return f.Annotations[fromEnv][0]
	}
	return "--" + name
}

// enumFlag is one of a few words.
type enumFlag struct {
	value   *string
	allowed []string
}

func enumVar(fs *pflag.FlagSet, p *string, name, def string, allowed []string, usage string) {
	*p = def
	fs.Var(&enumFlag{p, allowed}, name, usage)
}

func (e *enumFlag) String() string { return *e.value }
func (e *enumFlag) Type() string   { return strings.Join(e.allowed, "|") }

func (e *enumFlag) Set(s string) error {
	if !slices.Contains(e.allowed, s) {
		last := len(e.allowed) - 1
		return errors.New("want " + strings.Join(e.allowed[:last], ", ") + " or " + e.allowed[last])
	}
	*e.value = s
	return nil
}

// durationFlag is a duration that names its unit, and is above zero unless
// zero means something.
type durationFlag struct {
	value *time.Duration
	zero  bool
}

func durationVar(fs *pflag.FlagSet, p *time.Duration, name string, def time.Duration, usage string) {
	*p = def
	fs.Var(&durationFlag{p, def == 0}, name, usage)
}

func (d *durationFlag) Type() string { return "duration" }

func (d *durationFlag) String() string {
	if d.value == nil || *d.value == 0 {
		return "0" // pflag takes it for no default
	}
	return d.value.String()
}

func (d *durationFlag) Set(s string) error {
	v, err := time.ParseDuration(s)
	switch {
	case err != nil && isNumber(s):
		return fmt.Errorf("a duration needs a unit, as in %sms or %ss", s, s)
	case err != nil:
		return errors.New("want a duration such as 500ms, 10s or 2m")
	case v < 0 || v == 0 && !d.zero:
		return errors.New("must be above zero")
	}
	*d.value = v
	return nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// sizeFlag is a number of bytes, above zero unless zero means something.
type sizeFlag struct {
	value *int64
	zero  bool
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}}

func sizeVar(fs *pflag.FlagSet, p *int64, name string, def int64, usage string) {
	*p = def
	fs.Var(&sizeFlag{p, def == 0}, name, usage)
}

func (s *sizeFlag) Type() string { return "size" }

func (s *sizeFlag) String() string {
	if s.value == nil || *s.value == 0 {
		return "0" // pflag takes it for no default
	}
	n := *s.value
	for _, u := range slices.Backward(sizeUnits[:3]) {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func (s *sizeFlag) Set(text string) error {
	unit := int64(1)
	digits := text
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			digits, unit = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 0 || n == 0 && !s.zero || n > (1<<62)/unit {
		return errors.New("want a size such as 64MiB or 1048576")
	}
	*s.value = n * unit
	return nil
}
