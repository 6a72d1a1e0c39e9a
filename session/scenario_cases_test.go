package session_test

import (
	"strings"
	"testing"

	"taskbridge/translate"
)

// Cases from the field, one test a row: the scenarios that hold its right
// values.

func runCase(t *testing.T, scenarios ...string) {
	for _, name := range scenarios {
		t.Run(name, func(t *testing.T) { runScenario(t, name) })
	}
}

func TestCaseB1_ResultRetrieval(t *testing.T) {
	runCase(t, "modern-task", "legacy-poll-broken")
}

func TestCaseB3_FailedAndIsError(t *testing.T) {
	runCase(t, "legacy-tool-error", "legacy-tool-error-completed", "legacy-failed", "legacy-early-error", "modern-failed")
}

func TestCaseB4_HandleShapeAndWhoMayReceiveOne(t *testing.T) {
	runCase(t, "legacy-task-polling", "legacy-driven", "legacy-failed", "modern-required", "modern-required-refuse")
}

func TestCaseB6_CancelOfFinishedTask(t *testing.T) {
	runCase(t, "legacy-cancel", "legacy-cancel-finished", "legacy-held-result", "modern-cancel")
}

func TestCaseB8_NotFoundAfterReconnect(t *testing.T) {
	runCase(t, "legacy-unknown-task", "legacy-expiry", "modern-session-lost", "modern-removed-methods", "pass-sealed")
}

func TestCaseB9_TTLAndPollIntervalForms(t *testing.T) {
	runCase(t, "legacy-ttl-forms", "legacy-expiry")
}

func TestCaseB11_BlockingResult(t *testing.T) {
	runCase(t, "legacy-result-waiters", "legacy-result-400s", "legacy-watched", "legacy-early-handle", "legacy-question-lost-stream")
}

func TestCaseB12_InputRequiredNeverSeen(t *testing.T) {
	runCase(t, "modern-question-get", "modern-question-result", "modern-question-no-get", "legacy-question-on-get")
}

func TestCaseB14_RelatedTaskMetadata(t *testing.T) {
	runCase(t, "legacy-task-polling", "legacy-question", "modern-question-get", "modern-question-result", "modern-required", "legacy-task-meta")
}

func TestCaseB15_RequiredFieldsOfModernResults(t *testing.T) {
	runCase(t, "legacy-tools-list", "modern-required", "modern-discover")
}

func TestCaseB18_URLElicitationBetweenLegacyPeers(t *testing.T) {
	runCase(t, "pass-legacy")
}

func TestCaseB18_URLElicitation(t *testing.T) {
	runCase(t, "modern-url-required", "modern-url-refused", "modern-question-no-get", "legacy-input-rounds")
}

func TestCaseB22_DisconnectVersusCancel(t *testing.T) {
	runCase(t, "modern-gone", "legacy-early-cancel", "legacy-driven", "pass-modern")
}

func TestCaseB23_LogLevel(t *testing.T) { runCase(t, "modern-call", "legacy-log-level") }

func TestCaseB25_BigNumbers(t *testing.T) {
	runCase(t, "modern-call", "legacy-held-result", "pass-legacy", "pass-modern")
}

func TestCaseB26_UnknownFields(t *testing.T) {
	runCase(t, "legacy-initialize", "legacy-tools-list", "modern-call", "pass-legacy", "pass-modern",
		"legacy-other-methods", "modern-other-methods", "legacy-task-meta")
}

func TestCaseB29_UnicodeAndEscapes(t *testing.T) { runCase(t, "pass-legacy") }

func TestCaseB34_ParamHeaders(t *testing.T) {
	runCase(t, "legacy-param-headers", "modern-param-headers")
}

func TestCaseB36_Unauthorized(t *testing.T) {
	runCase(t, "pass-unauthorized", "legacy-unauthorized", "modern-unauthorized")
}

func TestCaseB42_FieldNamesUnitsTimestamps(t *testing.T) {
	runCase(t, "legacy-ttl-forms", "modern-listen", "modern-listen-finished", "modern-failed")
}

func TestCaseB43_PollPacing(t *testing.T) {
	runCase(t, "legacy-task-polling", "modern-task", "legacy-poll-pacing")
}

func TestCaseB44_InputRequestsAndAnswers(t *testing.T) {
	runCase(t, "modern-question-get", "modern-question-result", "legacy-question", "legacy-question-lost-stream",
		"legacy-question-vanished", "legacy-question-error", "legacy-sampling-refused", "legacy-early-question", "modern-parked", "modern-input-rounds")
}

func TestCaseB45_TaskSupport(t *testing.T) {
	runCase(t, "modern-discover", "modern-task", "modern-required", "modern-required-refuse", "modern-driven-asks",
		"legacy-initialize", "legacy-tools-list")
}

func TestCaseB47_RoutingByHandle(t *testing.T) {
	runCase(t, "legacy-unknown-task", "modern-removed-methods", "modern-listen", "pass-sealed")
}

func TestCaseB49_ElicitationModes(t *testing.T) {
	runCase(t, "legacy-question-error", "legacy-input-undeclared", "modern-input-rounds", "modern-url-refused")
}

func TestCaseB52_RequestsBeforeInitialized(t *testing.T) {
	runCase(t, "modern-discover", "legacy-before-initialized")
}

func TestCaseB54_SamplingWithTools(t *testing.T) {
	runCase(t, "legacy-sampling-refused", "legacy-input-rounds", "legacy-input-undeclared", "modern-input-rounds")
}

func TestCaseB61_MetaOfTheHandle(t *testing.T) { runCase(t, "legacy-task-polling", "modern-task") }

// Every loss in the table is counted by some scenario.
func TestLossesAreCounted(t *testing.T) {
	counted := map[string]bool{}
	for _, name := range scenarioNames(t) {
		sc, err := loadScenario(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, st := range sc.steps {
			for l := range strings.FieldsSeq(st.opt("losses")) {
				what, _, _ := strings.Cut(l, "×")
				counted[what] = true
			}
		}
	}
	for _, l := range translate.Losses() {
		if !counted[l[0]] {
			t.Errorf("loss %q is counted in no scenario", l[0])
		}
		delete(counted, l[0])
	}
	for what := range counted {
		t.Errorf("loss %q is counted and has no row", what)
	}
}
