package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"taskbridge/translate"
	"taskbridge/translate/capture/capturetest"
	"taskbridge/translate/compare"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

// hostileNames are what peers may call themselves and their tools.
var hostileNames = []string{
	"\x1b[2Jclear", "</script><img src=x onerror=alert(1)>", "=cmd|' /C calc'!A0", "\u202Egnp.exe", "a\x01b", "]]>&lt;", `"><svg onload=x>`, "line\nbreak\r\x00", "\u2028\u0085\u200f",
}

func hostileComparison() *Comparison {
	say := func(text string) []*operation.Operation {
		var b strings.Builder
		for i, name := range hostileNames {
			quoted := string(jsonrpc.Quote(name))
			id := string(rune('a' + i))
			b.WriteString("> " + id + ` 1 tools/call {"name":` + quoted + `,"arguments":{` + quoted + `:1}}` + "\n")
			b.WriteString("< " + id + ` 1 = {"content":[{"type":"text","text":` + string(jsonrpc.Quote(text+name+"\nsecond\nthird")) + `}],` + quoted + `:` + string(jsonrpc.Quote(text)) + "}\n")
		}
		b.WriteString(`> p 7 ping` + "\n")
		return operation.Gather(slices.Values(capturetest.Records(b.String())), translate.ClientLeg)
	}
	a, b := say("was "), say("now ")
	for _, ops := range [][]*operation.Operation{a, b} {
		for i, op := range ops {
			op.Client = hostileNames[i%len(hostileNames)]
		}
	}
	r := compare.Captures(a[:len(a)-2], b, compare.Options{})
	r.Pairs[1].Verdict, r.Pairs[1].Reason = compare.Inconclusive, hostileNames[0]
	return &Comparison{Command: "diff", A: hostileNames[1], B: "b" + hostileNames[3], Report: r, Notes: []string{hostileNames[0] + hostileNames[1]}}
}

// noControls: nothing that moves a cursor, changes colours or turns the
// direction of writing.
func noControls(t *testing.T, out string) {
	t.Helper()
	for _, r := range out {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Fatalf("%U is in the report", r)
		}
	}
}

func TestSafetyS58_Terminal(t *testing.T) {
	var b bytes.Buffer
	c := hostileComparison()
	if err := c.Terminal(&b, false); err != nil {
		t.Fatal(err)
	}
	noControls(t, b.String())
	for _, want := range []string{": different\n", `\x1b[2Jclear`, "1 inconclusive", "left out     1: a client pings", "-was ", "+now ", "@@ "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	// In colour the only escapes are our own.
	b.Reset()
	if err := c.Terminal(&b, true); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\x1b[31mdifferent\x1b[0m") {
		t.Error("no colour")
	}
	noControls(t, regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(b.String(), ""))
}

func TestSafetyS58_JSON(t *testing.T) {
	var b bytes.Buffer
	if err := hostileComparison().JSON(&b); err != nil {
		t.Fatal(err)
	}
	noControls(t, b.String())
	var out jsonReport
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	if out.Verdict != "different" || out.Pairs[0].A.Name != hostileNames[0] || out.Counts.Reasons == nil || out.Pairs[0].Differences[0].Path == "" {
		t.Errorf("%+v", out)
	}
}

func TestSafetyS58_JUnit(t *testing.T) {
	var b bytes.Buffer
	if err := hostileComparison().JUnit(&b); err != nil {
		t.Fatal(err)
	}
	noControls(t, b.String())
	d := xml.NewDecoder(&b)
	elements := map[string]int{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			elements[e.Name.Local]++
		}
	}
	if elements["testcase"] != len(hostileNames)+1 || elements["error"] != 1 || elements["skipped"] != 1 || elements["failure"] != len(hostileNames)-1 || len(elements) != 6 {
		t.Errorf("%v", elements)
	}
}

// The page has only our own elements and attributes, and a policy under which
// nothing could run or load even so.
func TestSafetyS58_HTML(t *testing.T) {
	var b bytes.Buffer
	if err := hostileComparison().HTML(&b); err != nil {
		t.Fatal(err)
	}
	noControls(t, b.String())
	for _, bad := range []string{"<script", "<img", "onerror=alert(1)>", "<svg onload", "javascript:", "http://", "https://", "ZgotmplZ", "@import", "url("} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	allowedTags := strings.Fields("html head meta title style body h1 h2 h3 h4 p table tbody tr th td svg g text a rect section div span b code pre details summary")
	allowed := strings.Fields("lang charset http-equiv content name class scope colspan viewbox role aria-label x y width height href id")
	tag := regexp.MustCompile(`^<(/?)([a-z0-9]+)((?: [A-Za-z-]+="[^"<>]*")*)>`)
	attribute := regexp.MustCompile(` ([A-Za-z-]+)="([^"]*)"`)
	body := strings.TrimPrefix(b.String(), "<!doctype html>\n")
	for rest := body; ; {
		_, after, found := strings.Cut(rest, "<")
		if !found {
			break
		}
		m := tag.FindStringSubmatch("<" + after)
		if m == nil || !slices.Contains(allowedTags, m[2]) {
			t.Fatalf("not an element of ours: <%.80s", after)
		}
		for _, a := range attribute.FindAllStringSubmatch(m[3], -1) {
			if !slices.Contains(allowed, strings.ToLower(a[1])) || a[1] == "href" && !strings.HasPrefix(a[2], "#op-") {
				t.Errorf("attribute %s=%q of %s", a[1], a[2], m[2])
			}
		}
		rest = after
	}
	style := b.String()[strings.Index(b.String(), "<style>")+len("<style>") : strings.Index(b.String(), "</style>")]
	sum := sha256.Sum256([]byte(style))
	if want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(html.UnescapeString(b.String()), "style-src '"+want+"'") {
		t.Errorf("the policy does not allow the page's own style, %s", want)
	}
}
