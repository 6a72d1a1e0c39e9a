package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate/schematest"
)

// Every feature of every client, tasks apart, through the bridge on every
// server of the other era. The servers offer the same, so that a client sees
// the same whatever stands behind; a client prints one line a feature.

// featurePeers are the programs, by SDK.
var (
	featureLegacyClients = []peer{
		nodePeer("features-client.mjs", "--sdk", "1"),
		goPeer("gosdk-features", "-era", "legacy"),
		goPeer("mcpgo-features", "-era", "legacy"),
	}
	featureModernClients = []peer{
		nodePeer("features-client.mjs", "--sdk", "2"),
		goPeer("gosdk-features", "-era", "modern"),
		goPeer("mcpgo-features", "-era", "modern"),
	}
	featureLegacyServers = []peer{
		nodePeer("features-legacy.mjs"),
		goPeer("gosdk-features", "-era", "legacy", "serve"),
		goPeer("mcpgo-features", "-era", "legacy", "serve"),
	}
	featureModernServers = []peer{
		nodePeer("features-modern.mjs"),
		goPeer("gosdk-features", "-era", "modern", "serve"),
		goPeer("mcpgo-features", "-era", "modern", "serve"),
	}
)

// featureWant is what a client sees of each feature.
var featureWant = map[string]string{
	"connect": `{"server":"features","instructions":"A server with every feature.",
		"capabilities":{"tools":true,"prompts":true,"resources":true,"subscribe":true,"logging":true,"completions":true}}`,
	"tools-list": `{"names":["add","ask","ask_all","ask_form","ask_twice","ask_url","cancelled","contents","fail","log","progress","roots","sample","sample_tools","touch","wait"],
		"add":{"title":"Addition","readOnly":true,"output":["sum"],"icons":1}}`,
	"call":           `{"text":"5","structured":{"sum":5}}`,
	"call-error":     `{"isError":true,"text":"failed on purpose"}`,
	"unknown-tool":   `{"code":-32602}`,
	"contents":       `{"blocks":["text words","image aW1hZ2U=","audio YXVkaW8=","resource_link peer://note","resource a note"],"priority":0.5}`,
	"progress":       `{"text":"3 steps","notes":["1/3 step 1","2/3 step 2","3/3 step 3"]}`,
	"cancel":         `{"call":"aborted","cancelled":"yes"}`,
	"log":            `{"lines":{"info":["info features: a line of level info","error features: a line of level error"],"error":["error features: a line of level error"]}}`,
	"prompts-list":   `{"names":["asking","hello","plain"],"arguments":["name true"]}`,
	"prompt-get":     `{"description":"A greeting","role":"user","text":"Say hello to Ada","plain":"Say something"}`,
	"prompt-unknown": `{"code":-32602}`,
	"prompt-asks":    `{"text":"Say hello to Ada","asked":["What is your name?"]}`,
	"resources-list": `{"uris":["peer://asking","peer://note","peer://pixel"],"mimeType":"text/plain"}`,
	"templates":      `{"templates":["item peer://item/{id}"]}`,
	"read":           `{"text":"a note","blob":"cGl4ZWw=","template":"item 7"}`,
	"read-missing":   `{"code":-32602}`,
	"read-asks":      `{"text":"for Ada","asked":["What is your name?"]}`,
	"complete":       `{"prompt":["Ada","Alan"],"context":["Alan"],"template":["1","10"]}`,
	"subscribe":      `{"during":{"changed":["prompts","resources","tools"],"updated":["peer://note"]},"after":[]}`,
	"ask":            `{"text":"Hello, Ada","asked":["What is your name?"]}`,
	"ask-declined":   `{"declined":"No name (decline)","cancelled":"No name (cancel)"}`,
	"ask-form": `{"text":"accept","asked":["All about you?"],
		"structured":{"name":"Ada","age":36,"height":170,"member":true,"colour":"green","days":["tue"]}}`,
	"ask-twice":    `{"text":"Ada likes green","asked":["What is your name?","Which colour?"]}`,
	"ask-all":      `{"text":"Ada, something, file:///one","asked":["What is your name?"],"sampled":["Say something (Be short, 50)"]}`,
	"ask-url":      `{"text":"page: accept","asked":["Please look: https://example.com/page"]}`,
	"sample":       `{"text":"peer-model: something","asked":[],"sampled":["Say something (Be short, 50)"]}`,
	"sample-tools": `{"text":"lookup {\"key\":\"k\"}: it is 42","asked":[],"sampled":["text with lookup","tool_result with lookup"]}`,
	"roots":        `{"before":"file:///one","after":"file:///one file:///two"}`,
	"raw":          `{"resources":true,"ping":true}`,
	"close":        `{"closed":true}`,
}

