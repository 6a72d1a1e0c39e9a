package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Load reads the file of a name, "-" for stdin, and looks whether what it names
// is there. over, which may be nil, changes what belongs to the process and to
// listeners before it is looked at whether all of it fits together: what goes
// over the file.
func Load(name string, stdin io.Reader, getenv Getenv, over func(*File)) (*File, []Problem) {
	p := problems{file: name}
	src, err := read(name, stdin)
	if err != nil {
		if name == "-" {
			p.file = "standard input"
		}
		p.add(mark{}, "", "cannot be read: %s", reason(err))
		return nil, p.list
	}
	f, bad := parse(name, src, getenv, over)
	if f == nil {
		return nil, bad
	}
	if bad := f.missing(); len(bad) > 0 {
		return nil, bad
	}
	return f, nil
}

// read returns a byte more than a file may have, no more.
func read(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		file, err := OpenRegular(name)
		if errors.Is(err, errIrregular) {
			err = errors.New("is no regular file; to pipe a configuration in, name it -")
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		stdin = file
	}
	return io.ReadAll(io.LimitReader(stdin, MaxSource+1))
}

var (
	errFolder    = errors.New("is a folder")
	errIrregular = errors.New("is no regular file")
)

// OpenRegular opens a file that is read while the proxy runs. Other things have
// such a name, too: opening a pipe waits for somebody who writes to it, for ever
// perhaps, and a device may have no end.
func OpenRegular(name string) (*os.File, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errFolder}
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errIrregular}
	}
	return os.Open(name)
}

// reason leaves out the name, which stands before it already.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return err.Error()
}

// missing looks for the files a configuration names. Their names come from the
// file or the environment, so that they are not shown where a variable is in
// them: the path of the field is.
func (f *File) missing() []Problem {
	p := &problems{file: f.Name, marks: f.marks}
	open := func(path, name string) {
		if name == "" || name == "-" {
			return
		}
		file, err := OpenRegular(name)
		if err == nil {
			file.Close()
		} else {
			p.at(path, "the file cannot be read: %s; names are relative to the folder of the configuration", reason(err))
		}
	}
	folder := func(path, name string) {
		if name == "" {
			return
		}
		if info, err := os.Stat(name); err != nil {
			p.at(path, "the folder is not there: %s", reason(err))
		} else if !info.IsDir() {
			p.at(path, "is no folder")
		}
	}
	inFolder := func(path, name string) {
		if name != "" && name != "-" {
			folder(path, filepath.Dir(name))
		}
	}
	for i, l := range f.Listeners {
		at := indexed("listeners", i)
		open(at+".tls.cert", l.TLSCert)
		open(at+".tls.key", l.TLSKey)
	}
	open("admin.token-file", f.Admin.TokenFile)
	if socket, ok := strings.CutPrefix(f.Admin.Address, "unix:"); ok {
		inFolder("admin.address", socket)
	}
	for i, k := range f.StateKeys {
		open(indexed("state-keys", i), k.File)
	}
	if keys, ok := strings.CutPrefix(f.Principal, "jwt:"); ok && !strings.Contains(keys, "://") {
		open("principal", keys)
	}
	inFolder("log.file", f.Log.File)
	inFolder("record.file", f.Record.File)
	inFolder("telemetry.audit", f.Telemetry.Audit.File)
	for i, route := range f.Routes {
		for j, u := range route.Upstreams {
			at := f.UpstreamPath(i, j)
			for k, name := range u.HeaderFiles {
				open(indexed(at+".header-files", k), name)
			}
			open(at+".ca", u.CA)
			folder(at+".cwd", u.Cwd)
		}
	}
	return p.sorted()
}

// UpstreamPath is the path, as Problem takes it, of an upstream of a route.
func (f *File) UpstreamPath(route, upstream int) string {
	at := indexed("routes", route)
	for _, way := range []string{".upstream", ".command"} {
		if _, ok := f.marks[at+way]; ok {
			return at + way
		}
	}
	return indexed(at+".upstreams", upstream)
}
