package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// featureSDKs are the clients of each SDK in features.json, by the client
// peers that play its cases.
var featureSDKs = map[string][]string{
	"npm @modelcontextprotocol/sdk 1.32.2":   {"features-client --sdk 1"},
	"npm @modelcontextprotocol/client 2.4.0": {"features-client --sdk 2"},
	"go-sdk 1.8.0":                           {"gosdk-features -era legacy", "gosdk-features -era modern"},
	"mcp-go 1.2.1":                           {"mcpgo-features -era legacy", "mcpgo-features -era modern"},
}

// featureTables are the cases of tasks, which other tests have.
var featureTables = map[string]map[string]string{
	"TestReal_LegacyClient_ModernServer": legacyOnModern,
	"TestReal_ModernClient_LegacyServer": modernOnLegacy,
	"TestReal_MCPGoClient_ModernServer":  mcpgoOnModern,
}

// featureList reads features.json: by SDK and exported name a list of cases, or
// why a proxy has nothing to do with it.
func featureList(t *testing.T) map[string]map[string]json.RawMessage {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(peersDir, "features.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list map[string]map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestFeatures_EveryEntryHasACase: each entry names cases that exist, or a reason.
func TestFeatures_EveryEntryHasACase(t *testing.T) {
	list := featureList(t)
	for sdk, clients := range featureSDKs {
		played := map[string]bool{}
		for _, name := range clients {
			era := "modern"
			if strings.HasSuffix(name, "legacy") || strings.HasSuffix(name, "1") {
				era = "legacy"
			}
			for feature := range featuresOf(peer{name: name}, peer{}, era) {
				played[feature] = true
			}
		}
		if len(list[sdk]) == 0 {
			t.Errorf("features.json has nothing of %s", sdk)
		}
		for name, entry := range list[sdk] {
			if problem := featureProblem(entry, played); problem != "" {
				t.Errorf("%s: %s: %s", sdk, name, problem)
			}
		}
	}
	if len(list) != len(featureSDKs) {
		t.Errorf("features.json lists %d SDKs, want %d", len(list), len(featureSDKs))
	}
}

// featureProblem says what is wrong with an entry.
func featureProblem(entry json.RawMessage, played map[string]bool) string {
	var reason string
	if json.Unmarshal(entry, &reason) == nil {
		if len(reason) < 10 {
			return "neither a case nor a reason"
		}
		return ""
	}
	var cases []string
	if err := json.Unmarshal(entry, &cases); err != nil {
		return err.Error()
	}
	if len(cases) == 0 {
		return "no case"
	}
	for _, name := range cases {
		test, sub, other := strings.Cut(name, "/")
		if _, ok := featureTables[test][sub]; other && !ok || !other && !played[name] {
			return "no case " + name
		}
	}
	return ""
}

// TestFeatures_ListIsComplete: the list has what the SDKs export, by reflection,
// and nothing else.
func TestFeatures_ListIsComplete(t *testing.T) {
	list := featureList(t)
	needNode(t, peersDir)
	exported := map[string][]string{}
	for _, argv := range [][]string{
		{"node", filepath.Join(peersDir, "methods.mjs")},
		{filepath.Join(goPeers(t), "methods")},
	} {
		out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).Output()
		if err != nil {
			t.Fatalf("%v: %v", argv, err)
		}
		if err := json.Unmarshal(out, &exported); err != nil {
			t.Fatal(err)
		}
	}
	for sdk, names := range exported {
		for _, name := range names {
			if _, ok := list[sdk][name]; !ok {
				t.Errorf("%s exports %s: put it in features.json", sdk, name)
			}
		}
		for name := range list[sdk] {
			if !slices.Contains(names, name) {
				t.Errorf("%s does not export %s", sdk, name)
			}
		}
	}
	if len(exported) != len(featureSDKs) {
		t.Errorf("%d SDKs were asked, want %d", len(exported), len(featureSDKs))
	}
}

// TestFeatureProblem: what the check must find.
func TestFeatureProblem(t *testing.T) {
	played := map[string]bool{"ping": true}
	for entry, ok := range map[string]bool{
		`["ping"]`:        true,
		`["ping","pong"]`: false,
		`["TestReal_LegacyClient_ModernServer/task"]`: true,
		`["TestReal_LegacyClient_ModernServer/none"]`: false,
		`["TestNone/task"]`:                           false,
		`[]`:                                          false,
		`""`:                                          false,
		`"TODO"`:                                      false,
		`"nothing of it goes over the wire"`:          true,
		`{}`:                                          false,
	} {
		if problem := featureProblem(json.RawMessage(entry), played); (problem == "") != ok {
			t.Errorf("%s: %q", entry, problem)
		}
	}
}
