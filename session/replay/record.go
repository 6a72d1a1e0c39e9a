package replay

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"taskbridge/translate/capture"
	"taskbridge/translate/operation"
)

// recorder keeps what is sent and what comes back, as a capture would: ids that
// open something to whoever knows them are masked by a key of this run.
type recorder struct {
	max  int64
	keep func(*capture.Record)

	mu      sync.Mutex // protects the fields below; held while keep is called
	conceal *capture.Concealer
	records []*capture.Record
	bytes   int64
}

func newRecorder(o Options) *recorder {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	return &recorder{max: o.MaxBytes, keep: o.Keep, conceal: capture.NewConcealer(func(kind, text string) string {
		h := hmac.New(sha256.New, key[:])
		h.Write([]byte(kind + "\n" + text))
		return hex.EncodeToString(h.Sum(nil)[:8])
	})}
}

// add keeps a record and says whether there was room for it.
func (r *recorder) add(rec *capture.Record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Who and which session are the capture's own words for them, masked already:
	// what is compared or replayed next finds them again.
	session, principal := rec.Session, rec.Principal
	rec.Session, rec.Principal = "", ""
	r.conceal.Record(rec)
	rec.Session, rec.Principal = session, principal
	if r.keep != nil {
		r.keep(rec)
	}
	if r.bytes+int64(len(rec.Msg)) > r.max {
		return false
	}
	r.bytes += int64(len(rec.Msg))
	r.records = append(r.records, rec)
	return true
}

func (r *recorder) all() []*capture.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records
}

// streamName names the exchanges of an operation after it.
func streamName(n, exchange int) string { return fmt.Sprintf("op%d.%d", n, exchange) }

// OperationOf is the number of the operation in the plan that one gathered from
// a replay's records repeats, 0 if it repeats none.
func OperationOf(op *operation.Operation) int {
	text, ok := strings.CutPrefix(op.First().Record.Stream, "op")
	if !ok {
		return 0
	}
	text, _, _ = strings.Cut(text, ".")
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}
