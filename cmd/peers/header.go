package peers

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

const (
	sentinelStart = "=?base64?"
	sentinelEnd   = "?="
)

// EncodeHeader makes a value safe for Mcp-Name (2026-07-28 transports, "Value
// Encoding").
func EncodeHeader(value string) string {
	plain := strings.TrimSpace(value) == value &&
		!(strings.HasPrefix(value, sentinelStart) && strings.HasSuffix(value, sentinelEnd))
	for i := 0; plain && i < len(value); i++ {
		plain = value[i] >= 0x20 && value[i] <= 0x7e || value[i] == '\t'
	}
	if plain {
		return value
	}
	return sentinelStart + base64.StdEncoding.EncodeToString([]byte(value)) + sentinelEnd
}

// DecodeHeader reverses EncodeHeader; false for broken base64.
func DecodeHeader(value string) (string, bool) {
	inner, ok := strings.CutPrefix(value, sentinelStart)
	if !ok || !strings.HasSuffix(inner, sentinelEnd) {
		return value, true
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, sentinelEnd))
	return string(b), err == nil
}

// headerName returns the body value that Mcp-Name mirrors, if the method has
// one (2026-07-28 transports, "Standard Request Headers"; tasks extension,
// "Routing Headers").
func headerName(method string, params json.RawMessage) (string, bool) {
	var p struct{ Name, URI, TaskID string }
	_ = json.Unmarshal(params, &p)
	switch method {
	case "tools/call", "prompts/get":
		return p.Name, true
	case "resources/read":
		return p.URI, true
	case "tasks/get", "tasks/update", "tasks/cancel":
		return p.TaskID, true
	}
	return "", false
}

// checkHeaders compares Mcp-Method and Mcp-Name with the body.
func checkHeaders(h http.Header, m *message) *RPCError {
	if got := h.Get("Mcp-Method"); got != m.Method {
		return rpcErrorf(CodeHeaderMismatch, "Header mismatch: Mcp-Method header value '%s' does not match body value '%s'", got, m.Method)
	}
	want, has := headerName(m.Method, m.Params)
	if !has {
		return nil
	}
	if len(h.Values("Mcp-Name")) == 0 {
		return rpcErrorf(CodeHeaderMismatch, "Header mismatch: Mcp-Name header is missing")
	}
	if got, ok := DecodeHeader(h.Get("Mcp-Name")); !ok || got != want {
		return rpcErrorf(CodeHeaderMismatch, "Header mismatch: Mcp-Name header value '%s' does not match body value '%s'", got, want)
	}
	return nil
}
