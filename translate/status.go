package translate

// Cond is a condition the proxy itself reports. Peers' own errors are data
// and pass through the rules in results.go instead.
type Cond string

// The conditions; their rows stand in conditions below.
const (
	CondNone               Cond = ""
	CondParse              Cond = "parse error"
	CondInvalidRequest     Cond = "invalid request"
	CondInvalidParams      Cond = "invalid params"
	CondUnknownTask        Cond = "unknown task"
	CondUnknownMethod      Cond = "unknown method"
	CondInternal           Cond = "internal error"
	CondMissingMeta        Cond = "missing _meta"
	CondHeaderMismatch     Cond = "header mismatch"
	CondMissingCapability  Cond = "missing client capability"
	CondUnsupportedVersion Cond = "unsupported version"
	CondNoSession          Cond = "no session"
	CondUnknownSession     Cond = "unknown session"
	CondDuplicateID        Cond = "request id in use"
	CondBadHost            Cond = "host not allowed"
	CondBadOrigin          Cond = "origin not allowed"
	CondVerb               Cond = "verb not allowed"
	CondNotAcceptable      Cond = "not acceptable"
	CondMediaType          Cond = "unsupported media type"
	CondBadHeader          Cond = "bad header"
	CondUnauthorized       Cond = "not authorized"
	CondUndecided          Cond = "callers cannot be verified now"
	CondTooLarge           Cond = "too large"
	CondSlowBody           Cond = "slow body"
	CondNotFound           Cond = "no such path"
	CondBusy               Cond = "out of memory budget"
	CondTooMany            Cond = "too many"
	CondDraining           Cond = "shutting down"
	CondUpstreamDown       Cond = "upstream unreachable"
	CondUpstreamTimeout    Cond = "upstream timeout"
	CondUpstreamBroken     Cond = "upstream broke"
	CondUpstreamUndecided  Cond = "upstream era undecided"
	CondUpstreamRefused    Cond = "upstream refuses our credential"
)

// Reply is how one era is told of a condition. Status is the HTTP status
// where no byte was sent yet; Code the JSON-RPC error code.
type Reply struct {
	Status int
	Code   int
}

type conditionRow struct {
	Cond           Cond
	Legacy, Modern Reply
	// Source is the specification section, or "choice".
	Source string
}

