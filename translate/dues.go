package translate

import "taskbridge/translate/jsonrpc"

// Due says what becomes of a client's message when its sender has used up a
// limit of rate or bytes.
type Due uint8

const (
	// DueRefused: it is refused; nothing is lost but time.
	DueRefused Due = iota
	// DueEased: it ends or answers work that is under way, or finds a stream
	// again, but is a request of its own: it is refused only where its sender
	// passes the same limit with messages of this kind alone.
	DueEased
	// DueNever: it is never refused, because nobody could say it again and
	// somebody waits for it. It is counted all the same.
	DueNever
)

func (d Due) String() string { return [...]string{"refused", "eased", "never refused"}[d] }

type dueRow struct {
	Method string
	Due    Due
	Note   string
}

// dues: the messages a limit does not simply refuse. All others are refused.
var dues = []dueRow{
	{"notifications/initialized", DueNever, "the session would never begin"},
	{"notifications/cancelled", DueNever, "work nobody wants would go on"},
	{"notifications/progress", DueNever, "whoever waits for a task the client hosts would give up"},
	{"notifications/elicitation/complete", DueNever, "a call waits for it"},
	{"tasks/cancel", DueEased, "ends work"},
	{"tasks/update", DueEased, "answers questions"},
	{"ping", DueEased, "a client whose ping fails takes the connection for dead"},
}

// DueOf says it of a message; nil stands for GET, which opens or resumes a
// stream. DELETE is DueNever. A request that goes on where input was required
// answers questions (2026-07-28 basic/patterns/mrtr, Client Requirements).
func DueOf(m *jsonrpc.Message) Due {
	switch {
	case m == nil:
		return DueEased
	case m.Kind == jsonrpc.Response || m.Kind == jsonrpc.ErrorResponse:
		return DueNever
	}
	if d := DueOfMethod(m.Method); d != DueRefused {
		return d
	}
	if CanRequireInput(m.Method) && (m.At("params", "requestState").Exists() || m.At("params", "inputResponses").Exists()) {
		return DueEased
	}
	return DueRefused
}

// DueOfMethod is DueOf where the method alone is known.
func DueOfMethod(method string) Due {
	for i := range dues {
		if dues[i].Method == method {
			return dues[i].Due
		}
	}
	return DueRefused
}

// LimitData is the data of an error that refuses for a limit: which, and when
// to try again, in milliseconds.
func LimitData(limit string, retryAfterMS int64) []byte {
	return jsonrpc.NewObject().Str("limit", limit).Int("retryAfterMs", retryAfterMS).Bytes()
}
