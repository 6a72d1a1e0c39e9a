package session_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
)

// scenarioDir holds the scenarios and, under include, what they share.
const scenarioDir = "../testdata/scenarios"

// step is one section of a scenario: a verb, a name, "key: value" lines and
// a JSON message.
type step struct {
	title string // as written, without its number
	verb  string
	name  string   // exchange or client stream
	words []string // further words of the title: final, optional
	opts  map[string][]string
	order []string // keys of opts as written
	body  string
	from  string // the include it came from, "" for the scenario itself
}

func (s *step) opt(key string) string {
	if v := s.opts[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (s *step) has(word string) bool { return slices.Contains(s.words, word) }

// setOpt writes one option over, or takes it out.
func (s *step) setOpt(key string, values ...string) {
	if len(values) == 0 {
		delete(s.opts, key)
		s.order = slices.DeleteFunc(s.order, func(k string) bool { return k == key })
		return
	}
	if s.opts == nil {
		s.opts = map[string][]string{}
	}
	if _, ok := s.opts[key]; !ok {
		s.order = append(s.order, key)
	}
	s.opts[key] = values
}

// scenario is one file.
type scenario struct {
	name    string
	comment string
	skip    string // reason, from a comment line "Skip: …"
	steps   []*step
}

func cut(line string) (key, value string) {
	k, v, _ := strings.Cut(line, ":")
	return strings.TrimSpace(k), strings.TrimSpace(v)
}

var verbs = []string{"setup", "vars", "include", "client-in", "client-out", "client-gone", "server-out", "server-in", "server-closed", "wait", "end"}

func loadScenario(name string) (*scenario, error) {
	sc := &scenario{name: name}
	a, err := txtar.ParseFile(filepath.Join(scenarioDir, name+".txtar"))
	if err != nil {
		return nil, err
	}
	sc.comment = string(a.Comment)
	for line := range strings.Lines(sc.comment) {
		if k, v := cut(line); k == "Skip" {
			sc.skip = v
		}
	}
	sc.steps, err = readSteps(a, "")
	return sc, err
}

func readSteps(a *txtar.Archive, from string) ([]*step, error) {
	var steps []*step
	for _, f := range a.Files {
		s, err := readStep(f)
		if err != nil {
			return nil, err
		}
		s.from = from
		steps = append(steps, s)
		if s.verb != "include" {
			continue
		}
		inc, err := txtar.ParseFile(filepath.Join(scenarioDir, "include", s.name+".txtar"))
		if err != nil {
			return nil, err
		}
		more, err := readSteps(inc, s.name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	return steps, nil
}

func readStep(f txtar.File) (*step, error) {
	words := strings.Fields(f.Name)
	if len(words) > 0 && strings.Trim(words[0], "0123456789") == "" {
		words = words[1:]
	}
	if len(words) == 0 || !slices.Contains(verbs, words[0]) {
		return nil, fmt.Errorf("section %q: want one of %v", f.Name, verbs)
	}
	s := &step{title: strings.Join(words, " "), verb: words[0]}
	words = words[1:]
	if len(words) > 0 && words[0] != "final" {
		s.name, words = words[0], words[1:]
	}
	s.words = words
	if s.verb == "vars" {
		s.body = string(f.Data)
		return s, nil
	}
	rest := f.Data
	for len(bytes.TrimSpace(rest)) > 0 {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		text := strings.TrimSpace(string(line))
		if text == "" {
			rest = after
			continue
		}
		if text[0] == '{' || text[0] == '[' || text[0] == '"' {
			break
		}
		k, v := cut(text)
		s.setOpt(k, append(s.opts[k], v)...)
		rest = after
	}
	s.body = strings.TrimSpace(string(rest))
	return s, nil
}

// write puts a scenario back on disk with its sections numbered.
func (sc *scenario) write(steps []*step) error {
	a := &txtar.Archive{Comment: []byte(sc.comment)}
	n := 0
	for _, s := range steps {
		if s.from != "" {
			continue
		}
		title := s.title
		if s.verb != "setup" && s.verb != "vars" && s.verb != "end" {
			n++
			title = fmt.Sprintf("%02d %s", n, title)
		}
		var b strings.Builder
		if s.verb == "vars" {
			b.WriteString(s.body)
		} else {
			for _, k := range s.order {
				for _, v := range s.opts[k] {
					b.WriteString(strings.TrimRight(k+": "+v, " ") + "\n")
				}
			}
			if s.body != "" {
				b.WriteString(s.body + "\n")
			}
		}
		a.Files = append(a.Files, txtar.File{Name: title, Data: []byte(b.String())})
	}
	return os.WriteFile(filepath.Join(scenarioDir, sc.name+".txtar"), txtar.Format(a), 0o644)
}
