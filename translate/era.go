package translate

import "slices"

// Era is the side of the wire break a peer stands on (MCP 2026-07-28
// basic/versioning, Terminology).
type Era uint8

const (
	// EraUnknown is the zero value: nothing decided yet.
	EraUnknown Era = iota
	// Legacy peers open with an initialize handshake (2025-11-25 and before).
	Legacy
	// Modern peers carry version, identity and capabilities in every request.
	Modern
)

func (e Era) String() string {
	switch e {
	case Legacy:
		return "legacy"
	case Modern:
		return "modern"
	}
	return "unknown"
}

// ParseEra reads what String writes; ok is false for anything else.
func ParseEra(s string) (Era, bool) {
	switch s {
	case "legacy":
		return Legacy, true
	case "modern":
		return Modern, true
	}
	return EraUnknown, false
}

// The protocol revisions this proxy knows.
const (
	V20241105 = "2024-11-05"
	V20250326 = "2025-03-26"
	V20250618 = "2025-06-18"
	V20251125 = "2025-11-25"
	// V20260630 is the date earlier texts of the modern revision carry; it
	// differs from 2026-07-28 in three error numbers only (see status.go).
	V20260630 = "2026-06-30"
	V20260728 = "2026-07-28"

	// LatestLegacy is spoken where a peer leaves the choice to us.
	LatestLegacy = V20251125
	// LatestModern likewise.
	LatestModern = V20260728
)

// Features is what a revision can do. It is the only place where revisions
// are told apart: other code asks Features and never compares dates.
type Features struct {
	Version string
	Era     Era
	// Batch: arrays of messages are legal (2025-03-26 only).
	Batch bool
	// Tasks: the experimental tasks of 2025-11-25.
	Tasks bool
	// Priming: an SSE stream may open with an id and empty data
	// (2025-11-25 basic/transports); older clients choke on it.
	Priming bool
	// VersionHeader: MCP-Protocol-Version is sent after initialize.
	VersionHeader bool
	// StructuredContent: tool results may carry structuredContent.
	StructuredContent bool
	// Elicitation: elicitation/create exists; ElicitURL: its url mode.
	Elicitation, ElicitURL bool
	// OldModernCodes: errors use -32001, -32003, -32004 (2026-06-30).
	OldModernCodes bool
}

var revisions = []Features{
	{Version: V20241105, Era: Legacy},
	{Version: V20250326, Era: Legacy, Batch: true},
	{Version: V20250618, Era: Legacy, VersionHeader: true, StructuredContent: true, Elicitation: true},
	{Version: V20251125, Era: Legacy, VersionHeader: true, StructuredContent: true, Elicitation: true, ElicitURL: true, Tasks: true, Priming: true},
	{Version: V20260630, Era: Modern, VersionHeader: true, StructuredContent: true, Elicitation: true, ElicitURL: true, OldModernCodes: true},
	{Version: V20260728, Era: Modern, VersionHeader: true, StructuredContent: true, Elicitation: true, ElicitURL: true},
}

// Lookup returns what a revision can do; ok is false for one we do not know.
func Lookup(version string) (Features, bool) {
	for _, f := range revisions {
		if f.Version == version {
			return f, true
		}
	}
	return Features{}, false
}

// Versions lists the revisions of an era we speak, newest first.
func Versions(e Era) []string {
	var out []string
	for i := len(revisions) - 1; i >= 0; i-- {
		if revisions[i].Era == e {
			out = append(out, revisions[i].Version)
		}
	}
	return out
}

// NegotiateLegacy answers a client's initialize: the version it asked for
// when we serve it, else the newest legacy one (2025-11-25 basic/lifecycle,
// Version Negotiation).
func NegotiateLegacy(requested string) string {
	if f, ok := Lookup(requested); ok && f.Era == Legacy {
		return requested
	}
	return LatestLegacy
}

// ChooseModern picks the newest modern revision of a server's list, or "".
func ChooseModern(supported []string) string {
	for _, v := range Versions(Modern) {
		if slices.Contains(supported, v) {
			return v
		}
	}
	return ""
}

// LooksModern says whether an MCP-Protocol-Version header names a revision of
// the modern era, known or not: any date from 2026-06-30 on. Dates compare as
// text (basic/versioning: versions are dates in the form YYYY-MM-DD).
func LooksModern(version string) bool {
	if f, ok := Lookup(version); ok {
		return f.Era == Modern
	}
	return isDate(version) && version >= V20260630
}

// lacks says that a legacy revision is older than one that has something.
func lacks(version, since string) bool { return version < since }

func isDate(s string) bool {
	if len(s) != len(V20260630) || s[4] != '-' || s[7] != '-' {
		return false
	}
	for i, c := range []byte(s) {
		if i != 4 && i != 7 && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
