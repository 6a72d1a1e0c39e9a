package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"taskbridge/session"
)

func TestCredentials(t *testing.T) {
	c := session.NewCredentials(2)
	in := http.Header{"Authorization": {"Bearer a"}}
	c.Put(alice, in)
	in.Set("Authorization", "Bearer changed")
	got, ok := c.Get(alice)
	if !ok || got.Get("Authorization") != "Bearer a" {
		t.Fatalf("%v, %v", got, ok)
	}
	got.Set("Authorization", "Bearer changed")
	if got, _ := c.Get(alice); got.Get("Authorization") != "Bearer a" {
		t.Fatalf("a caller changed what is held: %v", got)
	}
	c.Put(alice, http.Header{"Authorization": {"Bearer newer"}})
	if got, _ := c.Get(alice); got.Get("Authorization") != "Bearer newer" || c.Len() != 1 {
		t.Fatalf("%v, %d held", got, c.Len())
	}
	if got, ok := c.Get(bob); ok || got != nil {
		t.Fatalf("another principal has %v", got)
	}
	c.Put("", http.Header{"Authorization": {"Bearer x"}})
	if got, ok := c.Get(""); ok || got != nil {
		t.Fatalf("callers without identity share %v", got)
	}
	c.Put(session.LocalPrincipal, nil)
	if got, ok := c.Get(session.LocalPrincipal); !ok || got == nil || len(got) != 0 {
		t.Fatalf("a caller that needs none: %v, %v", got, ok)
	}
	c.Get(alice)
	c.Put(bob, http.Header{})
	if _, ok := c.Get(session.LocalPrincipal); ok || c.Len() != 2 {
		t.Fatalf("the least recently used did not leave, %d held", c.Len())
	}
	c.Delete(alice)
	if _, ok := c.Get(alice); ok {
		t.Fatal("deleted one is there")
	}
	other := c.At("elsewhere")
	other.Put(bob, http.Header{"Authorization": {"Bearer for elsewhere"}})
	if got, _ := c.Get(bob); got.Get("Authorization") != "" || c.Len() != 2 {
		t.Fatalf("what was shown elsewhere is found here: %v, %d held", got, c.Len())
	}
	d := session.NewCredentials(0)
	for i := range session.DefaultCredentials + 5 {
		d.Put(session.Principal(fmt.Sprint(i)), nil)
	}
	if d.Len() != session.DefaultCredentials {
		t.Fatalf("%d held by default", d.Len())
	}
}

func TestCredentialsNeverShown(t *testing.T) {
	c := session.NewCredentials(0)
	c.Put(alice, http.Header{"Authorization": {"Bearer hunter2"}})
	type outer struct {
		Name string
		C    *session.Credentials
		V    session.Credentials
	}
	type inner struct{ c *session.Credentials }
	var logs bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&logs, nil), slog.NewJSONHandler(&logs, nil)} {
		slog.New(h).Info("x", "ptr", c, "value", *c, "in", outer{C: c, V: *c}, "hidden", inner{c})
	}
	shown := []string{logs.String(), c.String(), c.GoString(), (*c).String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10v"} {
		for _, v := range []any{c, *c, outer{C: c, V: *c}, &outer{C: c, V: *c}, inner{c}, []any{c}, map[string]any{"c": *c}} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
	}
	for _, v := range []any{c, *c, outer{C: c, V: *c}} {
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, string(j))
	}
	for _, s := range shown {
		low := strings.ToLower(s)
		if strings.Contains(low, "hunter2") || strings.Contains(low, "68756e746572") || strings.Contains(s, string(alice)) {
			t.Errorf("shown: %s", s)
		}
	}
	if c.String() != "[redacted]" {
		t.Errorf("String() = %q", c.String())
	}
}
