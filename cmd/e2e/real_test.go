package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// The real peers live in testdata/peers: what they are and what they print is
// in the README there. TASKBRIDGE_E2E says what a missing one means: unset, its
// tests are skipped; "require", they fail; "full", they fail and the long lists
// run too, which wants a -timeout of half an hour.
const (
	peersDir       = "../../testdata/peers"
	conformanceDir = "../../testdata/conformance"
)

func e2eMode() string { return os.Getenv("TASKBRIDGE_E2E") }

func fullE2E() bool { return e2eMode() == "full" }

// TestMain lets more tests run side by side than there are processors: those
// with real peers mostly wait.
func TestMain(m *testing.M) {
	asPeer()
	flag.Parse()
	explicit := false
	flag.Visit(func(f *flag.Flag) { explicit = explicit || f.Name == "test.parallel" })
	if !explicit {
		flag.Set("test.parallel", "6")
	}
	code := m.Run()
	removeGoPeers()
	removeBuiltBridge()
	os.Exit(code)
}

// long is for tests of minutes: they run where TASKBRIDGE_E2E is set, so that
// plain go test ./... stays within its ten minutes.
func long(t testing.TB) {
	t.Helper()
	if e2eMode() == "" {
		t.Skip("takes minutes: runs with TASKBRIDGE_E2E=require")
	}
}

// missing skips or fails a test for want of a peer.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if e2eMode() == "" {
		t.Skipf(format+" (TASKBRIDGE_E2E=require makes this a failure)", args...)
	}
	t.Fatalf(format, args...)
}

// needNode makes sure that node and the packages in dir are there.
func needNode(t testing.TB, dir string) {
	t.Helper()
	if testing.Short() {
		t.Skip("real peers take minutes: not with -short")
	}
	if _, err := exec.LookPath("node"); err != nil {
		missing(t, "no node: install Node 20 or newer")
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		missing(t, "no packages for the peers: run `npm ci` in %s", strings.TrimPrefix(dir, "../../"))
	}
}

// peer is a command that plays a client or a server.
type peer struct {
	name string
	argv func(t testing.TB) []string
}

func nodePeer(script string, args ...string) peer {
	return peer{name: strings.Join(append([]string{strings.TrimSuffix(script, ".mjs")}, args...), " "), argv: func(t testing.TB) []string {
		t.Helper()
		needNode(t, peersDir)
		return append([]string{"node", filepath.Join(peersDir, script)}, args...)
	}}
}

func goPeer(command string, args ...string) peer {
	return peer{name: strings.Join(append([]string{command}, args...), " "), argv: func(t testing.TB) []string {
		t.Helper()
		return append([]string{filepath.Join(goPeers(t), command)}, args...)
	}}
}

var (
	legacyServer     = nodePeer("legacy-server.mjs")
	legacyServerJSON = nodePeer("legacy-server.mjs", "--json")
	modernServer     = nodePeer("modern-server.mjs")
	everythingServer = nodePeer("everything.mjs")
	mcpgoServer      = goPeer("mcpgo-server")
	mcpgoBoth        = goPeer("mcpgo-server", "-era", "both")
	legacyClient     = nodePeer("legacy-client.mjs")
	modernClient     = nodePeer("modern-client.mjs")
	mcpgoLegacy      = goPeer("mcpgo-client", "-era", "legacy")
	mcpgoModern      = goPeer("mcpgo-client", "-era", "modern")
)

var goPeersDir string

// buildGoPeers builds them once a test run; they are a module of their own.
var buildGoPeers = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "taskbridge-peers-")
	if err != nil {
		return err
	}
	goPeersDir = dir
	cmd := exec.Command("go", "build", "-C", filepath.Join(peersDir, "go"), "-o", dir, "./...")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

func removeGoPeers() {
	if goPeersDir != "" {
		os.RemoveAll(goPeersDir)
	}
}

func goPeers(t testing.TB) string {
	t.Helper()
	if err := buildGoPeers(); err != nil {
		missing(t, "the mcp-go peers do not build: run `go build ./...` in testdata/peers/go: %v", err)
	}
	return goPeersDir
}

// startServer runs a server until the test ends; gives the URL of its ready line.
func startServer(t testing.TB, p peer) (url string) {
	t.Helper()
	argv := p.argv(t)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "PORT=0")
	startPeerProcess(t, p.name, cmd, func(line string) (ok bool) {
		url, ok = strings.CutPrefix(line, "listening on ")
		return ok
	})
	return url
}

// clientRun is what a client printed in one scenario.
type clientRun struct {
	Lines []string // the steps, then the {"ok":…} line; ids replaced
	OK    bool
}

func (r clientRun) String() string { return strings.Join(r.Lines, "\n") }

// runClient runs a scenario of a client peer against url.
func runClient(t testing.TB, p peer, url, scenario string, args ...string) clientRun {
	t.Helper()
	argv := p.argv(t)
	ctx, cancel := context.WithTimeout(t.Context(), 75*time.Second)
	defer cancel()
	argv = append(argv, url, scenario)
	if !strings.HasPrefix(p.name, "mcpgo") {
		argv = append(argv, args...)
	} else {
		argv = append(argv[:len(argv)-2:len(argv)-2], append(args, url, scenario)...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "PEER_DEADLINE_MS=60000")
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Errorf("%s %s: %v\n%s", p.name, scenario, err, said.String())
	}
	var run clientRun
	for line := range strings.Lines(string(out)) {
		line = canonical(strings.TrimSpace(line))
		run.Lines = append(run.Lines, line)
		run.OK = line == `{"ok":true}`
	}
	if len(run.Lines) == 0 {
		t.Errorf("%s %s printed nothing:\n%s", p.name, scenario, said.String())
	}
	return run
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	handles = regexp.MustCompile(`tb1_[A-Za-z0-9_-]{30,}`)
)

// canonical gives a line with sorted members and without what differs from run
// to run.
func canonical(line string) string {
	var v any
	if json.Unmarshal([]byte(line), &v) != nil {
		return line
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(v)
	s := strings.TrimSpace(b.String())
	s = uuids.ReplaceAllString(s, "ID")
	return handles.ReplaceAllString(s, "ID")
}

var scenarioNames sync.Map

// scenariosOf lists what a client can play, from its usage.
func scenariosOf(t testing.TB, p peer) []string {
	t.Helper()
	if names, ok := scenarioNames.Load(p.name); ok {
		return names.([]string)
	}
	argv := p.argv(t)
	out, _ := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
	_, list, ok := strings.Cut(string(out), "scenarios: ")
	if !ok {
		t.Fatalf("%s lists no scenarios:\n%s", p.name, out)
	}
	names := strings.Fields(list)
	scenarioNames.Store(p.name, names)
	return names
}
