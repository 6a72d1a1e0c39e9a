package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"taskbridge/translate"
)

// pairCell is a pair of eras and of transports: the client's, the server's.
type pairCell struct {
	client, server translate.Era
	down, up       string
}

func (c pairCell) String() string {
	return fmt.Sprintf("%s client over %s, %s server over %s", c.client, transportNames[c.down], c.server, transportNames[c.up])
}

var transportNames = map[string]string{"http": "Streamable HTTP", "stdio": "stdio", "ws": "WebSocket", "sse": "HTTP+SSE"}

// transportsOf are those that carry an era. HTTP+SSE is the transport of
// 2024-11-05 and carries legacy revisions alone (2026-07-28 basic/transports/
// streamable-http, HTTP+SSE Transport).
var transportsOf = map[translate.Era][]string{
	translate.Legacy: {"http", "stdio", "ws", "sse"},
	translate.Modern: {"http", "stdio", "ws"},
}

// pairCells are all 49.
func pairCells() (list []pairCell) {
	for _, eras := range [][2]translate.Era{
		{translate.Legacy, translate.Legacy}, {translate.Legacy, translate.Modern},
		{translate.Modern, translate.Legacy}, {translate.Modern, translate.Modern},
	} {
		for _, down := range transportsOf[eras[0]] {
			for _, up := range transportsOf[eras[1]] {
				list = append(list, pairCell{eras[0], eras[1], down, up})
			}
		}
	}
	return list
}

// pairRig is a cell set up: a server, the proxy in a process of its own, and a
// client.
type pairRig struct {
	pairCell
	t     *testing.T
	far   *far
	proxy *servedBridge // nil where the client starts the proxy
	p     *party
}

func newPairRig(t *testing.T, c pairCell) *pairRig {
	t.Helper()
	r := &pairRig{pairCell: c, t: t, far: fars[c.up](t, c.server)}
	if c.down != "stdio" {
		r.proxy = serveBridge(t, r.far.args)
	}
	r.p = r.client()
	return r
}

// client is one more of the cell's clients.
func (r *pairRig) client() *party {
	r.t.Helper()
	at := ""
	if r.proxy != nil {
		at = r.proxy.url
	}
	return newParty(r.t, r.pairCell.client, r.down, at, r.far.args)
}

// steer has the server do something, through the proxy.
func (r *pairRig) steer(word string) partyMessage {
	r.t.Helper()
	m := r.p.tool("greet", map[string]any{"name": "!" + word})
	if m.Error != nil {
		r.t.Fatalf("%s: %s", word, m)
	}
	return m
}

// servedBridge is a serve command in a process of its own.
type servedBridge struct {
	*process
	url string
}

func serveBridge(t testing.TB, args []string) *servedBridge {
	t.Helper()
	b := &servedBridge{}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--drain-timeout", "1s"}, append(recorded(t), args...)...)
	b.process = startProxy(t, args, func(line string) (ok bool) {
		b.url, ok = strings.CutPrefix(line, "listening on ")
		return ok
	})
	return b
}

var builtBridgeDir string

// buildBridge builds the command once a test run, with the race detector where
// the tests have it.
var buildBridge = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "taskbridge-")
	if err != nil {
		return "", err
	}
	builtBridgeDir = dir
	file := filepath.Join(dir, "taskbridge")
	args := []string{"build", "-o", file}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "taskbridge/cmd/taskbridge")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return file, nil
})

func removeBuiltBridge() {
	if builtBridgeDir != "" {
		os.RemoveAll(builtBridgeDir)
	}
}

func builtBridge(t testing.TB) string {
	t.Helper()
	file, err := buildBridge()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTransports plays the list of verbs over every pair of transports and
// eras with the built-in peers; docs/transports.md says which real peers play
// where besides.
func TestTransports(t *testing.T) {
	t.Parallel()
	cells := pairCells()
	if testing.Short() {
		cells = onePerPair()
	}
	for _, c := range cells {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			r := newPairRig(t, c)
			for _, v := range pairVerbs {
				if v.reason(c) == "" {
					t.Run(v.name, func(t *testing.T) {
						r.t, r.p.t = t, t
						v.play(r)
					})
					r.t, r.p.t = t, t
				}
			}
			if t.Failed() || r.proxy == nil {
				return
			}
			r.proxy.end(t)
			if c.up != "http" { // there sessions outlive the proxy
				eventually(t, "nothing is left open at the server", func() bool { return r.far.open() == 0 })
			}
		})
	}
}
