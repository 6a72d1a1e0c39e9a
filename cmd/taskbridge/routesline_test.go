package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestShowRoutes(t *testing.T) {
	var list []*route
	for i := range 25 {
		list = append(list, &route{routeConfig: routeConfig{name: fmt.Sprint("r", i), path: "/mcp"}})
	}
	list[0].hosts = []string{"a.example"}
	list[1].headers = map[string]string{"X-B": "2", "X-A": "1"}
	got := showRoutes(list)
	if want := "r0 a.example/mcp, r1 /mcp (X-A: 1) (X-B: 2), r2 /mcp, "; !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if want := ", r19 /mcp, and 5 more"; !strings.HasSuffix(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
