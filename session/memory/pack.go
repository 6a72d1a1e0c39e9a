package memory

import (
	"bytes"
	"cmp"
	"compress/flate"
	"io"
	"sync"

	"taskbridge/session"
)

// Records that nobody writes for long are packed: most of what lives long is the
// state of tasks, which are many and look alike. What is packed costs its
// reader some microseconds; what comes and goes with a request never is.
const (
	// packAfter is how many records are written before one that was not written
	// again is packed.
	packAfter = 1 << 12
	// packFrom is the least length worth it.
	packFrom = 256
)

// written remembers the newest writes, oldest first from next.
type written struct {
	size int // 0: packAfter
	ring []writtenAt
	next int
}

type writtenAt struct {
	n       *node
	version uint64
}

// note takes a write in and gives the one it pushes out, if its record still is
// as it was then. It needs the store's lock.
func (w *written) note(n *node) (old writtenAt, stays bool) {
	size := cmp.Or(w.size, packAfter)
	if len(w.ring) < size {
		w.ring = append(w.ring, writtenAt{n, n.entry.Version})
		return old, false
	}
	old = w.ring[w.next]
	w.ring[w.next] = writtenAt{n, n.entry.Version}
	w.next = (w.next + 1) % size
	return old, old.n.entry.Version == old.version
}

// pack replaces a record's value, unless it is written meanwhile.
func (s *Store) pack(w writtenAt, value []byte) {
	packed := squeeze(value)
	if len(packed) >= len(value) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.n.entry.Version == w.version {
		w.n.entry.Value, w.n.packed = packed, int32(len(value))
	}
}

// open gives a record as it was put.
func open(e session.Entry, packed int32) session.Entry {
	if packed == 0 {
		return e
	}
	r := readers.Get().(io.ReadCloser)
	defer readers.Put(r)
	value := make([]byte, packed)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(e.Value), dictionary); err != nil {
		panic("memory: " + err.Error()) // of a reader that takes any
	}
	if _, err := io.ReadFull(r, value); err != nil {
		panic("memory: a packed value is damaged: " + err.Error())
	}
	e.Value = value
	return e
}

// dictionary is what values are likely to hold, the likeliest last.
var dictionary = []byte(`"Driver":{"s":"","i":"","n":""},"Watchers":[],"Waiters":[{"s":"","i":"","n":""}],"Progress":0,"Token":"","Final":true,"Failure":"","completed","failed","input_required","Asked":{"Open":{},"Keys":{}},"Park":{"Caps":"e30="` +
	`{"w":{"forget":"20","ttl":"20","idle":"20","poll":"20"},"r":"r","o":{"Client":"","Version":""},"ID":"tb1_t93z","Live":true,"Owner":"","As":"","Pool":"pool:","Session":"","ServerID":"","Ready":{"Session":"","Version":"2025-11-25","ServerInfo":"eyJuYW1lIjoi","Tasks":true,"Cancel":true,"Logging":false},"Leased":true,` +
	`"Task":"eyJ0YXNrSWQiOiJ0YjFfdDkz` +
	`Iiwic3RhdHVzIjoid29ya2luZyIsInN0YXR1c01lc3NhZ2UiOiJUaGUgb3BlcmF0aW9uIGlzIG5vdyBpbiBwcm9ncmVzcy4iLCJjcmVhdGVkQXQiOiIyMDI2LTExLTMwVDEwOjAwOjAwWiIsImxhc3RVcGRhdGVkQXQiOiIyMDI2LTExLTMwVDEwOjAwOjAwWiIsInR0bCI6MzYwMDAwMCwicG9sbEludGVydmFsIjo1MDAwfQ==` +
	`Iiwic3RhdHVzIjoid29ya2luZyIsImNyZWF0ZWRBdCI6IjIwMjYtMTEtMzBUMTA6MDA6MDBaIiwibGFzdFVwZGF0ZWRBdCI6IjIwMjYtMTEtMzBUMTA6MDA6MDBaIiwidHRsIjpudWxsLCJwb2xsSW50ZXJ2YWwiOjEwMDB9` +
	`","Status":"working","Limit":"","Interval":5000,"Next":"20","Index":"idx/","Limit":"","Asked":{},"Caps":"e30="}"Caps":"eyJleHRlbnNpb25zIjp7ImlvLm1vZGVsY29udGV4dHByb3RvY29sL3Rhc2tzIjp7fX19"}`)

var readers = sync.Pool{New: func() any { return flate.NewReaderDict(bytes.NewReader(nil), dictionary) }}

// squeezer is the one writer there is: it is large.
var squeezer struct {
	sync.Mutex
	w   *flate.Writer
	out bytes.Buffer
}

func squeeze(value []byte) []byte {
	squeezer.Lock()
	defer squeezer.Unlock()
	squeezer.out.Reset()
	if squeezer.w == nil {
		w, err := flate.NewWriterDict(&squeezer.out, flate.DefaultCompression, dictionary)
		if err != nil {
			panic("memory: " + err.Error()) // of a level that does not exist
		}
		squeezer.w = w
	} else {
		squeezer.w.Reset(&squeezer.out)
	}
	squeezer.w.Write(value) // into memory: cannot fail
	squeezer.w.Close()
	return bytes.Clone(squeezer.out.Bytes())
}
