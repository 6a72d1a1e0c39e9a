package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"taskbridge/cmd/taskbridge/config"
)

// override is how a flag, or its environment variable, counts beside a file.
type override struct {
	flag string
	path string // of the field it takes the place of
	put  func(f *serveFlags, file *config.File) error
}

// overrides are the flags that go over a file: what belongs to the process, and
// of listeners where there is one only. What belongs to a route or a server is
// the file's alone: a flag could not say which one it means.
var overrides = []override{
	{"listen", "listeners[0].address", func(f *serveFlags, c *config.File) error {
		c.Listeners[0].Address = f.listen
		return nil
	}},
	{"tls-cert", "listeners[0].tls.cert", func(f *serveFlags, c *config.File) error {
		c.Listeners[0].TLSCert = f.tls.cert
		return nil
	}},
	{"tls-key", "listeners[0].tls.key", func(f *serveFlags, c *config.File) error {
		c.Listeners[0].TLSKey = f.tls.key
		return nil
	}},
	{"public-url", "listeners[0].public-url", func(f *serveFlags, c *config.File) error {
		c.Listeners[0].PublicURL = f.publicURL
		return nil
	}},
	{"allowed-host", "listeners[0].allowed-hosts", func(f *serveFlags, c *config.File) error {
		c.Listeners[0].AllowedHosts = f.allowedHosts
		return nil
	}},
	{"allowed-origin", "listeners[0].allowed-origins", func(f *serveFlags, c *config.File) error {
		c.Listeners[0].AllowedOrigins = f.origin
		return nil
	}},
	{"trusted-proxy", "listeners[0].trusted-proxies", func(f *serveFlags, c *config.File) error {
		var list []netip.Prefix
		for _, s := range f.trusted {
			p, err := parsePrefix(s)
			if err != nil {
				return fmt.Errorf("%q: want an address or a CIDR such as 10.0.0.0/8", s)
			}
			list = append(list, p)
		}
		c.Listeners[0].TrustedProxies = list
		return nil
	}},
	{"admin", "admin.address", func(f *serveFlags, c *config.File) error {
		c.Admin.Address = f.adminFlags.admin
		if name, ok := strings.CutPrefix(f.adminFlags.admin, unixPrefix); ok {
			c.Admin.Address = unixPrefix + fromHere(name)
		}
		return nil
	}},
	{"audit", "telemetry.audit", func(f *serveFlags, c *config.File) error {
		c.Telemetry.Audit = config.Audit(f.audit)
		return nil
	}},
	{"admin-token", "admin.token-file", func(f *serveFlags, c *config.File) error {
		c.Admin.TokenFile = f.adminToken
		return nil
	}},
	{"state", "state", func(f *serveFlags, c *config.File) error {
		c.State = f.state
		return nil
	}},
	{"state-key", "state-keys", func(f *serveFlags, c *config.File) error {
		c.StateKeys = nil
		for _, name := range f.stateKeys {
			c.StateKeys = append(c.StateKeys, config.StateKey{File: name})
		}
		return nil
	}},
	{"principal", "principal", func(f *serveFlags, c *config.File) error {
		c.Principal = f.principal
		if name, ok := strings.CutPrefix(f.principal, "jwt:"); ok && !strings.Contains(name, "://") {
			c.Principal = "jwt:" + fromHere(name)
		}
		return nil
	}},
	{"jwt-audience", "jwt-audience", func(f *serveFlags, c *config.File) error {
		c.JWTAudience = f.audience
		return nil
	}},
	{"jwt-issuer", "jwt-issuer", func(f *serveFlags, c *config.File) error {
		c.JWTIssuer = f.issuer
		return nil
	}},
	{"jwt-alg", "jwt-alg", func(f *serveFlags, c *config.File) error {
		c.JWTAlgorithms = f.algorithms
		return nil
	}},
	{"allow-open", "allow-open", func(f *serveFlags, c *config.File) error {
		c.AllowOpen = f.allowOpen
		return nil
	}},
	{"drain-timeout", "drain-timeout", func(f *serveFlags, c *config.File) error {
		c.DrainTimeout = f.drainTimeout
		return nil
	}},
	{"max-message", "max-message", func(f *serveFlags, c *config.File) error {
		c.MaxMessage = f.maxMessage
		return nil
	}},
	{"record", "record.file", func(f *serveFlags, c *config.File) error {
		c.Record.File = f.recordFlags.file
		return nil
	}},
	{"record-rotate-size", "record.rotate-size", func(f *serveFlags, c *config.File) error {
		c.Record.RotateSize = f.rotateSize
		return nil
	}},
	{"record-rotate-every", "record.rotate-every", func(f *serveFlags, c *config.File) error {
		c.Record.RotateEvery = f.rotateEvery
		return nil
	}},
	{"redact", "record.redact", func(f *serveFlags, c *config.File) error {
		c.Record.Redact = f.redact
		return nil
	}},
	{"log-level", "log.level", func(f *serveFlags, c *config.File) error {
		c.Log.Level = f.logFlags.level
		return nil
	}},
	{"log-format", "log.format", func(f *serveFlags, c *config.File) error {
		c.Log.Format = f.logFlags.format
		return nil
	}},
	{"log-file", "log.file", func(f *serveFlags, c *config.File) error {
		c.Log.File = f.logFlags.file
		return nil
	}},
}

