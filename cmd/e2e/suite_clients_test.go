package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The suite's client scenarios: the suite plays a server of one era, the proxy
// stands before it, and a real client of the other era plays the scenario
// against the proxy. go-sdk's own conformance client plays them directly too.
type clientSet struct {
	scenarios []string
	client    string // who plays them through the proxy
	// baseline as in suiteCell.
	baseline map[string]string
}

var clientSets = map[string]clientSet{
	setLegacy: {
		scenarios: []string{"initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"},
		client:    "go-sdk 1.8.0, modern",
	},
	setModern: {
		scenarios: []string{
			"tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers", "http-custom-headers",
			"http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation",
		},
		client: "sdk 1.32.2, legacy",
	},
}

// buildOnce builds a command into the folder of the Go peers, once a test run.
func buildOnce(dir, pkg, name string) func(testing.TB) string {
	build := sync.OnceValues(func() (string, error) {
		file := filepath.Join(goPeersDir, name)
		if out, err := exec.Command("go", "build", "-C", dir, "-o", file, pkg).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		return file, nil
	})
	return func(t testing.TB) string {
		t.Helper()
		goPeers(t)
		file, err := build()
		if err != nil {
			missing(t, "%s does not build: %v", pkg, err)
		}
		return file
	}
}

var (
	gosdkSuiteClient = buildOnce(filepath.Join(peersDir, "go"), "github.com/modelcontextprotocol/go-sdk/conformance/everything-client", "gosdk-suite-client")
	proxyBinary      = buildOnce("../..", "./cmd/taskbridge", "taskbridge")
)

// suiteClients plays one set of client scenarios, directly and through the
// proxy as its command line has it.
func suiteClients(t *testing.T, r *suiteResults, set string) {
	s := clientSets[set]
	direct := gosdkSuiteClient(t)
	client := direct
	if set == setModern {
		client = "node " + absolute(t, filepath.Join(peersDir, "suite-client.mjs"))
	}
	through := fmt.Sprintf("node %s %s %s", absolute(t, filepath.Join(conformanceDir, "through.mjs")), proxyBinary(t), client)
	play := func(command string) suiteRun {
		return runSuite(t, append([]string{"--client", command, "--spec-version", set}, s.scenarios...)...)
	}
	r.put(r.clientsDirect, set, play(direct))
	r.put(r.clientsThrough, set, play(through))
}

func absolute(t testing.TB, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func checkClients(t *testing.T, r *suiteResults, set string) {
	s := clientSets[set]
	for _, name := range s.scenarios {
		direct, got := r.clientsDirect[set][name], r.clientsThrough[set][name]
		if direct.Verdict != "pass" {
			t.Errorf("%s fails directly: %v", name, direct.Problems)
		}
		worse := suiteWorse(direct, got)
		reason, listed := s.baseline[name]
		if len(worse) > 0 && !listed {
			t.Errorf("%s does worse than directly in %v: %v", name, worse, got.Problems)
		}
		if len(worse) == 0 && listed {
			t.Errorf("%s does as well as directly: take it off the baseline (%s)", name, reason)
		}
	}
}
