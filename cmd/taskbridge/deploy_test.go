package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"taskbridge/cmd/peers"
	"taskbridge/session/bearer/bearertest"
)

func repository(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// seriesPart is what the series of a histogram add to its name.
var seriesPart = regexp.MustCompile(`_(bucket|sum|count)$`)

var metricName = regexp.MustCompile(`\btaskbridge_[a-z_]+`)

// TestOperateMetrics: the handbook explains each metric there is and each alert,
// and alerts ask for metrics that are there.
func TestOperateMetrics(t *testing.T) {
	s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})), "--admin", "127.0.0.1:0",
		"--principal", "jwt:"+keyFile(t, bearertest.Ed(t, "k")), "--jwt-audience", jwtAudience)
	if r, err := modernClient(t, s.url).Call(t.Context(), "tools/list", nil); err != nil || r.Status != 401 {
		t.Fatalf("%v %d", err, r.Status)
	}
	_, _, text := ask(t, "GET", s.admin+"/metrics", nil, "")
	// Vectors without a value yet are not shown; their names are in the source.
	text += repository(t, "cmd/taskbridge/metrics.go") + repository(t, "cmd/taskbridge/operations.go")
	there := map[string]bool{}
	for _, name := range metricName.FindAllString(text, -1) {
		there[seriesPart.ReplaceAllString(name, "")] = true
	}
	handbook, alerts := repository(t, "docs/operate.md"), repository(t, "docs/deploy/alerts.yaml")
	for name := range there {
		if !strings.Contains(handbook, "`"+name) {
			t.Errorf("docs/operate.md does not explain %s", name)
		}
	}
	for _, text := range []string{handbook, alerts} {
		for _, name := range metricName.FindAllString(text, -1) {
			if !there[seriesPart.ReplaceAllString(name, "")] {
				t.Errorf("%s is told of, but there is no such metric", name)
			}
		}
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(alerts, -1) {
		if !strings.Contains(handbook, "`"+m[1]+"`") {
			t.Errorf("docs/operate.md does not say what to do about %s", m[1])
		}
	}
}

// TestDeployFilesAgree: what one file says of another is so.
func TestDeployFilesAgree(t *testing.T) {
	dockerfile, compose := repository(t, "Dockerfile"), repository(t, "docs/deploy/compose.yaml")
	toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)`).FindStringSubmatch(repository(t, "go.mod"))
	if toolchain == nil || !strings.Contains(dockerfile, "FROM golang:"+toolchain[1]+" AS") {
		t.Errorf("the Dockerfile builds with another Go than go.mod wants, %q", toolchain)
	}
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(dockerfile) {
		t.Error("the image runs as root, or as a user with a name nobody can check")
	}
	admin := regexp.MustCompile(`TASKBRIDGE_ADMIN: (\S+)`).FindStringSubmatch(compose)
	if admin == nil || !strings.Contains(repository(t, "docs/deploy/prometheus.yaml"), "targets: ["+admin[1]+"]") {
		t.Errorf("Prometheus asks elsewhere than at %q", admin)
	}
	if !strings.Contains(compose, "network_mode: service:taskbridge") {
		t.Error("Prometheus cannot reach a loopback address of another container")
	}
	for _, name := range regexp.MustCompile(`\./(\w+\.yaml)`).FindAllStringSubmatch(compose, -1) {
		repository(t, "docs/deploy/"+name[1])
	}
	// Every variable is one of serve's flags.
	fs := (&app{}).serveCommand().Flags()
	for _, file := range []string{"Dockerfile", "docs/deploy/compose.yaml", "docs/deploy/taskbridge.env", "docs/deploy/taskbridge.service", "docs/operate.md"} {
		for _, env := range regexp.MustCompile(`\bTASKBRIDGE_[A-Z_]+\b`).FindAllString(repository(t, file), -1) {
			flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(env, "TASKBRIDGE_")), "_", "-")
			if fs.Lookup(flag) == nil {
				t.Errorf("%s: %s is no flag of serve", file, env)
			}
		}
	}
}

// TestServiceUnit has systemd look at the unit, with a program where the unit
// wants one.
func TestServiceUnit(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.Replace(repository(t, "docs/deploy/taskbridge.service"), "ExecStart=/usr/local/bin/taskbridge ", "ExecStart="+self+" ", 1)
	verify := func(text string) string {
		file := filepath.Join(t.TempDir(), "taskbridge.service")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(tool, "verify", "--man=no", file).CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	if out := verify(unit); strings.Contains(out, "taskbridge.service") {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	// It would say so if something were wrong.
	if out := verify(strings.Replace(unit, "Type=notify", "Type=notfy\nNoSuchThing=1", 1)); !strings.Contains(out, "taskbridge.service") {
		t.Errorf("a broken unit passes: %s", out)
	}
}

// TestVersionIsStamped: as release builds and the image do.
func TestVersionIsStamped(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	for _, file := range []string{"Dockerfile", ".goreleaser.yaml"} {
		for _, name := range []string{"-X main.version=", "-X main.revision="} {
			if !strings.Contains(repository(t, file), name) {
				t.Errorf("%s does not say %s", file, name)
			}
		}
	}
	program := filepath.Join(t.TempDir(), "taskbridge")
	if out, err := exec.Command("go", "build", "-ldflags", "-X main.version=v9.8.7 -X main.revision=abcdef", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(program, "version", "--json").Output()
	var b build
	if err != nil || json.Unmarshal(out, &b) != nil || b.Version != "v9.8.7" || b.Revision != "abcdef" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestDockerfileSteps runs what the Dockerfile says, without docker and not as
// root. It builds everything anew, so only where nothing may be left out.
func TestDockerfileSteps(t *testing.T) {
	if os.Getenv("TASKBRIDGE_E2E") != "require" {
		t.Skip("set TASKBRIDGE_E2E=require: it builds the program from nothing, as another user")
	}
	out, err := exec.Command("bash", filepath.Join("..", "..", "docs", "deploy", "dockerfile-steps"), "v9.8.7", "abcdef").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"version":"v9.8.7","revision":"abcdef"`) || !regexp.MustCompile(`all steps done, as user [1-9]`).Match(out) {
		t.Errorf("%v: %s", err, out)
	}
}
