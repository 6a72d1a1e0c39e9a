package config

import (
	"strconv"
	"strings"
)

// reader turns nodes into the parts of a File.
type reader struct {
	problems
	getenv   Getenv
	over     func(*File)
	folder   string // names of files are relative to it; empty: to ours
	defaults Policies
	root     []part // all keys of a file

	visits   int               // of nodes, those behind aliases every time
	expanded int               // bytes that came out of variables
	written  map[string]string // texts with variables, by path
}

// place is a value and where it stands.
type place struct {
	path string
	*node
}

func (at place) member(key string, n *node) place {
	if at.path == "" {
		return place{key, n}
	}
	return place{at.path + "." + key, n}
}

func (at place) item(i int) place {
	return place{at.path + "[" + strconv.Itoa(i) + "]", at.items[i]}
}

// bad reports about the value of a place.
func (r *reader) bad(at place, format string, args ...any) {
	if at.shape == given { // a default is ours: it is the environment's or a test's fault
		r.at(at.path, format, args...)
		return
	}
	r.add(at.mark, at.path, format, args...)
}

// broken: something about a path, or what is under it, was reported. What else
// one could say of it would be guesses.
func (r *reader) broken(path string) bool {
	for _, p := range r.list {
		if rest, ok := strings.CutPrefix(p.Path, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// fits reports what does not fit together, about a path nothing was said of.
func (r *reader) fits(path, format string, args ...any) {
	if !r.broken(path) {
		r.at(path, format, args...)
	}
}

// visit counts a value and notes where it stands; false once there are too many.
func (r *reader) visit(at place) bool {
	if r.visits++; r.visits > maxNodes {
		if r.visits == maxNodes+1 {
			r.add(at.mark, "", "aliases stand for more than %d values in all; use fewer", maxNodes)
		}
		return false
	}
	if at.shape != given {
		r.marks[at.path] = at.mark
	}
	return true
}

// want reports that something else was expected.
func (r *reader) want(at place, what string) {
	if at.shape == null {
		r.bad(at, "has no value; want %s, or remove the key", what)
		return
	}
	r.bad(at, "is %s; want %s", shapeWords[at.shape], what)
}

// text returns the value of a text with variables expanded; what says what
// is wanted. Whoever quotes it quotes source instead, which holds no secret
// of the environment.
func (r *reader) text(at place, what string) (value string, ok bool) {
	if at.shape != text && at.shape != given {
		r.want(at, what)
		return "", false
	}
	return r.expand(at)
}

func (r *reader) expand(at place) (string, bool) {
	if at.shape == given || !strings.Contains(at.text, "${") {
		return at.text, true
	}
	r.written[at.path] = at.text
	value, err := expand(at.text, r.getenv)
	if err == nil {
		if r.expanded += len(value); r.expanded > 16*MaxSource {
			r.bad(at, "variables stand for more than %d MiB in all", 16*MaxSource>>20)
			return "", false
		}
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' && c != '\n' || c == 0x7f }) {
			r.bad(at, "the value of an environment variable in it holds a control character")
			return "", false
		}
		return value, true
	}
	r.bad(at, "%v", err)
	return "", false
}

// shown quotes the value of a path, as it is written where it holds variables.
func (r *reader) shown(path, value string) string {
	if s, ok := r.written[path]; ok {
		return quote(s)
	}
	return quote(value)
}

// source quotes a scalar as written.
func (at place) source() string { return quote(at.text) }

// scalar is text for what is not written in quotes: a number, true, a
// duration, or text with a variable that stands for one.
func (r *reader) scalar(at place, plain shape, what string) (string, bool) {
	if at.shape == plain || at.shape == given {
		return at.text, true
	}
	if at.shape == text && strings.Contains(at.text, "${") {
		v, ok := r.expand(at)
		return strings.TrimSpace(v), ok
	}
	if at.shape == text {
		r.bad(at, "%s is text; want %s", at.source(), what)
		return "", false
	}
	r.want(at, what)
	return "", false
}
