package record

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"taskbridge/translate/capture"
)

// File is a capture that is read from a file or from standard input.
type File struct {
	capture.Source
	// Name is for people: the file's name, or "standard input".
	Name string

	in   io.ReadCloser
	read atomic.Int64
	size int64
}

// Open opens the capture in the file name, of any form capture.NewAnyReader
// knows, or reads it from stdin where name is "-". Errors name the file.
func Open(name string, stdin io.Reader) (*File, error) {
	f := &File{Name: name}
	if name == "-" {
		f.Name, f.in = "standard input", io.NopCloser(stdin)
	} else {
		in, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		f.in = in
		info, err := in.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a folder; name the capture in it", name)
		}
		if err != nil {
			in.Close()
			return nil, err
		}
		if info.Mode().IsRegular() {
			f.size = info.Size()
		}
	}
	var err error
	if f.Source, err = capture.NewAnyReader(&counted{f.in, &f.read}); err != nil {
		f.in.Close()
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return f, nil
}

// Progress is how many bytes of the file were read so far, and of how many: 0
// where that is not known. It may be called beside Next.
func (f *File) Progress() (read, size int64) { return f.read.Load(), f.size }

// Close closes the file.
func (f *File) Close() error { return f.in.Close() }

type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
