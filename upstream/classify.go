package upstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

const (
	maxVersions    = 64 // listed by a server
	maxVersionText = 32
)

// Codes of the errors only a modern server gives (2026-07-28 basic/index,
// Error Codes), and their numbers in 2026-06-30. Those lie where legacy
// servers put numbers of their own, so they count only with their data;
// -32001 is left out, as a widely used legacy server means "session not
// found" by it.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
	oldMissingCapability   = -32003
	oldUnsupportedVersion  = -32004
)

type verdict uint8

const (
	undecided verdict = iota // the answer says nothing about the era
	refused                  // 401, 403: whoever asks must authenticate first
	modern
	legacy
	foreign // modern, and no revision we speak
)

// finding is what an answer to server/discover tells.
type finding struct {
	verdict  verdict
	versions []string // as listed, nil if no list came
	why      string   // for people
}

// classify reads the answer to server/discover; m is nil if the body was no
// message of ours to read (2026-07-28 streamable-http, Backward Compatibility;
// basic/versioning).
func classify(env *translate.Envelope, m *jsonrpc.Message) finding {
	why := describe(env, m)
	if env != nil {
		switch {
		case env.Status == http.StatusUnauthorized || env.Status == http.StatusForbidden:
			return finding{verdict: refused, why: why}
		case transient(env.Status):
			return finding{verdict: undecided, why: why}
		}
	}
	switch {
	case m == nil:
		return finding{verdict: legacy, why: why}
	case m.Kind == jsonrpc.ErrorResponse:
		return classifyError(m, why)
	}
	return byVersions(versionList(m.At("result", "supportedVersions")), why)
}

// transient statuses are about the moment, not about the server's kind.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

func classifyError(m *jsonrpc.Message, why string) finding {
	code, _ := m.At("error", "code").Int()
	data := m.At("error", "data")
	switch code {
	case codeUnsupportedVersion, oldUnsupportedVersion:
		if data.Get("supported").Type() == jsonrpc.Array {
			return byVersions(versionList(data.Get("supported")), why)
		}
	case codeHeaderMismatch, codeMissingCapability:
		return finding{verdict: modern, why: why}
	case oldMissingCapability:
		if data.Get("requiredCapabilities").Type() == jsonrpc.Object {
			return finding{verdict: modern, why: why}
		}
	}
	return finding{verdict: legacy, why: why}
}

// byVersions decides by a server's own list. It is trusted over everything
// else: servers answer server/discover that speak legacy only.
func byVersions(versions []string, why string) finding {
	f := finding{verdict: legacy, versions: versions, why: why}
	switch {
	case translate.ChooseModern(versions) != "":
		f.verdict = modern
	case newestLegacy(versions) == "" && slices.ContainsFunc(versions, translate.LooksModern):
		f.verdict = foreign
	}
	return f
}

// newestLegacy is the newest legacy revision of a list that we speak, or "".
func newestLegacy(versions []string) string {
	for _, v := range translate.Versions(translate.Legacy) {
		if slices.Contains(versions, v) {
			return v
		}
	}
	return ""
}

// versionList reads an array of strings, within bounds.
func versionList(v jsonrpc.Value) []string {
	var out []string
	for e := range v.Elems() {
		if s, ok := e.Str(); ok && len(s) <= maxVersionText && len(out) < maxVersions {
			out = append(out, s)
		}
	}
	return out
}

// describe says in a few words what came back. Text of the peer is quoted.
func describe(env *translate.Envelope, m *jsonrpc.Message) string {
	var parts []string
	if env != nil {
		parts = append(parts, fmt.Sprintf("HTTP %d", env.Status))
	}
	switch {
	case m == nil:
		parts = append(parts, "no JSON-RPC answer")
	case m.Kind == jsonrpc.ErrorResponse:
		text, _ := m.At("error", "message").Str()
		parts = append(parts, fmt.Sprintf("error %s %s", clip(string(m.At("error", "code").Raw()), 16), quote(text, 200)))
	default:
		parts = append(parts, "a result")
	}
	return strings.Join(parts, ", ")
}

func quoteList(versions []string) string {
	if len(versions) == 0 {
		return "none"
	}
	var parts []string
	for _, v := range versions[:min(len(versions), 8)] {
		parts = append(parts, quote(v, maxVersionText))
	}
	if len(versions) > 8 {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}
