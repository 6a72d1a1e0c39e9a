package offline

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
	"taskbridge/translate/operation"
)

var update = flag.Bool("update", false, "write the translations found")

var began = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// script reads a conversation written as lines "SECONDS DIR STREAM JSON": DIR is
// > or <, STREAM one HTTP exchange; GET in JSON's place opens a stream. One
// session, unless the version in a message's _meta makes it modern.
func script(t *testing.T, text string) []*capture.Record {
	t.Helper()
	var records []*capture.Record
	for n, line := range strings.Split(text, "\n") {
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(f) < 4 {
			continue
		}
		seconds, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			t.Fatal(line)
		}
		r := &capture.Record{Line: n + 2, Time: began.Add(time.Duration(seconds * float64(time.Second))), Leg: translate.ClientLeg, Transport: "http", Stream: f[2], Principal: "p"}
		if f[1] == ">" {
			r.Dir, r.Verb = translate.ToServer, "POST"
		} else {
			r.Dir, r.Status = translate.ToClient, 200
		}
		switch {
		case f[3] == "GET":
			r.Verb = "GET"
		case strings.HasPrefix(f[3], "{"):
			r.Msg = []byte(f[3])
		default:
			if r.Status, err = strconv.Atoi(f[3]); err != nil {
				t.Fatal(line)
			}
		}
		if m, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{}); err == nil && m.At("params", "_meta", translate.MetaVersion).Exists() {
			r.Header = translate.StandardHeaders(m)
			r.Header[translate.HeaderVersion] = []string{"2026-07-28"}
		}
		records = append(records, r)
	}
	modern := slices.ContainsFunc(records, func(r *capture.Record) bool { return translate.ModernHeader(r.Header) })
	for _, r := range records {
		if !modern {
			r.Session = "s"
			if r.Dir == translate.ToServer {
				r.Header = http.Header{translate.HeaderVersion: {"2025-11-25"}}
			}
		}
	}
	return records
}

func show(records []*capture.Record) string {
	var b strings.Builder
	for _, r := range records {
		arrow := ">"
		if r.Dir == translate.ToClient {
			arrow = "<"
		}
		text := string(r.Msg)
		switch {
		case text == "" && r.Verb != "":
			text = r.Verb
		case text == "":
			text = strconv.Itoa(r.Status)
		}
		fmt.Fprintf(&b, "%s %s %s %s\n", strconv.FormatFloat(r.Time.Sub(began).Seconds(), 'f', -1, 64), arrow, strings.Replace(r.Stream, "t0.", "t", 1), text)
	}
	return b.String()
}

func gathered(records []*capture.Record) []*operation.Operation {
	return operation.Gather(slices.Values(records), translate.ClientLeg)
}

func translated(t *testing.T, records []*capture.Record, to string) ([]*capture.Record, *Report) {
	t.Helper()
	var out []*capture.Record
	report, err := Translate(context.Background(), TranslateOptions{
		Operations: gathered(records), To: to,
		Out: func(r *capture.Record) error { out = append(out, r); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, report
}

// TestTranslations plays testdata/*.txt: a conversation, a line ---, and what
// its translation is.
func TestTranslations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			given, want, _ := strings.Cut(string(text), "---\n")
			records := script(t, given)
			to := "2026-07-28"
			if slices.ContainsFunc(records, func(r *capture.Record) bool { return translate.ModernHeader(r.Header) }) {
				to = "2025-11-25"
			}
			out, report := translated(t, records, to)
			var got strings.Builder
			got.WriteString(show(out))
			for _, l := range report.LossNames() {
				got.WriteString(fmt.Sprintf("lost %s %d\n", l, report.Losses[l]))
			}
			if report.Unfinished > 0 || report.Misses > 0 {
				got.WriteString(fmt.Sprintf("unfinished %d missed %v\n", report.Unfinished, report.Missed))
			}
			if *update {
				if err := os.WriteFile(name, []byte(given+"---\n"+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got.String() != want {
				t.Errorf("got\n%s\nwant\n%s", got.String(), want)
			}
		})
	}
}