// limitOverrides are the flags of limits, which are those of the process.
var limitOverrides = []override{
	{"max-tasks", "limits.per-principal.tasks", func(f *serveFlags, c *config.File) error {
		c.Limits.PerPrincipal.Tasks = f.limits.tasks.Each
		return nil
	}},
	{"max-tasks-total", "limits.total.tasks", func(f *serveFlags, c *config.File) error {
		c.Limits.Total.Tasks = f.limits.tasks.All
		return nil
	}},
	{"max-sessions", "limits.per-principal.sessions", func(f *serveFlags, c *config.File) error {
		c.Limits.PerPrincipal.Sessions = f.limits.sessions.Each
		return nil
	}},
	{"max-sessions-total", "limits.total.sessions", func(f *serveFlags, c *config.File) error {
		c.Limits.Total.Sessions = f.limits.sessions.All
		return nil
	}},
	{"max-server-sessions", "limits.per-principal.server-sessions", func(f *serveFlags, c *config.File) error {
		c.Limits.PerPrincipal.ServerSessions = f.limits.servers.Each
		return nil
	}},
	{"max-server-sessions-total", "limits.total.server-sessions", func(f *serveFlags, c *config.File) error {
		c.Limits.Total.ServerSessions = f.limits.servers.All
		return nil
	}},
	{"max-streams", "limits.per-principal.streams", func(f *serveFlags, c *config.File) error {
		c.Limits.PerPrincipal.Streams = f.limits.streams.Each
		return nil
	}},
	{"max-streams-total", "limits.total.streams", func(f *serveFlags, c *config.File) error {
		c.Limits.Total.Streams = f.limits.streams.All
		return nil
	}},
	{"max-requests-per-second", "limits.per-principal.requests-per-second", func(f *serveFlags, c *config.File) error {
		c.Limits.PerPrincipal.Requests = f.limits.rates.Rate
		return nil
	}},
	{"max-requests-per-second-total", "limits.total.requests-per-second", func(f *serveFlags, c *config.File) error {
		c.Limits.Total.Requests = f.limits.rates.RateTotal
		return nil
	}},
	{"max-requests-burst", "limits.per-principal.requests-burst", func(f *serveFlags, c *config.File) error {
		c.Limits.PerPrincipal.RequestsBurst = int(f.limits.burst)
		return nil
	}},
	{"max-bytes-per-second", "limits.per-principal.bytes-per-second", func(f *serveFlags, c *config.File) error {
		c.Limits.PerPrincipal.Bytes = f.limits.rates.Bytes
		return nil
	}},
	{"max-bytes-in-flight", "limits.per-principal.bytes-in-flight", func(f *serveFlags, c *config.File) error {
		c.Limits.PerPrincipal.BytesInFlight = f.limits.rates.InFlight
		return nil
	}},
}

