package replay

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"taskbridge/translate/capture"
	"taskbridge/translate/operation"
)

// recorder keeps what is sent and what comes back.
type recorder struct {
	max  int64
	keep func(*capture.Record)

	mu      sync.Mutex // protects the fields below; held while keep is called
	records []*capture.Record
	bytes   int64
}

// add keeps a record and says whether there was room for it.
func (r *recorder) add(rec *capture.Record) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
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
