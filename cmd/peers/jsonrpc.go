package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Protocol versions the peers speak.
const (
	LegacyVersion = "2025-11-25"
	ModernVersion = "2026-07-28"
)

// TasksExtension identifies the tasks extension of the modern era.
const TasksExtension = "io.modelcontextprotocol/tasks"

// Keys under _meta that the specification reserves.
const (
	KeyProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	KeyClientInfo         = "io.modelcontextprotocol/clientInfo"
	KeyClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	KeyServerInfo         = "io.modelcontextprotocol/serverInfo"
	KeySubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	KeyRelatedTask        = "io.modelcontextprotocol/related-task"
)

// Error codes: JSON-RPC's own, then those of 2026-07-28 (basic/index, "Error
// Codes"), then the one only legacy servers send.
const (
	CodeParse             = -32700
	CodeInvalidRequest    = -32600
	CodeMethodNotFound    = -32601
	CodeInvalidParams     = -32602
	CodeInternal          = -32603
	CodeHeaderMismatch    = -32020
	CodeMissingCapability = -32021
	CodeBadVersion        = -32022
	CodeResourceNotFound  = -32002
)

// Task statuses; both eras use the same words.
const (
	StatusWorking       = "working"
	StatusInputRequired = "input_required"
	StatusCompleted     = "completed"
	StatusFailed        = "failed"
	StatusCancelled     = "cancelled"
)

func terminal(status string) bool {
	return status == StatusCompleted || status == StatusFailed || status == StatusCancelled
}

// TraceEntry is one message, or one answer without a message, as it crossed
// the wire of the peer that traces. A Trace function is called from several
// goroutines at once.
type TraceEntry struct {
	Peer    string          // "legacy server", "modern client", ...
	Time    time.Time       // by the peer's clock
	Out     bool            // true when this peer sent it
	HTTP    string          // HTTP method of the exchange: POST, GET or DELETE
	Status  int             // HTTP status of a response, 0 for a request
	Header  http.Header     // headers of the HTTP request or response that carried it
	Message json.RawMessage // nil when the body was empty
}

// RPCError is a JSON-RPC error object.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *RPCError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

func rpcErrorf(code int, format string, args ...any) *RPCError {
	return &RPCError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// message is any JSON-RPC message. A member that is absent stays nil; an id of
// null is the four bytes "null".
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

func (m *message) isRequest() bool      { return m.Method != "" && m.ID != nil }
func (m *message) isNotification() bool { return m.Method != "" && m.ID == nil }
func (m *message) isResponse() bool {
	return m.Method == "" && (m.Result != nil || m.Error != nil)
}

// encode marshals v without HTML escapes. Raw bytes pass untouched, which
// json.Marshal would compact: the echo tool promises its arguments back byte
// for byte.
func encode(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return json.RawMessage("null"), nil
	case json.RawMessage:
		if len(v) == 0 {
			return json.RawMessage("null"), nil
		}
		return v, nil
	case []byte:
		return v, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// raw is encode for values this package builds itself.
func raw(v any) json.RawMessage {
	b, err := encode(v)
	if err != nil {
		panic(fmt.Sprintf("peers: encode %T: %v", v, err))
	}
	return b
}

// object builds a JSON object of alternating keys and values, in that order.
func object(pairs ...any) json.RawMessage {
	b := []byte{'{'}
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, raw(pairs[i])...)
		b = append(b, ':')
		b = append(b, raw(pairs[i+1])...)
	}
	return append(b, '}')
}

// with puts members in front of those of an object this package built.
func with(obj json.RawMessage, pairs ...any) json.RawMessage {
	front := object(pairs...)
	if len(obj) <= len("{}") {
		return front
	}
	front[len(front)-1] = ','
	return append(front, obj[1:]...)
}

// merge returns the object extra with base's members in front; a key that both
// have is taken from base. Values keep their bytes and base its order.
func merge(base, extra json.RawMessage) (json.RawMessage, error) {
	first, err := members(base)
	if err != nil {
		return nil, err
	}
	second, err := members(extra)
	if err != nil {
		return nil, err
	}
	var pairs []any
	seen := map[string]bool{}
	for _, m := range first {
		seen[m.key] = true
		pairs = append(pairs, m.key, m.value)
	}
	for _, m := range second {
		if !seen[m.key] {
			pairs = append(pairs, m.key, m.value)
		}
	}
	return object(pairs...), nil
}

type member struct {
	key   string
	value json.RawMessage
}

// members lists an object's members in order; nil and null have none.
func members(obj json.RawMessage) ([]member, error) {
	if len(obj) == 0 || string(obj) == "null" {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(obj))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object: %.40q", obj)
	}
	var list []member
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		list = append(list, member{key.(string), value})
	}
	return list, nil
}

func requestMessage(id any, method string, params json.RawMessage) json.RawMessage {
	pairs := []any{"jsonrpc", "2.0"}
	if id != nil {
		pairs = append(pairs, "id", id)
	}
	pairs = append(pairs, "method", method)
	if params != nil {
		pairs = append(pairs, "params", params)
	}
	return object(pairs...)
}

func resultMessage(id, result json.RawMessage) json.RawMessage {
	return object("jsonrpc", "2.0", "id", id, "result", result)
}

// errorMessage builds an error response; a nil id becomes null.
func errorMessage(id json.RawMessage, e any) json.RawMessage {
	return object("jsonrpc", "2.0", "id", id, "error", e)
}

func isObject(b json.RawMessage) bool { return len(b) > 0 && b[0] == '{' }

func milliseconds(d time.Duration) json.RawMessage {
	return strconv.AppendInt(nil, d.Milliseconds(), 10)
}
