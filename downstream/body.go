package downstream

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

const (
	// firstRead is what a body gets before any of it has come: memory follows
	// what was received, not what was declared.
	firstRead = 16 << 10
	// growth is how many times what was received a body of declared length,
	// which is reserved, may take: each step copies what there is.
	growth = 8
	// bodyRate is the least rate in bytes a second at which a body must come
	// once Limits.BodyTimeout is used up.
	bodyRate = 16 << 10
	// smallBody is what every body may take of the part of the budget that is
	// kept free of large ones.
	smallBody = 1 << 20
)

// reservation is what one request has taken of the process budget. Large
// bodies may fill three quarters of it, so that small calls pass beside them.
type reservation struct {
	all, large *session.Budget
	n          int64
}

// grow raises the reservation to n bytes in all and says whether they fit.
func (v *reservation) grow(n int64) bool {
	if n <= v.n {
		return true
	}
	big := max(n-smallBody, 0) - max(v.n-smallBody, 0)
	if !v.large.TryAcquire(big) {
		return false
	}
	if !v.all.TryAcquire(n - v.n) {
		v.large.Release(big)
		return false
	}
	v.n = n
	return true
}

func (v *reservation) release() {
	v.large.Release(max(v.n-smallBody, 0))
	v.all.Release(v.n)
	v.n = 0
}

// readBody reads a request's body within the limits of size, budget and time.
// A declared length is reserved and checked before the first byte is read, so
// that a client that waits for "100 Continue" is refused without sending; a
// chunked body reserves as it grows. More than limit bytes are CondTooLarge. The slice is the caller's for good.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, rc *http.ResponseController, took *reservation, limit int64) ([]byte, translate.Cond) {
	declared := r.ContentLength
	if declared > limit {
		return nil, translate.CondTooLarge
	}
	size := int64(firstRead)
	if declared >= 0 {
		size = min(declared, firstRead)
	}
	if !took.grow(max(declared, size)) {
		return nil, translate.CondBusy
	}
	if len(r.Header["Expect"]) > 0 {
		// Reading sends "100 Continue"; the bound of this connection's last
		// write is not meant for it.
		rc.SetWriteDeadline(time.Time{})
	}
	body := r.Body // net/http lets no more come than was declared
	if declared < 0 {
		body = http.MaxBytesReader(w, body, limit)
	}
	buf := make([]byte, 0, size)
	start := time.Now()
	for {
		if len(buf) == cap(buf) && int64(len(buf)) != declared {
			if declared > 0 {
				size = min(growth*size, declared)
			} else if size = min(2*size, limit); !took.grow(size) {
				return nil, translate.CondBusy
			}
			if size > int64(cap(buf)) {
				buf = append(make([]byte, 0, size), buf...)
			}
		}
		allowed := s.o.Limits.BodyTimeout + time.Duration(len(buf))*(time.Second/bodyRate)
		rc.SetReadDeadline(start.Add(allowed))
		n, err := readSome(body, buf)
		buf = buf[:len(buf)+n]
		if err == nil {
			continue
		}
		if err == io.EOF {
			// Else the next request, or watching for the client's leaving,
			// would run into this one's deadline.
			rc.SetReadDeadline(time.Time{})
			return buf, translate.CondNone
		}
		return nil, bodyCond(err)
	}
}

// readSome reads into what is free of buf; where nothing is, only the end of
// the body may be left.
func readSome(body io.Reader, buf []byte) (int, error) {
	if free := buf[len(buf):cap(buf)]; len(free) > 0 {
		return body.Read(free)
	}
	var one [1]byte
	n, err := body.Read(one[:])
	if n > 0 {
		return 0, errLongBody
	}
	return 0, err
}

var errLongBody = errors.New("body is longer than declared")

func bodyCond(err error) translate.Cond {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return translate.CondTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return translate.CondSlowBody
	}
	return translate.CondInvalidRequest
}