// conditions: what a peer of each era is told. Legacy: 2025-11-25
// basic/transports; modern: 2026-07-28 basic/index (Error Codes) and
// basic/transports/streamable-http.
var conditions = []conditionRow{
	{CondParse, Reply{400, -32700}, Reply{400, -32700}, "JSON-RPC 2.0 section 5.1"},
	{CondInvalidRequest, Reply{400, -32600}, Reply{400, -32600}, "JSON-RPC 2.0 section 5.1"},
	{CondInvalidParams, Reply{200, -32602}, Reply{200, -32602}, "JSON-RPC 2.0 section 5.1"},
	{CondUnknownTask, Reply{200, -32602}, Reply{200, -32602}, "2025-11-25 tasks, Protocol Errors; tasks extension, Protocol Errors"},
	{CondUnknownMethod, Reply{200, -32601}, Reply{404, -32601}, "2026-07-28 streamable-http, Protocol Version Header"},
	{CondInternal, Reply{200, -32603}, Reply{200, -32603}, "JSON-RPC 2.0 section 5.1"},
	{CondMissingMeta, Reply{400, -32602}, Reply{400, -32602}, "2026-07-28 basic/index, Per-request protocol fields"},
	{CondHeaderMismatch, Reply{400, -32600}, Reply{400, -32020}, "2026-07-28 streamable-http, Server Validation"},
	{CondMissingCapability, Reply{200, -32602}, Reply{400, -32021}, "2026-07-28 basic/index, Per-request protocol fields"},
	{CondUnsupportedVersion, Reply{400, -32600}, Reply{400, -32022}, "2026-07-28 basic/versioning; 2025-11-25 transports, Protocol Version Header"},
	{CondNoSession, Reply{400, -32600}, Reply{400, -32600}, "2025-11-25 transports, Session Management"},
	{CondUnknownSession, Reply{404, -32600}, Reply{404, -32600}, "2025-11-25 transports, Session Management"},
	{CondDuplicateID, Reply{200, -32600}, Reply{200, -32600}, "2025-11-25 basic/index, Requests"},
	{CondBadHost, Reply{403, -32600}, Reply{403, -32600}, "choice"},
	{CondBadOrigin, Reply{403, -32600}, Reply{403, -32600}, "2026-07-28 streamable-http, Security"},
	{CondVerb, Reply{405, -32600}, Reply{405, -32600}, "2026-07-28 streamable-http, Earlier Revisions"},
	{CondNotAcceptable, Reply{406, -32600}, Reply{406, -32600}, "2025-11-25 transports, Sending Messages"},
	{CondMediaType, Reply{415, -32600}, Reply{415, -32600}, "choice"},
	{CondBadHeader, Reply{400, -32600}, Reply{400, -32600}, "choice"},
	{CondUnauthorized, Reply{401, -32600}, Reply{401, -32600}, "2025-11-25 and 2026-07-28 basic/authorization, Error Handling"},
	{CondUndecided, Reply{503, -32603}, Reply{503, -32603}, "choice: the caller's token may be good"},
	{CondTooLarge, Reply{413, -32600}, Reply{413, -32600}, "choice"},
	{CondSlowBody, Reply{408, -32600}, Reply{408, -32600}, "choice"},
	{CondNotFound, Reply{404, -32600}, Reply{404, -32600}, "choice"},
	{CondBusy, Reply{503, -32603}, Reply{503, -32603}, "choice"},
	{CondTooMany, Reply{429, -32603}, Reply{429, -32603}, "choice"},
	{CondDraining, Reply{503, -32603}, Reply{503, -32603}, "choice"},
	{CondUpstreamDown, Reply{502, -32603}, Reply{502, -32603}, "choice"},
	{CondUpstreamTimeout, Reply{504, -32603}, Reply{504, -32603}, "choice"},
	{CondUpstreamBroken, Reply{502, -32603}, Reply{502, -32603}, "choice"},
	{CondUpstreamUndecided, Reply{503, -32603}, Reply{503, -32603}, "choice: a JSON-RPC error would be read as \"legacy\""},
	{CondUpstreamRefused, Reply{502, -32603}, Reply{502, -32603}, "choice"},
}

// ReplyFor says how a peer of era e is told of c. Unknown conditions and
// eras are an internal error: never a status or code made up elsewhere.
func ReplyFor(c Cond, e Era) Reply {
	for i := range conditions {
		if conditions[i].Cond == c {
			if e == Modern {
				return conditions[i].Modern
			}
			return conditions[i].Legacy
		}
	}
	return Reply{500, -32603}
}

// errorStatuses are the HTTP statuses the modern revision ties to an error
// code, where no byte was sent yet. Other codes go with 200.
var errorStatuses = []struct {
	Code   int64
	Status int
	Source string
}{
	{-32601, 404, "2026-07-28 streamable-http, Protocol Version Header"},
	{-32020, 400, "2026-07-28 streamable-http, Server Validation"},
	{-32021, 400, "2026-07-28 basic/index, Per-request protocol fields"},
	{-32022, 400, "2026-07-28 streamable-http, Protocol Version Header"},
}

// ErrorStatus is the HTTP status of a server's error toward a modern client, 0
// where none is fixed.
func ErrorStatus(code int64) int {
	for _, r := range errorStatuses {
		if r.Code == code {
			return r.Status
		}
	}
	return 0
}

// StatusOf is ReplyFor as two numbers.
func StatusOf(c Cond, e Era) (status, code int) {
	r := ReplyFor(c, e)
	return r.Status, r.Code
}
