package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	File   string // as shown to people
	Line   int    // from one; 0: of the file as a whole
	Column int    // in characters, from one
	Path   string // of the field, as in routes[0].upstreams[1].weight; may be empty
	// Text says what is wrong and what would be right. It never holds the value
	// of an environment variable, a header or a URL.
	Text string
}

// String is FILE:LINE:COLUMN: PATH: TEXT, what is unknown left out.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path)
		b.WriteString(": ")
	}
	b.WriteString(p.Text)
	return b.String()
}

// mark is where a value begins; both count from one, columns in characters.
type mark struct{ line, column int }

// maxProblems are shown; a file with more has one mistake made often.
const maxProblems = 50

// problems gathers what is wrong with a file.
type problems struct {
	file  string
	marks map[string]mark // by path
	list  []Problem
	more  int // left out of list
}

// at reports about the value of a path, or about what it would stand in.
func (p *problems) at(path, format string, args ...any) {
	p.add(p.mark(path), path, format, args...)
}

func (p *problems) mark(path string) mark {
	for {
		if m, ok := p.marks[path]; ok {
			return m
		}
		cut := max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '['))
		if cut < 0 {
			return p.marks[""]
		}
		path = path[:cut]
	}
}

func (p *problems) add(m mark, path, format string, args ...any) {
	if len(p.list) >= 4*maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, Problem{p.file, m.line, m.column, path, fmt.Sprintf(format, args...)})
}

// sorted is what there is to say, from the top of the file to its end.
func (p *problems) sorted() []Problem {
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	p.list = slices.Compact(p.list)
	if n := len(p.list) - maxProblems; n > 0 {
		p.list = p.list[:maxProblems]
		p.more += n
	}
	if p.more > 0 {
		p.list = append(p.list, Problem{File: p.file, Text: fmt.Sprintf("%d more problems are not shown; mend these first", p.more)})
	}
	return p.list
}

// Problem is a finding of somebody who used the file, with the place of the
// field it is about, as in routes[0].upstreams[1].headers.
func (f *File) Problem(path, format string, args ...any) Problem {
	p := problems{file: f.Name, marks: f.marks}
	p.at(path, format, args...)
	return p.list[0]
}

const maxQuoted = 60

// quote shows text of the file.
func quote(s string) string {
	if utf8.RuneCountInString(s) > maxQuoted {
		s = string([]rune(s)[:maxQuoted]) + "…"
	}
	return strconv.Quote(s)
}

// oneOf is "a, b or c".
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// nearest is the word most like the given one, or "" if none is like it. The
// kebab-case of ours is seen through: allowedHosts is like allowed-hosts.
func nearest(word string, words []string) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(s))
	}
	if len(word) > 64 {
		return ""
	}
	w := plain(word)
	best, least := "", 3
	if len(w) < 5 {
		least = 2
	}
	for _, other := range words {
		o := plain(other)
		d := distance(w, o)
		if len(w) >= 4 && (strings.HasPrefix(o, w) || strings.HasSuffix(o, w)) {
			d = min(d, 1)
		}
		if d < least {
			best, least = other, d
		}
	}
	return best
}

// distance is Levenshtein's, with two letters that changed places as one slip.
func distance(a, b string) int {
	rows := [3][]int{}
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := last[j-1]
			if a[i-1] != b[j-1] {
				cost++
			}
			row[j] = min(cost, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