// fromHere: names of files in flags are relative to where we are, not to the
// folder of a configuration.
func fromHere(name string) string {
	if abs, err := filepath.Abs(name); err == nil && name != "" {
		return abs
	}
	return name
}

// notOverFile are flags that say nothing about the configuration.
var notOverFile = []string{"config", "help"}

// override puts flags and environment over a file. What has no place there is
// an error that says why.
func (f *serveFlags) override(fs *pflag.FlagSet, file *config.File) error {
	var failed error
	all := slices.Concat(overrides, limitOverrides)
	fs.VisitAll(func(flag *pflag.Flag) {
		if !flag.Changed || failed != nil || slices.Contains(notOverFile, flag.Name) {
			return
		}
		i := slices.IndexFunc(all, func(o override) bool { return o.flag == flag.Name })
		if i < 0 {
			failed = usagef("%s: the servers and their routes are in %s, and a flag could not say which one it means; write it there, or leave %s out",
				where(fs, flag.Name), file.Name, where(fs, "config"))
			return
		}
		if n := len(file.Listeners); n > 1 && strings.HasPrefix(all[i].path, "listeners[0]") {
			failed = usagef("%s: %s has %d listeners, and a flag could not say which one it means; write it there", where(fs, flag.Name), file.Name, n)
			return
		}
		if err := all[i].put(f, file); err != nil {
			failed = usagef("%s %w", where(fs, flag.Name), err)
		}
	})
	return failed
}

// overridden is the flag that goes over the file at a path, or its environment
// variable; "" where none does.
func overridden(fs *pflag.FlagSet, path string) string {
	for _, o := range slices.Concat(overrides, limitOverrides) {
		if o.path == path && fs.Changed(o.flag) {
			return where(fs, o.flag)
		}
	}
	return ""
}

// fileNaming names settings as they stand in a file, or as the flags that go
// over them.
type fileNaming struct {
	flags flagNaming
	file  *config.File
}

// settingPaths are where settings stand that flags call otherwise.
var settingPaths = map[string]string{
	"listen": "address", "trusted-proxy": "trusted-proxies", "allowed-host": "allowed-hosts",
	"admin": "admin.address", "state-key": "state-keys", "log-format": "log.format", "log-file": "log.file", "audit": "telemetry.audit",
}

func (n fileNaming) at(setting string, l *listenerConfig, r *routeConfig) string {
	if n.flags.fs.Lookup(setting) != nil && n.flags.fs.Changed(setting) {
		return n.flags.at(setting, l, r)
	}
	path, value := setting, ""
	if name, ok := settingPaths[setting]; ok {
		path = name
	}
	for i := range n.file.Listeners {
		if l != nil && n.file.Listeners[i].Name == l.name && setting != "principal" {
			path = fmt.Sprintf("listeners[%d].%s", i, path)
			if setting == "listen" {
				value = l.address
			}
		}
	}
	if setting == "principal" {
		value = n.file.Principal
	}
	p := n.file.Problem(path, "%s", value)
	if short := n.file.Problem("listen", "%s", value); setting == "listen" && p.Line == 1 && p.Column == 1 {
		p = short // listen: ADDRESS:PORT, without listeners
	}
	return strings.TrimSuffix(p.String(), ": ")
}

func (fileNaming) give(setting, value string) string {
	switch setting {
	case "trusted-proxy":
		return "with trusted-proxies: [" + value + "]"
	case "allow-open":
		return "allow-open: true"
	}
	return setting + ": " + value
}
