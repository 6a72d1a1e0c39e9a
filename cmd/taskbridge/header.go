package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"taskbridge/cmd/taskbridge/config"
)

const maxHeaderLine = 64 << 10

// readHeaders reads --header and --header-file. Errors name the place and
// never show a value: it is a secret more often than not.
func (a *app) readHeaders(flagName string, lines, files []string) (http.Header, error) {
	h := http.Header{}
	for i, line := range lines {
		if err := addHeader(h, line); err != nil {
			at := flagName
			if len(lines) > 1 {
				at = fmt.Sprintf("%s number %d", flagName, i+1)
			}
			return nil, usagef("%s: %w", at, err)
		}
	}
	for _, name := range files {
		if err := a.readHeaderFile(h, name); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// readHeaderFile reads one "Name: value" a line; lines that begin with # and
// empty ones are skipped. "-" is standard input.
func (a *app) readHeaderFile(h http.Header, name string) error {
	r := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return usagef("header file: %w", err)
		}
		defer f.Close()
		r = f
	}
	sc := bufio.NewScanner(io.LimitReader(r, 16*maxHeaderLine))
	sc.Buffer(nil, maxHeaderLine)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := addHeader(h, line); err != nil {
			return usagef("header file %s, line %d: %w", name, n, err)
		}
	}
	if err := sc.Err(); err != nil {
		return usagef("header file %s: %w", name, err)
	}
	return nil
}

// addHeader adds "Name: value", or "Name:value": client configurations mangle
// arguments with blanks.
func addHeader(h http.Header, line string) error {
	line, err := expandVars(line)
	if err != nil {
		return err
	}
	name, value, ok := strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	switch {
	case !ok:
		return errors.New("want 'NAME: VALUE', with a colon")
	case name == "" || strings.ContainsAny(name, " \t"):
		return errors.New("want 'NAME: VALUE'; what stands before the colon is no header name")
	case value == "":
		return fmt.Errorf("header %s has no value", showText(name, maxShown))
	}
	h.Add(name, value)
	return nil
}

// expandVars replaces ${VAR} by the environment variable, which must be set: a
// credential that silently becomes empty is worse than an error.
func expandVars(s string) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return "", errors.New("${ without a closing }")
		}
		if !config.IsVarName(name) {
			return "", errors.New("${…} does not hold the name of an environment variable")
		}
		value, set := os.LookupEnv(name)
		if !set {
			return "", fmt.Errorf("environment variable %s is not set", name)
		}
		b.WriteString(value)
		s = after
	}
}
