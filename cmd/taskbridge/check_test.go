package main

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
)

// badCapture is a recording of a client that asks twice with one id, and sends
// a name that would clear a screen.
func badCapture(t *testing.T, whole bool, times int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a \x1b[2J.jsonl")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := capture.NewWriter(f, capture.Header{By: "taskbridge test"})
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		for _, msg := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"\u001b[2J\u202e\u0001<x>"}}`,
		} {
			err := w.Write(&capture.Record{Time: time.Now(), Leg: translate.ClientLeg, Dir: translate.ToServer, Transport: "stdio", Conn: "c", Msg: []byte(msg)})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if whole {
		if err := w.Close(false); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

func TestCheck(t *testing.T) {
	name := badCapture(t, true, 1)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 1, "3: error id/reused: id 1 was used before (see line 2)\n    client leg, the client's fault, ping"},
		{[]string{"--fail-on", "none"}, 0, "id/reused"},
		{[]string{"--fail-on", "lifecycle/"}, 1, "lifecycle/no-initialize"},
		{[]string{"--fail-on", "task/,header/name"}, 0, "id/reused"},
		{[]string{"--leg", "server"}, 0, "nothing found in 3 records"},
		{[]string{"--fail-on", "taks"}, 2, ""},
		{[]string{"--rules"}, 2, ""},
	} {
		code, out, errs := runArgs(t, append([]string{"check", name}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit %d, want %d with %q:\n%s%s", c.args, code, c.code, c.want, out, errs)
		}
		for _, bad := range []string{"\x1b", "\u202e", "\x01"} {
			if strings.Contains(out+errs, bad) {
				t.Errorf("%v: %q reaches the terminal", c.args, bad)
			}
		}
	}
	if code, out, _ := runArgs(t, "check", "--rules"); code != 0 || !strings.Contains(out, "task/terminal-changed") {
		t.Errorf("--rules: exit %d\n%s", code, out)
	}
}

func TestCheck_Forms(t *testing.T) {
	name := badCapture(t, false, 2)
	for _, form := range []string{"json", "junit", "sarif"} {
		file := filepath.Join(t.TempDir(), "out")
		code, out, errs := runArgs(t, "check", name, "--format", form, "-o", file)
		raw, err := os.ReadFile(file)
		if code != 1 || out != "" || err != nil {
			t.Fatalf("%s: exit %d %s%s%v", form, code, out, errs, err)
		}
		for _, bad := range []string{"\x1b", "\u202e", "\x01", "<x>"} {
			if strings.Contains(string(raw), bad) {
				t.Errorf("%s has %q in it", form, bad)
			}
		}
		if form == "junit" {
			d := xml.NewDecoder(strings.NewReader(string(raw)))
			for err == nil {
				_, err = d.Token()
			}
			if err != io.EOF || !strings.Contains(string(raw), `name="id/reused"`) {
				t.Errorf("%v\n%s", err, raw)
			}
			continue
		}
		if !json.Valid(raw) || !strings.Contains(string(raw), "capture/not-whole") {
			t.Errorf("%s:\n%s", form, raw)
		}
	}
}

// At most 5,000 results, the last of which counts the rest.
func TestCheck_ManyFindings(t *testing.T) {
	_, out, _ := runArgs(t, "check", badCapture(t, true, 3000), "--format", "sarif")
	var log struct {
		Version string
		Runs    []struct {
			Results []struct {
				RuleID  string `json:"ruleId"`
				Message struct{ Text string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &log); err != nil || log.Version != "2.1.0" {
		t.Fatal(err)
	}
	results := log.Runs[0].Results
	if n := len(results); n != 5000 || results[n-1].RuleID != "report/more" || !strings.HasSuffix(results[n-1].Message.Text, "more findings are not listed") {
		t.Errorf("%d results, the last %+v", n, results[len(results)-1])
	}
}

func TestCheck_NoCapture(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct{ file, want string }{
		{filepath.Join(dir, "none"), "none"},
		{file("newer", `{"capture":"taskbridge-capture","format":99}`), "line 1: format 99 is newer"},
		{file("empty", ""), "line 1"},
	} {
		if code, _, errs := runArgs(t, "check", c.file); code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %s", c.file, code, errs)
		}
	}
}
