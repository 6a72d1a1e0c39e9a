package translate

import (
	"strconv"

	"taskbridge/translate/jsonrpc"
)

type codeRow struct {
	Old, New int
	// Telling is the member of error.data that shows which error is meant where
	// the peer does not speak 2026-06-30: -32000 to -32019 are numbers of a
	// server's own (2026-07-28 basic/index, Error Codes). Empty: never taken for
	// it; a widely used legacy server means "session not found" by -32001.
	Telling string
	What    string
}

// codes: the numbers of three errors in 2026-06-30 and in 2026-07-28
// (changelog, Minor changes 12).
var codes = []codeRow{
	{-32001, -32020, "", "header mismatch"},
	{-32003, -32021, "requiredCapabilities", "missing client capability"},
	{-32004, -32022, "supported", "unsupported version"},
}

// CodeFor is the number a revision has for one of our own error codes.
func CodeFor(code int, version string) int {
	if f, known := Lookup(version); known && f.OldModernCodes {
		for _, r := range codes {
			if r.New == code {
				return r.Old
			}
		}
	}
	return code
}

// ErrorFromServer gives a modern server's error the number we know it by;
// version is the revision spoken to it. Messages that are no error and legacy
// servers' pass. It never fails: what cannot be read again stays as it is.
func ErrorFromServer(m *jsonrpc.Message, version string) *jsonrpc.Message {
	f, known := Lookup(version)
	if m.Kind != jsonrpc.ErrorResponse || !known || f.Era != Modern {
		return m
	}
	code := m.Error().Get("code")
	n, _ := code.Int()
	for _, r := range codes {
		if n != int64(r.Old) || !f.OldModernCodes && (r.Telling == "" || !m.Error().Get("data").Get(r.Telling).Exists()) {
			continue
		}
		e := m.Edit()
		e.Replace(code, strconv.AppendInt(nil, int64(r.New), 10))
		if out, err := jsonrpc.Decode(e.Bytes(), jsonrpc.Limits{}); err == nil {
			return out
		}
	}
	return m
}

// ErrorToClient is its inverse on a message for a client: raw itself unless
// the client's revision has another number for the error in it.
func ErrorToClient(raw []byte, version string) []byte {
	f, known := Lookup(version)
	if !known || !f.OldModernCodes || len(raw) == 0 {
		return raw
	}
	m, err := jsonrpc.Decode(raw, jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.ErrorResponse {
		return raw
	}
	code := m.Error().Get("code")
	n, ok := code.Int()
	to := CodeFor(int(n), version)
	if !ok || int64(to) == n {
		return raw
	}
	e := m.Edit()
	e.Replace(code, strconv.AppendInt(nil, int64(to), 10))
	return e.Bytes()
}

// AtRevision writes another modern revision into a request, for a server that
// does not speak its client's: the two differ in error numbers only. Messages
// without the member pass.
func AtRevision(m *jsonrpc.Message, version string) []byte {
	v := m.At("params", "_meta", MetaVersion)
	if !v.Exists() {
		return m.Raw
	}
	e := m.Edit()
	e.Replace(v, jsonrpc.Quote(version))
	return e.Bytes()
}

// DiscoverAtRevision makes a server's discover result name every revision we
// serve in front of it.
func DiscoverAtRevision(m *jsonrpc.Message) []byte {
	list := m.Result().Get("supportedVersions")
	if !list.Exists() {
		return m.Raw
	}
	e := m.Edit()
	e.Replace(list, modernVersions())
	return e.Bytes()
}

func modernVersions() []byte {
	versions := []byte{'['}
	for i, v := range Versions(Modern) {
		if i > 0 {
			versions = append(versions, ',')
		}
		versions = jsonrpc.AppendString(versions, v)
	}
	return append(versions, ']')
}
