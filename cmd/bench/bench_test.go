package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the roles too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleArg {
		if err := serveRole(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	// Under the race detector each role would wait a second before it ends.
	os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// TestBenchSmoke runs every scenario once, so that the benchmark keeps
// working; how long anything takes is no matter here.
func TestBenchSmoke(t *testing.T) {
	o, err := parse([]string{"-quick"})
	if err != nil {
		t.Fatal(err)
	}
	o.round, o.large = time.Millisecond, 256<<10
	var out bytes.Buffer
	if err := run(o, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, s := range scenarios(o.large) {
		if !strings.Contains(out.String(), "| "+s.name()+" ") {
			t.Errorf("no line for %s", s.name())
		}
	}
}

func TestQuartiles(t *testing.T) {
	low, mid, high := quartiles([]float64{4, 1, 3, 2, 5})
	if low != 2 || mid != 3 || high != 4 {
		t.Errorf("got %v, %v, %v; want 2, 3, 4", low, mid, high)
	}
	if low, mid, high := quartiles([]float64{7}); low != 7 || mid != 7 || high != 7 {
		t.Errorf("one value: got %v, %v, %v", low, mid, high)
	}
}
