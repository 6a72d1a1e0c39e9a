package check

import (
	"slices"

	"taskbridge/translate/jsonrpc"
)

// retired are codes of earlier revisions; reserved the range the specification
// keeps, with those defined in it (2026-07-28 basic/index, Error Codes).
var (
	retired  = []int64{-32002, -32042}
	reserved = []int64{-32020, -32021, -32022}
)

const (
	codeHeaderMismatch    = -32020
	codeMissingCapability = -32021
	codeURLElicitation    = -32042
	codeInvalidParams     = -32602
	codeMethodNotFound    = -32601
	reservedLast          = -32099
)

// errorRules looks at the code and its data.
func (c *Checker) errorRules(ev *event) {
	code, _ := ev.m.Error().Get("code").Int()
	if ev.by == byServer && ev.modern {
		switch {
		case slices.Contains(retired, code):
			c.find(ev, "error/retired-code", "code %d", code)
		case code <= codeHeaderMismatch && code >= reservedLast && !slices.Contains(reserved, code):
			c.find(ev, "error/reserved-code", "code %d is reserved and not defined", code)
		}
	}
	if ev.by == byServer && !ev.modern && !ev.guessed && code == codeURLElicitation && ev.rev < r20251125 {
		c.find(ev, "error/later-code", "code %d in %s", code, revisions[ev.rev-1])
	}
	for _, row := range errorData {
		if row.Code == code && row.From <= ev.rev && ev.rev <= row.To && ev.by == byServer {
			c.members(ev, "error.data", dataOf(ev.m), shapeOf(row.Data, ev.rev))
		}
	}
}

func dataOf(m *jsonrpc.Message) jsonrpc.Value { return m.Error().Get("data") }
