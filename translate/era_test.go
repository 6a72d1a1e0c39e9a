package translate

import (
	"slices"
	"testing"
)

func TestRevisions(t *testing.T) {
	for _, tt := range []Features{
		{Version: "2024-11-05", Era: Legacy},
		{Version: "2025-03-26", Era: Legacy, Batch: true},
		{Version: "2025-06-18", Era: Legacy, VersionHeader: true, StructuredContent: true, Elicitation: true},
		{Version: "2025-11-25", Era: Legacy, VersionHeader: true, StructuredContent: true, Elicitation: true, ElicitURL: true, Tasks: true, Priming: true},
		{Version: "2026-06-30", Era: Modern, VersionHeader: true, StructuredContent: true, Elicitation: true, ElicitURL: true, OldModernCodes: true},
		{Version: "2026-07-28", Era: Modern, VersionHeader: true, StructuredContent: true, Elicitation: true, ElicitURL: true},
	} {
		if f, ok := Lookup(tt.Version); !ok || f != tt {
			t.Errorf("Lookup(%q) = %+v, %v", tt.Version, f, ok)
		}
	}
	if len(revisions) != 6 {
		t.Errorf("%d revisions, this test knows 6", len(revisions))
	}
	for _, v := range []string{"", "2025-11-26", "2026-07-28 ", "DRAFT-2026-v1", "2026-07-28\x00"} {
		if f, ok := Lookup(v); ok || f != (Features{}) {
			t.Errorf("Lookup(%q) = %+v", v, f)
		}
	}
}

func TestVersions(t *testing.T) {
	if got, want := Versions(Legacy), []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}; !slices.Equal(got, want) {
		t.Errorf("legacy %v", got)
	}
	if got, want := Versions(Modern), []string{"2026-07-28", "2026-06-30"}; !slices.Equal(got, want) {
		t.Errorf("modern %v", got)
	}
	if got := Versions(EraUnknown); got != nil {
		t.Errorf("unknown %v", got)
	}
}

func TestNegotiate(t *testing.T) {
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		// A modern revision has no handshake; the client decides whether it
		// speaks our offer (2025-11-25 basic/lifecycle, Version Negotiation).
		"2026-07-28": "2025-11-25", "2026-06-30": "2025-11-25", "": "2025-11-25", "1.0": "2025-11-25", "2099-01-01": "2025-11-25",
	} {
		if got := NegotiateLegacy(asked); got != want {
			t.Errorf("NegotiateLegacy(%q) = %q, want %q", asked, got, want)
		}
	}
	for _, tt := range []struct {
		supported []string
		want      string
	}{
		{[]string{"2026-06-30", "2026-07-28"}, "2026-07-28"},
		{[]string{"2026-06-30", "2025-11-25"}, "2026-06-30"},
		{[]string{"2099-01-01", "2025-11-25"}, ""}, // case B17: only legacy, or nothing we speak
		{nil, ""},
	} {
		if got := ChooseModern(tt.supported); got != tt.want {
			t.Errorf("ChooseModern(%v) = %q, want %q", tt.supported, got, tt.want)
		}
	}
}

func TestLooksModern(t *testing.T) {
	for version, want := range map[string]bool{
		"2024-11-05": false, "2025-11-25": false, "2026-06-29": false, "2026-06-30": true, "2026-07-01": true,
		"2026-07-28": true, "2031-01-01": true, "": false, "9": false, "latest": false, "2026-7-28": false,
		"2026/07/28": false, "20260728xx": false, "2026-07-2x": false, "2026-07-28T00": false,
	} {
		if got := LooksModern(version); got != want {
			t.Errorf("LooksModern(%q) = %v", version, got)
		}
	}
}

func TestEraText(t *testing.T) {
	for _, e := range []Era{Legacy, Modern} {
		if got, ok := ParseEra(e.String()); !ok || got != e {
			t.Errorf("ParseEra(%q) = %v, %v", e, got, ok)
		}
	}
	for _, s := range []string{"unknown", "", "Legacy", "2025-11-25"} {
		if e, ok := ParseEra(s); ok || e != EraUnknown {
			t.Errorf("ParseEra(%q) = %v", s, e)
		}
	}
	if EraUnknown.String() != "unknown" || Era(9).String() != "unknown" {
		t.Error("an unknown era has a name")
	}
}
