package translate

import "testing"

// What becomes of each method when the eras differ: removed and added methods
// of 2026-07-28 changelog, methods of the tasks extension.
func TestMethods(t *testing.T) {
	want := map[string][2]Action{
		"initialize":                       {Local, Refuse},
		"notifications/initialized":        {Swallow, Swallow},
		"ping":                             {Local, Refuse},
		"server/discover":                  {Refuse, Local},
		"subscriptions/listen":             {Refuse, Local},
		"tools/list":                       {Forward, Forward},
		"tools/call":                       {Forward, Forward},
		"prompts/list":                     {Forward, Forward},
		"prompts/get":                      {Forward, Forward},
		"resources/list":                   {Forward, Forward},
		"resources/templates/list":         {Forward, Forward},
		"resources/read":                   {Forward, Forward},
		"resources/subscribe":              {Local, Refuse},
		"resources/unsubscribe":            {Local, Refuse},
		"completion/complete":              {Forward, Forward},
		"logging/setLevel":                 {Local, Refuse},
		"tasks/get":                        {Operate, Operate},
		"tasks/result":                     {Operate, Refuse},
		"tasks/list":                       {Operate, Refuse},
		"tasks/cancel":                     {Operate, Operate},
		"tasks/update":                     {Refuse, Operate},
		"notifications/cancelled":          {Operate, Operate},
		"notifications/progress":           {Swallow, Swallow},
		"notifications/roots/list_changed": {Swallow, Swallow},
		"notifications/tasks/status":       {Swallow, Swallow},
	}
	for _, r := range methods {
		w, ok := want[r.Method]
		if !ok {
			t.Errorf("%s: no right value in this test, or two rows", r.Method)
			continue
		}
		if got := ActionFor(r.Method, Legacy); got != w[0] {
			t.Errorf("%s from a legacy client: %v, want %v", r.Method, got, w[0])
		}
		if got := ActionFor(r.Method, Modern); got != w[1] {
			t.Errorf("%s from a modern client: %v, want %v", r.Method, got, w[1])
		}
		delete(want, r.Method)
	}
	for m := range want {
		t.Errorf("%s: no row", m)
	}
}

// A method nobody defined belongs to an extension both ends may know.
func TestUnknownMethodsAreForwarded(t *testing.T) {
	for _, m := range []string{"vendor/thing", "", "Tools/call", "tools/call/x", "tasks/pause"} {
		for _, e := range []Era{EraUnknown, Legacy, Modern} {
			if got := ActionFor(m, e); got != Forward {
				t.Errorf("%q from %v: %v", m, e, got)
			}
		}
	}
}

func TestActionNames(t *testing.T) {
	for a, want := range map[Action]string{Refuse: "refuse", Forward: "forward", Local: "local", Swallow: "swallow", Operate: "operate"} {
		if a.String() != want {
			t.Errorf("Action(%d) = %q", a, a)
		}
	}
}

// 2026-07-28 basic/patterns/mrtr, Supported Requests.
func TestCanRequireInput(t *testing.T) {
	for _, r := range methods {
		want := r.Method == "tools/call" || r.Method == "prompts/get" || r.Method == "resources/read"
		if CanRequireInput(r.Method) != want {
			t.Errorf("%s: %v", r.Method, !want)
		}
	}
}

// Only a method that no revision has is taken for unknown on the word of an
// HTTP status alone.
func TestNoSuchMethod(t *testing.T) {
	for status, want := range map[int]bool{400: true, 404: true, 501: true, 200: false, 202: false, 401: false, 403: false, 405: false, 429: false, 500: false, 503: false, 0: false} {
		if got := NoSuchMethod("vendor/thing", status); got != want {
			t.Errorf("vendor/thing, %d: %v", status, got)
		}
		for _, r := range methods {
			if NoSuchMethod(r.Method, status) {
				t.Errorf("%s, %d", r.Method, status)
			}
		}
	}
}
