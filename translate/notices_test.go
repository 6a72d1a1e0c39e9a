package translate

import "testing"

// Every notification a legacy server may send belongs to the session or to a
// request, question or task.
func TestOfSession(t *testing.T) {
	want := map[string]bool{
		"notifications/cancelled":              false,
		"notifications/progress":               false,
		"notifications/message":                false,
		"notifications/elicitation/complete":   false,
		"notifications/tasks/status":           false,
		"notifications/resources/updated":      true,
		"notifications/resources/list_changed": true,
		"notifications/tools/list_changed":     true,
		"notifications/prompts/list_changed":   true,
	}
	for method, of := range want {
		if OfSession(method) != of {
			t.Errorf("OfSession(%s) = %t", method, !of)
		}
	}
	for method := range sessionNotices {
		if !want[method] {
			t.Errorf("%s: no right value in this test", method)
		}
	}
}
