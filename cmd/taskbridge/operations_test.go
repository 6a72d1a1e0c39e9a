package main

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// TestSafetyS52_NamesInMetrics: a million clients with names, methods, tools and
// ids of their own, some a MiB long, add no series beyond those of our own words.
func TestSafetyS52_NamesInMetrics(t *testing.T) {
	m := newMetrics()
	at := time.Now()
	long := strings.Repeat("x", 1<<20)
	for i := range 1_000_000 {
		q := session.Request{
			Who: session.Who{Client: strconv.Itoa(i), ClientVersion: long}, Route: "r", Down: translate.Modern, Up: translate.Legacy,
			Kind: jsonrpc.Request, Method: "tools/call", Name: strconv.Itoa(i), ID: strconv.Itoa(i), Session: strconv.Itoa(i), At: at,
		}
		if i%3 == 0 {
			q.Method = "vendor/" + strconv.Itoa(i)
		}
		m.ops.End(&q, session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeCompleted, Message: long}, At: at})
		if i%1000 == 0 {
			m.at("r").Loss(strconv.Itoa(i))
			m.Dropped(strconv.Itoa(i))
		}
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := len(f.Metric); n > 64 {
			t.Errorf("%s has %d series", f.GetName(), n)
		}
		for _, one := range f.Metric {
			for _, l := range one.Label {
				if len(l.GetValue()) > session.MaxShown {
					t.Errorf("%s: label %s of %d bytes", f.GetName(), l.GetName(), len(l.GetValue()))
				}
			}
		}
		if f.GetName() == "taskbridge_operations_total" {
			if n := len(f.Metric); n != 2 {
				t.Errorf("%d series, want those of tools/call and _OTHER", n)
			}
		}
	}
}

// TestSafetyS52_NamesInAuditLines: a method of a MiB is one word, and what names
// a client is not there.
func TestSafetyS52_NamesInAuditLines(t *testing.T) {
	var out bytes.Buffer
	l := &auditLog{now: auditPlace{log: slog.New(slog.NewJSONHandler(&out, nil))}, mask: func(kind, _ string) string { return kind }}
	long := strings.Repeat("x", 1<<20)
	q := session.Request{Who: session.Who{Client: long, ClientVersion: long, Principal: "p"}, Kind: jsonrpc.Request, Method: long, Name: long, Task: `"` + long + `"`}
	l.End(&q, session.Ended{Answer: translate.Answer{Outcome: translate.OutcomeTask, Message: long}})
	if out.Len() > 512 || !strings.Contains(out.String(), `"method":"_OTHER"`) {
		t.Errorf("%d bytes: %.600s", out.Len(), out.String())
	}
}
