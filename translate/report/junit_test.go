package report

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"time"
)

const hostile = "a\x01b\x1b[2Jc\u202Ed]]><x>&\"'\xff\n\U0001F600"

func TestJUnit(t *testing.T) {
	var b bytes.Buffer
	err := JUnit(&b, Suite{Name: "capture " + hostile, Cases: []Case{
		{Class: "tools/call", Name: hostile, Time: 1500 * time.Millisecond},
		{Class: "c", Name: "fails", Failure: &Problem{Message: hostile, Kind: "k", Details: "one\ntwo " + hostile}},
		{Class: "c", Name: "breaks", Error: &Problem{Message: "m"}},
		{Class: "c", Name: "left out", Skipped: "not annotated"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for _, bad := range []string{"\x01", "\x1b", "\u202E", "\xff", "<x>", "\uFFFD"} {
		if strings.Contains(out, bad) {
			t.Errorf("%q is in the report", bad)
		}
	}
	for _, want := range []string{`tests="4" failures="1" errors="1" skipped="1"`, `time="1.500"`, "one&#xA;two ", `\x01`, `\u202e`, `<skipped message="not annotated">`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	d := xml.NewDecoder(&b)
	for {
		if _, err := d.Token(); err != nil {
			if err.Error() != "EOF" {
				t.Errorf("not XML: %v", err)
			}
			return
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"plain": "plain", "é😀": "é😀", "a\x1b[0m": `a\x1b[0m`, "\u200b\u2066": `\u200b\u2066`, "\xc3": `\xc3`} {
		if got := Text(in, 0); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := Text(strings.Repeat("x", 100), 10); got != "xxxxxxxxxx…" {
		t.Errorf("cut: %s", got)
	}
}
