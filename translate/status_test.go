package translate

import (
	"slices"
	"testing"
)

// What each condition is in each era: 2025-11-25 basic/transports, 2026-07-28
// basic/index (Error Codes) and basic/transports/streamable-http.
func TestConditions(t *testing.T) {
	want := map[Cond][2]Reply{
		CondParse:              {{400, -32700}, {400, -32700}},
		CondInvalidRequest:     {{400, -32600}, {400, -32600}},
		CondInvalidParams:      {{200, -32602}, {200, -32602}},
		CondUnknownTask:        {{200, -32602}, {200, -32602}},
		CondUnknownMethod:      {{200, -32601}, {404, -32601}},
		CondInternal:           {{200, -32603}, {200, -32603}},
		CondMissingMeta:        {{400, -32602}, {400, -32602}},
		CondHeaderMismatch:     {{400, -32600}, {400, -32020}},
		CondMissingCapability:  {{200, -32602}, {400, -32021}},
		CondUnsupportedVersion: {{400, -32600}, {400, -32022}},
		CondNoSession:          {{400, -32600}, {400, -32600}},
		CondUnknownSession:     {{404, -32600}, {404, -32600}},
		CondDuplicateID:        {{200, -32600}, {200, -32600}},
		CondBadHost:            {{403, -32600}, {403, -32600}},
		CondBadOrigin:          {{403, -32600}, {403, -32600}},
		CondVerb:               {{405, -32600}, {405, -32600}},
		CondNotAcceptable:      {{406, -32600}, {406, -32600}},
		CondMediaType:          {{415, -32600}, {415, -32600}},
		CondBadHeader:          {{400, -32600}, {400, -32600}},
		CondUnauthorized:       {{401, -32600}, {401, -32600}},
		CondUndecided:          {{503, -32603}, {503, -32603}},
		CondTooLarge:           {{413, -32600}, {413, -32600}},
		CondSlowBody:           {{408, -32600}, {408, -32600}},
		CondNotFound:           {{404, -32600}, {404, -32600}},
		CondBusy:               {{503, -32603}, {503, -32603}},
		CondTooMany:            {{429, -32603}, {429, -32603}},
		CondDraining:           {{503, -32603}, {503, -32603}},
		CondUpstreamDown:       {{502, -32603}, {502, -32603}},
		CondUpstreamTimeout:    {{504, -32603}, {504, -32603}},
		CondUpstreamBroken:     {{502, -32603}, {502, -32603}},
		CondUpstreamUndecided:  {{503, -32603}, {503, -32603}},
		CondUpstreamRefused:    {{502, -32603}, {502, -32603}},
	}
	for _, r := range conditions {
		w, ok := want[r.Cond]
		if !ok {
			t.Errorf("%q: no right value in this test", r.Cond)
		}
		if got := ReplyFor(r.Cond, Legacy); got != w[0] {
			t.Errorf("%q toward legacy: %v, want %v", r.Cond, got, w[0])
		}
		if got := ReplyFor(r.Cond, Modern); got != w[1] {
			t.Errorf("%q toward modern: %v, want %v", r.Cond, got, w[1])
		}
		// Who has not said what it is is answered as an older peer.
		if got := ReplyFor(r.Cond, EraUnknown); got != w[0] {
			t.Errorf("%q toward unknown: %v, want %v", r.Cond, got, w[0])
		}
		status, code := StatusOf(r.Cond, Modern)
		if status != w[1].Status || code != w[1].Code {
			t.Errorf("StatusOf(%q) = %d, %d", r.Cond, status, code)
		}
		if r.Source == "" {
			t.Errorf("%q: no source", r.Cond)
		}
		delete(want, r.Cond)
	}
	for c := range want {
		t.Errorf("%q: no row", c)
	}
}

// Codes between -32099 and -32020 are the specification's: no row makes one
// up. No row emits a retired code or one of the legacy sub-range.
func TestConditionCodesAreDefined(t *testing.T) {
	defined := []int{-32700, -32600, -32601, -32602, -32603}
	for _, r := range conditions {
		if !slices.Contains(defined, r.Legacy.Code) {
			t.Errorf("%q toward legacy: %d", r.Cond, r.Legacy.Code)
		}
		if !slices.Contains(append(defined, -32020, -32021, -32022), r.Modern.Code) {
			t.Errorf("%q toward modern: %d", r.Cond, r.Modern.Code)
		}
	}
}

func TestEveryConditionHasARow(t *testing.T) {
	for _, c := range constants(t, "status.go", "Cond") {
		n := 0
		for _, r := range conditions {
			if string(r.Cond) == c {
				n++
			}
		}
		if want := 1; c != "" && n != want || c == "" && n != 0 {
			t.Errorf("condition %q has %d rows", c, n)
		}
	}
}

func TestUnknownConditions(t *testing.T) {
	for _, c := range []Cond{CondNone, "no such condition"} {
		for _, e := range []Era{EraUnknown, Legacy, Modern, 200} {
			if got := ReplyFor(c, e); got != (Reply{500, -32603}) {
				t.Errorf("ReplyFor(%q, %v) = %v", c, e, got)
			}
		}
	}
}

// The statuses 2026-07-28 ties to codes: streamable-http, Protocol Version
// Header and Server Validation; basic/index, Per-request protocol fields.
func TestErrorStatus(t *testing.T) {
	for code, want := range map[int64]int{
		-32601: 404, -32020: 400, -32021: 400, -32022: 400,
		-32602: 0, -32603: 0, -32002: 0, -32042: 0, -32003: 0, 0: 0, 404: 0,
	} {
		if got := ErrorStatus(code); got != want {
			t.Errorf("ErrorStatus(%d) = %d, want %d", code, got, want)
		}
	}
	for _, r := range errorStatuses {
		if r.Source == "" {
			t.Errorf("%d: no source", r.Code)
		}
	}
}
