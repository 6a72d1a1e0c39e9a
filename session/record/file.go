package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxPart bounds the numbers tried for the name of a part.
const maxPart = 1_000_000

// parts names the files of a recording.
type parts struct {
	name    string
	rotates bool
	last    int // the number of the part made last
}

// create makes the next file. It never writes to one that is there, nor through
// a symbolic link, and nobody but the owner may read it.
func (p *parts) create() (*os.File, error) {
	if !p.rotates {
		f, err := createFile(p.name)
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s exists, and a recording overwrites nothing: name another file, or have numbered files by rotating", p.name)
		}
		return f, err
	}
	if p.last == 0 {
		p.last = p.greatest()
	}
	for p.last < maxPart {
		p.last++
		f, err := createFile(p.partName(p.last))
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s: there are %d parts already", p.name, maxPart)
}

// createFile: with O_EXCL a name that is there is an error, and so is a symbolic
// link of that name, wherever it leads (POSIX open).
func createFile(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// split parts a name where the number of a part goes: before what says the
// form.
func (p *parts) split() (stem, ext string) {
	stem = p.name
	if before, ok := strings.CutSuffix(stem, ".gz"); ok {
		stem, ext = before, ".gz"
	}
	if e := filepath.Ext(stem); e != "" && e != filepath.Base(stem) {
		stem, ext = strings.TrimSuffix(stem, e), e+ext
	}
	return stem, ext
}

func (p *parts) partName(n int) string {
	stem, ext := p.split()
	return fmt.Sprintf("%s-%04d%s", stem, n, ext)
}

// greatest is the number of the last part an earlier recording left, so that
// a restarted service goes on behind it.
func (p *parts) greatest() int {
	stem, ext := p.split()
	entries, err := os.ReadDir(filepath.Dir(stem))
	if err != nil {
		return 0 // creating the file says why
	}
	most := 0
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(stem)+"-")
		digits, ok2 := strings.CutSuffix(rest, ext)
		if !ok || !ok2 || len(digits) < 4 {
			continue
		}
		if n, err := strconv.Atoi(digits); err == nil && n > most {
			most = n
		}
	}
	return most
}