// featureLegacyWant and featureModernWant are what is different in an era.
var (
	featureLegacyWant = map[string]string{
		"connect": `{"server":"features","instructions":"A server with every feature.","version":"2025-11-25","session":true,
			"capabilities":{"tools":true,"prompts":true,"resources":true,"subscribe":true,"logging":true,"completions":true}}`,
		"ping": `{"empty":true}`,
		"tools-list": `{"names":["add","ask","ask_all","ask_form","ask_twice","ask_url","cancelled","contents","fail","log","progress","roots","sample","sample_tools","touch","wait"],
			"paged":true,"add":{"title":"Addition","readOnly":true,"output":["sum"],"icons":1}}`,
		"prompts-list":   `{"names":["asking","hello","plain"],"paged":true,"arguments":["name true"]}`,
		"resources-list": `{"uris":["peer://asking","peer://note","peer://pixel"],"paged":true,"mimeType":"text/plain"}`,
		"read-missing":   `{"code":-32002}`,
		"roots":          `{"before":"file:///one","after":"file:///one file:///two","changed":"sent"}`,
	}
	featureModernWant = map[string]string{
		"connect": `{"server":"features","instructions":"A server with every feature.","version":"2026-07-28","session":false,
			"capabilities":{"tools":true,"prompts":true,"resources":true,"subscribe":true,"logging":true,"completions":true}}`,
		"discover":    `{"versions":true}`,
		"auto-listen": `{"open":true,"changed":["prompts","tools"]}`,
		"era":         `{"era":"modern","discovered":true,"refused":["ping","setLoggingLevel","subscribeResource","unsubscribeResource","sendRootsListChanged"]}`,
		"subscribe":   `{"during":{"changed":["prompts","resources","tools"],"updated":["peer://note"]},"after":[],"honoured":4,"closed":"local"}`,
	}
)

// featureOther are features that a client or a server has another way or not at
// all, by the peer's name, after "direct " without the bridge.
var featureOther = map[string]map[string]featureLine{
	"gosdk-features -era legacy": {
		"raw":             {"", "its sessions send their own methods only"},
		"notify-progress": {notified, "the only client that reports progress of its own"},
	},
	"gosdk-features -era modern": {
		"raw":             {"", "its sessions send their own methods only"},
		"auto-listen":     {"", "Connect opens the stream where there are handlers; subscribe shows it"},
		"era":             {"", "there are no such words in its API"},
		"notify-progress": {notified, "the only client that reports progress of its own"},
		"discover":        {"", "Connect discovers; there is no method for it alone"},
		"subscribe":       {subscribed, "Subscribe opens a listen stream of its own and does not show what was acknowledged"},
	},
	"mcpgo-features -era modern": {
		"raw":         {"", "no method for it but the transport's"},
		"auto-listen": {"", "Listen is the only way"},
		"era":         {"", "there are no such words in its API"},
		"subscribe":   {subscribed, "Listen does not show what was acknowledged"},
	},
	"mcpgo-features -era legacy": {
		"raw": {"", "no method for it but the transport's"},
		"cancel": {`{"call":"aborted","cancelled":"no"}`,
			"it closes the stream and sends no notification, which cancels nothing (2025-11-25 basic/transports, Sending Messages)"},
	},
	"direct mcpgo-features -era legacy": {
		"cancel": {`{"call":"aborted","cancelled":"yes"}`, "its own server takes a closed stream for a cancel"},
	},
	"mcpgo-features -era modern serve": {
		"read-missing": {`{"code":-32602}`, "the error names no uri, so that it may be any bad parameter"},
		"read-asks":    {"*", "resource handlers give contents, so none can ask a modern client; the error passes"},
	},
	"mcpgo-features -era legacy serve": {
		"progress": {`{"text":"3 steps","notes":["?1/3 step 1","?2/3 step 2","3/3 step 3"]}`,
			"the server puts notices on whichever stream is open, and one that overtook another would make progress fall"},
	},
	"direct gosdk-features -era legacy serve": {
		"read-missing": {`{"code":-32602}`, "go-sdk uses the modern code in either era"},
	},
}

