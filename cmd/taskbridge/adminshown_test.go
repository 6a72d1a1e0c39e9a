package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"taskbridge/cmd/peers"
	"taskbridge/session"
)

// TestAdminShown: what clients call themselves reaches no terminal as it came, in
// whichever form the admin command writes, and in JSON it is still what it was; a
// long name that is asked for is echoed cut.
func TestAdminShown(t *testing.T) {
	const name = "evil\x1b[2J\x1b]0;title\x07\u009b31m\u202e\x7f"
	s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})), "--admin", "127.0.0.1:0")
	quoted, err := json.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	initialize := strings.Replace(initializeCall, `"name":"c"`, `"name":`+string(quoted), 1)
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if status, _, body := ask(t, http.MethodPost, s.url, header, initialize); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	for _, args := range [][]string{{"report"}, {"report", "--json"}, {"report", "--format", "json"}, {"report", "--format", "csv"}, {"status"}, {"status", "--json"}} {
		args = append([]string{"admin", "--admin", s.admin}, args...)
		code, out, stderr := runArgs(t, args...)
		if code != exitOK {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
		if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%v wrote %q", args, out[max(0, i-20):i+5])
		}
		if args[3] == "report" && !strings.Contains(out, "evil") {
			t.Errorf("%v does not name the client: %s", args, out)
		}
		if strings.Contains(strings.Join(args, " "), "report --json") {
			var rep struct {
				Routes []struct{ Clients []struct{ Name string } }
			}
			if err := json.Unmarshal([]byte(out), &rep); err != nil || len(rep.Routes) != 1 || len(rep.Routes[0].Clients) != 1 || rep.Routes[0].Clients[0].Name != name {
				t.Errorf("%v: %v %+v", args, err, rep)
			}
		}
	}
	for _, long := range []string{strings.Repeat("x", 60<<10), strings.Repeat("\x1b", 1000)} {
		body, err := json.Marshal(map[string]string{"name": long})
		if err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"/drain", "/undrain"} {
			status, _, said := ask(t, http.MethodPost, s.admin+verb, http.Header{"Content-Type": {"application/json"}}, string(body))
			if status != http.StatusNotFound || len(said) > 2000 || strings.ContainsRune(said, '\x1b') {
				t.Errorf("%s of a long name: %d, %d bytes: %.300s", verb, status, len(said), said)
			}
		}
		code, out, stderr := runArgs(t, "admin", "--admin", s.admin, "drain", long)
		if code != exitUsage || len(stderr) > 2000 || strings.ContainsRune(out+stderr, '\x1b') {
			t.Errorf("drain of a long name: %d, %d bytes: %.300s", code, len(stderr), stderr)
		}
	}
}

// TestLoadText: one thing is no many.
func TestLoadText(t *testing.T) {
	for want, u := range map[string]session.UpstreamStatus{
		"0 sessions, 0 tasks, 0 calls":         {},
		"1 session, 1 task, 1 call":            {Sessions: 1, Tasks: 1, Calls: 1},
		"2 sessions, 1 task, 11 calls":         {Sessions: 2, Tasks: 1, Calls: 11},
		"0 sessions, 9 tasks, 0 calls or more": {Tasks: 9, More: true},
	} {
		if got := loadText(u); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
