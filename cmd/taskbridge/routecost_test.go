package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// TestRouteCost measures what a request costs on one of 1,000 routes against
// the same request where there is one, in turns in this process:
//
//	TASKBRIDGE_E2E=full go test ./cmd/taskbridge -run TestRouteCost -v -count 1
//
// It says the ratio and judges nothing: no test asserts a duration.
func TestRouteCost(t *testing.T) {
	routes, rounds, each := 50, 3, 10
	if os.Getenv("TASKBRIDGE_E2E") == "full" {
		routes, rounds, each = 1000, 2001, 5
	}
	server := peer(t, peers.NewModernServer(peers.ServerOptions{}))
	config := func(n int) string {
		var b strings.Builder
		b.WriteString("listeners: [{name: one, address: \"127.0.0.1:0\"}]\nroutes:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - {name: r%d, path: /r%d/mcp, upstream: %q}\n", i, i, server)
		}
		return b.String()
	}
	base := func(n int) string {
		s := listening(t, "serve", "--config", writeConfig(t, "", config(n)))
		root := s.url
		if i := strings.Index(root[len("http://"):], "/"); i >= 0 {
			root = root[:len("http://")+i]
		}
		return fmt.Sprintf("%s/r%d/mcp", root, n/2)
	}
	one, many := base(1), base(routes)
	round := func(url string) time.Duration {
		start := time.Now()
		for range each {
			q, err := http.NewRequest(http.MethodPost, url, strings.NewReader(discoverCall))
			if err != nil {
				t.Fatal(err)
			}
			q.Header = modernHeader.Clone()
			res, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res.Status, err)
			}
			res.Body.Close()
		}
		return time.Since(start)
	}
	round(one)
	round(many)
	ratios := make([]float64, rounds)
	for i := range ratios {
		a, b := round(one), time.Duration(0)
		if b = round(many); i%2 == 1 { // whoever goes first in turns
			b = round(many)
			a = round(one)
		}
		ratios[i] = float64(b) / float64(a)
	}
	slices.Sort(ratios)
	t.Logf("%d routes against one, %d rounds of %d requests: ratio %.3f, quartiles %.3f and %.3f", routes, rounds, each, ratios[rounds/2], ratios[rounds/4], ratios[rounds*3/4])
}