const notified = `{"sent":true,"text":"2"}`

const subscribed = `{"during":{"changed":["prompts","resources","tools"],"updated":["peer://note"]},"after":[]}`

// featureLine is the line instead: "" for none, "*" for a failure in the SDK's own words.
type featureLine struct{ want, why string }

func TestFeatures_LegacyClient_ModernServer(t *testing.T) {
	long(t)
	featurePairs(t, "legacy", "modern", featureLegacyClients, featureModernServers)
}

func TestFeatures_ModernClient_LegacyServer(t *testing.T) {
	long(t)
	featurePairs(t, "modern", "legacy", featureModernClients, featureLegacyServers)
}

func featurePairs(t *testing.T, clientEra, serverEra string, clients, servers []peer) {
	for _, server := range servers {
		t.Run("on "+command(server), func(t *testing.T) {
			url := startServer(t, server)
			for _, client := range clients {
				for i, form := range forms {
					if i > 0 && !fullE2E() {
						break
					}
					t.Run(client.name+"/"+form.name, func(t *testing.T) {
						t.Parallel()
						at, legs := recordedBridge(t, url, clientEra, serverEra, form.o)
						checkFeatures(t, featuresOf(client, server, clientEra), runClient(t, client, at, "features"))
						t.Run("messages", func(t *testing.T) {
							if made := legs.check(t, schematest.Load(t)); len(made) == 0 {
								t.Error("the recording holds nothing the proxy made")
							}
						})
					})
				}
			}
		})
	}
}

// TestFeatures_Direct: the same without the bridge between peers of one era.
func TestFeatures_Direct(t *testing.T) {
	long(t)
	for _, era := range []struct {
		name             string
		clients, servers []peer
	}{
		{"legacy", featureLegacyClients, featureLegacyServers},
		{"modern", featureModernClients, featureModernServers},
	} {
		for _, server := range era.servers {
			t.Run(era.name+" on "+command(server), func(t *testing.T) {
				url := startServer(t, server)
				for _, client := range era.clients {
					if sdkOf(client) != sdkOf(server) {
						continue // what two SDKs make of each other is theirs
					}
					t.Run(client.name, func(t *testing.T) {
						t.Parallel()
						checkFeatures(t, featuresOf(client, server, era.name, "direct "), runClient(t, client, url, "features"))
					})
				}
			})
		}
	}
}

// sdkOf is the SDK a feature peer is built on.
func sdkOf(p peer) string {
	sdk, _, _ := strings.Cut(command(p), "-")
	return sdk
}

// featuresOf is what a client of an era must print on a server.
func featuresOf(client, server peer, era string, prefixes ...string) map[string]string {
	want := maps.Clone(featureWant)
	if era == "legacy" {
		maps.Copy(want, featureLegacyWant)
	} else {
		maps.Copy(want, featureModernWant)
	}
	for _, prefix := range append([]string{""}, prefixes...) {
		for _, key := range []string{client.name, server.name} {
			for name, line := range featureOther[prefix+key] {
				if want[name] = line.want; line.want == "" {
					delete(want, name)
				}
			}
		}
	}
	return want
}

func checkFeatures(t *testing.T, want map[string]string, run clientRun) {
	t.Helper()
	got := map[string]string{}
	for _, line := range run.Lines {
		var fields map[string]any
		json.Unmarshal([]byte(line), &fields)
		if name, ok := fields["step"].(string); ok {
			delete(fields, "step")
			rest, _ := json.Marshal(fields)
			got[name] = string(rest)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Run(name, func(t *testing.T) {
			if want[name] == "*" {
				if !strings.Contains(got[name], `"message"`) {
					t.Errorf("no failure: %s", got[name])
				}
				return
			}
			if d := differ([]string{got[name]}, []string{strings.Join(strings.Fields(want[name]), " ")}); d != "" {
				t.Error(d)
			}
		})
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("a feature nobody expects: %s", got[name])
		}
	}
	if !run.OK {
		t.Errorf("the client failed:\n%s", run)
	}
}
