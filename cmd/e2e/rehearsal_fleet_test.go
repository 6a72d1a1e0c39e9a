package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbridge/session/usage"
)

// fleet is a serve command with a configuration file, which is rewritten while
// it runs.
type fleet struct {
	*process
	t    *testing.T
	file string
	base string // of the listener, without a path
	at   string // the admin address
}

// fleetRoute is a route as the file has it.
type fleetRoute struct {
	name string
	ups  []fleetUpstream
}

type fleetUpstream struct {
	name, url string
	weight    int
	pin       string // the name of a client; empty: none
}

// write puts a file in the place of the last one, as editors do.
func (f *fleet) write(routes []fleetRoute) {
	f.t.Helper()
	var b strings.Builder
	b.WriteString("listen: 127.0.0.1:0\nadmin:\n  address: 127.0.0.1:0\nlog:\n  level: warn\ndrain-timeout: 1s\nroutes:\n")
	for _, r := range routes {
		fmt.Fprintf(&b, "  - name: %s\n    path: /%[1]s\n    upstreams:\n", r.name)
		for _, u := range r.ups {
			fmt.Fprintf(&b, "      - name: %s\n        url: %s\n        weight: %d\n", u.name, u.url, u.weight)
			if u.pin != "" {
				fmt.Fprintf(&b, "        pins:\n          clients:\n            - name: %s\n", u.pin)
			}
		}
	}
	fresh := f.file + ".new"
	if err := os.WriteFile(fresh, []byte(b.String()), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(fresh, f.file); err != nil {
		f.t.Fatal(err)
	}
}

// startFleet starts the command and waits until it is ready.
func startFleet(t *testing.T, routes []fleetRoute) *fleet {
	t.Helper()
	f := &fleet{t: t, file: filepath.Join(t.TempDir(), "fleet.yaml")}
	f.write(routes)
	f.process = startProxy(t, []string{"serve", "--config", f.file}, func(line string) bool {
		if at, ok := strings.CutPrefix(line, "listening on "); ok {
			if u, err := url.Parse(strings.Fields(at)[0]); err == nil {
				f.base = u.Scheme + "://" + u.Host
			}
		}
		if at, ok := strings.CutPrefix(line, "admin on http://"); ok {
			f.at = at
		}
		return f.base != "" && f.at != ""
	})
	return f
}

func (f *fleet) url(route string) string { return f.base + "/" + route }

// put writes a new file and has it read: by itself, by a signal or by a command.
func (f *fleet) put(routes []fleetRoute, how string) {
	f.t.Helper()
	f.write(routes)
	switch how {
	case "hangup":
		if err := f.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			f.t.Error(err)
		}
	case "admin":
		f.admin("reload")
	}
}

// drain takes an upstream, ROUTE/NAME, out of new work.
func (f *fleet) drain(name string) { f.admin("drain", name) }

// admin runs a command of an operator and returns what it prints.
func (f *fleet) admin(args ...string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rehearsalPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.cmd.Path, append([]string{"admin", "--admin", f.at}, args...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		f.t.Fatalf("admin %q: %v: %s%s", args, err, out.String(), errs.String())
	}
	return out.String()
}

// fleetStatus is what an operator sees of an upstream.
type fleetStatus struct {
	Name            string // ROUTE/NAME
	State           string
	Weight          int
	Sessions, Tasks int
	Empty           bool
}

// status is what there is by ROUTE/NAME.
func (f *fleet) status() map[string]fleetStatus {
	f.t.Helper()
	var answer struct {
		Routes []struct{ Upstreams []fleetStatus }
	}
	if raw := f.admin("status", "--json"); json.Unmarshal([]byte(raw), &answer) != nil {
		f.t.Fatalf("status: %s", raw)
	}
	all := map[string]fleetStatus{}
	for _, r := range answer.Routes {
		for _, u := range r.Upstreams {
			all[u.Name] = u
		}
	}
	return all
}

// report is who needs the legacy dialect, by route.
func (f *fleet) report(window time.Duration) (at time.Time, routes map[string]usage.Route) {
	f.t.Helper()
	var rep usage.Report
	raw := f.admin("report", "--format", "json", "--window", window.String())
	if err := json.Unmarshal([]byte(raw), &rep); err != nil {
		f.t.Fatalf("report: %v: %s", err, raw)
	}
	routes = map[string]usage.Route{}
	for _, r := range rep.Routes {
		routes[r.Name] = r
	}
	return rep.At, routes
}

// metric is the value of one without labels.
func (f *fleet) metric(name string) string {
	f.t.Helper()
	resp, err := http.Get("http://" + f.at + "/metrics")
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return value
		}
	}
	return ""
}
