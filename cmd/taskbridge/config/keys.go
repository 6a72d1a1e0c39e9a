package config

// The tables of keys. A row is a key: its name, its kind, where its value goes,
// its default and what it means. docs/config.md and the schema are made of them.

const (
	maxRoutes    = 10_000
	maxUpstreams = 32 // of a route
	maxList      = 256
	maxBytes     = 1 << 40
)

// document is the file while it is read.
type document struct {
	File
	listen   string
	defaults Policies
	routes   []rawRoute
}

// rawRoute is a route while it is read.
type rawRoute struct {
	Route
	sse     string
	one     Upstream // behind upstream or command
	command []string
}

var (
	hostName  = textOf("host", "a host, such as mcp.example.com", true, schema{"type": "string"}, allowedHost)
	origin    = textOf("origin", "an origin, such as https://HOST", true, schema{"type": "string", "pattern": "^[!-~]+://[!-~]+$"}, allowedOrigin)
	proxy     = textOf("CIDR", "an address or a CIDR, such as 10.0.0.0/8", true, schema{"type": "string"}, cidr)
	public    = showing(textOf("URL", "the URL clients use, such as https://HOST", false, schema{"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[!-.0-~]+(/|$)"}, publicURL), showURL)
	name      = textOf("name", "a name, such as billing", true, schema{"type": "string", "pattern": nameForm.String()}, plainName)
	someText  = textOf("text", "text", true, schema{"type": "string", "minLength": 1}, nil)
	argument  = showing(argumentKind(), showArgument)
	file      = fileName("file")
	count     = integer[int64](1, 1_000_000_000)
	listening = textOf("ADDRESS:PORT", "an address to listen on, such as 127.0.0.1:8080", true, schema{"type": "string", "pattern": ":[0-9]+$"}, listenAddress)
	byURL     = showing(textOf("URL", "the URL of a server, such as https://HOST/PATH", false, schema{"type": "string", "pattern": "^([Hh][Tt][Tt][Pp]|[Ww][Ss])[Ss]?://"}, upstreamURL), showURL)
	headerSet = showPairs(pairsOf("names and values", maxList, schema{"pattern": headerName.String()}, headerLine), func(h Header) (string, string) { return h.Name, h.Value }, hideSecret)
)

// argumentKind is a text that may be empty.
func argumentKind() kind[string] {
	return kind[string]{word: "text", schema: schema{"type": "string"}, read: func(r *reader, at place, into *string) {
		if v, ok := r.text(at, "text"); ok {
			*into = v
		}
	}}
}

var tlsKeys = []key[Listener]{
	row("cert", file, func(l *Listener) *string { return &l.TLSCert }, "(required)", "PEM file with the certificate and its chain; read again when it changes."),
	row("key", file, func(l *Listener) *string { return &l.TLSKey }, "(required)", "PEM file with the key of the certificate."),
}

var listenerKeys = []key[Listener]{
	row("name", name, func(l *Listener) *string { return &l.Name }, "(`default`, if it is the only one)", "What routes and logs call it."),
	row("address", listening, func(l *Listener) *string { return &l.Address }, "(required)", "`ADDRESS:PORT` to listen on; port 0 takes a free one."),
	row("tls", group("tls", tlsKeys, nil), func(l *Listener) *Listener { return l }, "(plain HTTP)", "Clients connect with https://."),
	row("allowed-hosts", listOf(hostName, maxList), func(l *Listener) *[]string { return &l.AllowedHosts }, "(any, or this machine's names on loopback)", "Hosts clients may address it as, with or without a port."),
	row("allowed-origins", listOf(origin, maxList), func(l *Listener) *[]string { return &l.AllowedOrigins }, "(none)", "Browser origins that may send requests, as `https://HOST`."),
	row("trusted-proxies", prefixes(), func(l *Listener) *prefixList { return (*prefixList)(&l.TrustedProxies) }, "(none)", "Addresses of front ends that are believed, as a CIDR."),
	row("public-url", public, func(l *Listener) *string { return &l.PublicURL }, "(unknown)", "What clients write before a route's path."),
	misplaced[Listener]("tls-cert", "write tls: with cert and key under it"),
	misplaced[Listener]("tls-key", "write tls: with cert and key under it"),
}

var adminKeys = []key[Admin]{
	row("address", showing(textOf("ADDRESS:PORT \\| unix:PATH", "an address to listen on, such as 127.0.0.1:9090, or unix:PATH", true, schema{"type": "string", "pattern": "^unix:.|:[0-9]+$"}, adminAddress), showAfter("unix:")),
		func(a *Admin) *string { return &a.Address }, "(required)", "Where `/healthz`, `/readyz`, `/metrics`, the report and commands of operators are; `unix:PATH` is a socket."),
	row("token-file", file, func(a *Admin) *string { return &a.TokenFile }, "(none)", "File with the token operators must bring; needed where the address is not of this machine."),
}

var principalLimitKeys = []key[PrincipalLimits]{
	row("tasks", count, func(l *PrincipalLimits) *int64 { return &l.Tasks }, "(10000)", "Tasks alive at a time. Those that pass unchanged between peers of one dialect are their server's to limit."),
	row("sessions", count, func(l *PrincipalLimits) *int64 { return &l.Sessions }, "(1000)", "Legacy sessions toward clients."),
	row("server-sessions", count, func(l *PrincipalLimits) *int64 { return &l.ServerSessions }, "(100)", "Sessions toward servers."),
	row("streams", count, func(l *PrincipalLimits) *int64 { return &l.Streams }, "(1000)", "Streams that wait: GET, listen, `tasks/result`."),
	row("requests-per-second", rate(), func(l *PrincipalLimits) *float64 { return &l.Requests }, "(no bound)", "Requests, over time."),
	row("requests-burst", integer(1, 1_000_000_000), func(l *PrincipalLimits) *int { return &l.RequestsBurst }, "(two seconds' worth, at least 10)", "Requests at once."),
	row("bytes-per-second", size(maxBytes), func(l *PrincipalLimits) *int64 { return &l.Bytes }, "(no bound)", "Bytes of requests, over time."),
	row("bytes-in-flight", size(maxBytes), func(l *PrincipalLimits) *int64 { return &l.BytesInFlight }, "(no bound)", "Bytes of requests that are being read or answered."),
}

var totalLimitKeys = []key[TotalLimits]{
	row("tasks", count, func(l *TotalLimits) *int64 { return &l.Tasks }, "(100000)", "Tasks alive at a time. Those that pass unchanged between peers of one dialect are their server's to limit."),
	row("sessions", count, func(l *TotalLimits) *int64 { return &l.Sessions }, "(10000)", "Legacy sessions toward clients."),
	row("server-sessions", count, func(l *TotalLimits) *int64 { return &l.ServerSessions }, "(1000)", "Sessions toward servers."),
	row("streams", count, func(l *TotalLimits) *int64 { return &l.Streams }, "(10000)", "Streams that wait."),
	row("requests-per-second", rate(), func(l *TotalLimits) *float64 { return &l.Requests }, "(no bound)", "Requests, over time."),
}

var limitKeys = []key[Limits]{
	row("per-principal", group("per-principal", principalLimitKeys, nil), func(l *Limits) *PrincipalLimits { return &l.PerPrincipal }, "", "Bounds of one caller."),
	row("total", group("total", totalLimitKeys, nil), func(l *Limits) *TotalLimits { return &l.Total }, "", "Bounds of all callers together."),
}

var logKeys = []key[Log]{
	row("level", words("debug", "info", "warn", "error", "off"), func(l *Log) *string { return &l.Level }, "info", "Least severe messages to log."),
	row("format", words("text", "json"), func(l *Log) *string { return &l.Format }, "text", "Form of log lines."),
	row("file", file, func(l *Log) *string { return &l.File }, "(standard error)", "File the log is appended to; `-` is standard output."),
}

var recordKeys = []key[Record]{
	row("file", file, func(c *Record) *string { return &c.File }, "(required)", "File for the traffic of both legs, a new one; compressed if it ends in .gz."),
	row("rotate-size", size(maxBytes), func(c *Record) *int64 { return &c.RotateSize }, "(never)", "Begin a new, numbered file after so many bytes."),
	row("rotate-every", duration(true), func(c *Record) *durationValue { return &c.RotateEvery }, "0", "Begin a new, numbered file after so long; 0 never does."),
	row("redact", listOf(textOf("redaction", "secrets, key:NAME, value:REGEX or path:JSONPATH", true, schema{"type": "string", "pattern": redactForm.String()}, redactKind), maxList),
		func(c *Record) *[]string { return &c.Redact }, "(nothing)", "What to take out: `secrets`, `key:NAME`, `value:REGEX`, `path:JSONPATH`."),
}

var telemetryKeys = []key[Telemetry]{
	row("audit", audit(), func(t *Telemetry) *Audit { return &t.Audit }, "log", "Where lines about tasks made, fetched, cancelled and refused go: `off`, `log` or `file:PATH`."),
}

var lifetimeKeys = []key[Lifetimes]{
	row("session-idle", duration(false), func(l *Lifetimes) *durationValue { return &l.SessionIdle }, "30m", "A legacy session without stream or request ends."),
	row("task-keep", duration(false), func(l *Lifetimes) *durationValue { return &l.TaskKeep }, "24h", "A task whose server gave no ttl is remembered."),
	row("task-grace", duration(false), func(l *Lifetimes) *durationValue { return &l.TaskGrace }, "10m", "A task is remembered after its ttl."),
	row("max-ttl", duration(false), func(l *Lifetimes) *durationValue { return &l.MaxTTL }, "24h", "Longest ttl for tasks the proxy holds."),
	row("park-for", duration(false), func(l *Lifetimes) *durationValue { return &l.ParkFor }, "10m", "A parked call waits for its client."),
	row("url-wait", duration(false), func(l *Lifetimes) *durationValue { return &l.URLWait }, "30s", "A call waits for a server to say that its user is done at a URL."),
	row("resume-for", duration(false), func(l *Lifetimes) *durationValue { return &l.ResumeFor }, "5m", "A legacy client may stay away from an event stream and resume it."),
}

var policyKeys = []key[Policies]{
	row("era", words("auto", "legacy", "modern"), func(p *Policies) *string { return &p.Era }, "auto", "What its servers speak; auto finds out."),
	row("tool-errors", words("failed", "completed"), func(p *Policies) *string { return &p.ToolErrors }, "failed", "How a task whose tool reports an error looks to legacy clients."),
	row("undeclared-tasks", words("drive", "refuse"), func(p *Policies) *string { return &p.UndeclaredTasks }, "drive", "What becomes of a plain call of a tool that runs only as a task."),
	row("park", words("state", "task"), func(p *Policies) *string { return &p.Park }, "state", "What becomes of a modern client's call when a legacy server asks in it."),
	row("task-handle-after", duration(false), func(p *Policies) *durationValue { return &p.TaskHandleAfter }, "500ms", "How long a legacy task call waits for the server before it gets a task of ours."),
	row("inline-wait", duration(true), func(p *Policies) *durationValue { return &p.InlineWait }, "0", "How long a fresh task of a legacy server may finish before a modern client gets its handle; 0 gives it at once."),
	row("lifetimes", inherited("lifetimes", lifetimeKeys), func(p *Policies) *Lifetimes { return &p.Lifetimes }, "", "How long things are kept."),
	row("limits", group("limits", limitKeys, nil), func(p *Policies) *Limits { return &p.Limits }, "(those at the top)", "Bounds of one route, which count beside those at the top."),
}

var clientPinKeys = []key[ClientPin]{
	row("name", someText, func(c *ClientPin) *string { return &c.Name }, "(required)", "Its `clientInfo.name`, exactly."),
	row("version", versionRange(), func(c *ClientPin) *string { return &c.Version }, "(any)", "Its version: `1.4.2`, `1.*` or comparisons such as `>=1.2 <2`."),
}

var pinKeys = []key[Pins]{
	row("clients", listOf(group("a client", clientPinKeys, nil), maxList), func(p *Pins) *[]ClientPin { return &p.Clients }, "(none)", "Clients that always come here."),
	row("principals", listOf(textOf("hash", "the hash of a principal", true, schema{"type": "string"}, principalHash), maxList), func(p *Pins) *[]string { return &p.Principals }, "(none)", "Callers that always come here, by the hash in logs and in `taskbridge admin report`."),
}

var healthKeys = []key[Health]{
	row("fail-after", integer(0, 1000), func(h *Health) *int { return &h.FailAfter }, "5", "Exchanges in a row that cannot begin, or begin with 502, 503 or 504, before it gets no new work; 0 never."),
	row("eject-for", duration(false), func(h *Health) *durationValue { return &h.EjectFor }, "10s", "How long that lasts; longer each time it fails again at once."),
	row("interval", duration(true), func(h *Health) *durationValue { return &h.Interval }, "0", "Between looks at the server, each of which counts as an exchange; 0 never looks."),
	row("timeout", duration(false), func(h *Health) *durationValue { return &h.Timeout }, "5s", "Bound of one look."),
	row("pass-after", integer(1, 1000), func(h *Health) *int { return &h.PassAfter }, "2", "Good looks in a row that end it early."),
}

var upstreamKeys = []key[Upstream]{
	row("name", name, func(u *Upstream) *string { return &u.Name }, "(`default`, if it is the only one)", "What handles, logs and `taskbridge admin` call it."),
	row("era", words("auto", "legacy", "modern"), func(u *Upstream) *string { return &u.Era }, "(the route's)", "What it speaks; a pin ends the search."),
	row("weight", showing(integer(0, 1_000_000), showWeight), func(u *Upstream) *int { return &u.Weight }, "(1, where no other of the route has one)", "Its share of new work; 0 leaves it what is pinned, and what it has."),
	row("url", byURL, func(u *Upstream) *string { return &u.URL }, "(this, or command)", "Its MCP endpoint: http://, https://, or for WebSocket ws://, wss://."),
	row("transport", words("auto", "http", "sse"), func(u *Upstream) *string { return &u.Transport }, "auto", "What an http(s):// URL speaks: Streamable HTTP (`http`), HTTP+SSE (`sse`, the URL of its stream); auto finds out."),
	row("message-url", showing(textOf("URL", "an http(s):// URL", false, schema{"type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://"}, messageURL), showURL), func(u *Upstream) *string { return &u.MessageURL }, "(what it announces)", "Where messages over HTTP+SSE go."),
	row("headers", headerSet, func(u *Upstream) *[]Header { return &u.Headers }, "(none)", "Sent with every request."),
	row("header-files", listOf(file, maxList), func(u *Upstream) *[]string { return &u.HeaderFiles }, "(none)", "Files with one `NAME: VALUE` a line, # comments."),
	row("ca", file, func(u *Upstream) *string { return &u.CA }, "(the system's)", "PEM file with the authorities to trust."),
	row("connect-timeout", duration(false), func(u *Upstream) *durationValue { return &u.ConnectTimeout }, "10s", "Bound for connecting."),
	row("command", listOf(argument, maxList), func(u *Upstream) *[]string { return &u.Command }, "(this, or url)", "A program that is the server, over standard input and output, and its arguments."),
	row("env", showPairs(pairsOf("names and values", maxList, schema{"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, envPair), splitEnv, hideSecret), func(u *Upstream) *[]string { return &u.Env }, "(little)", "Environment of the program, beside the few variables every program gets."),
	row("cwd", file, func(u *Upstream) *string { return &u.Cwd }, "(ours)", "Folder to run the program in."),
	row("start-timeout", duration(false), func(u *Upstream) *durationValue { return &u.StartTimeout }, "1m", "How long the program may take to its first answer."),
	row("share-child", yesNo(), func(u *Upstream) *bool { return &u.ShareChild }, "false", "All sessions of legacy servers share one process, which then sees one client."),
	row("max-children", integer(1, 100_000), func(u *Upstream) *int { return &u.MaxChildren }, "32", "Most processes at a time."),
	row("pins", group("pins", pinKeys, nil), func(u *Upstream) *Pins { return &u.Pins }, "(none)", "Who comes here whatever the weights say."),
	row("health", withDefaults("health", healthKeys), func(u *Upstream) *Health { return &u.Health }, "", "When it gets no new work."),
	misplaced[Upstream]("upstream", "write url: URL, or command: [PROGRAM, ARGUMENT…]"),
	misplaced[Upstream]("upstream-era", "write era"),
	misplaced[Upstream]("args", "the arguments belong into command, behind the program"),
}

var oneServer = schema{"oneOf": []any{schema{"required": []any{"url"}}, schema{"required": []any{"command"}}}}

var routeKeys = append([]key[rawRoute]{
	row("name", name, func(r *rawRoute) *string { return &r.Name }, "(its path, as in `billing-mcp` for `/billing/mcp`)", "What handles, metrics and the report call it."),
	row("path", textOf("path", "a path, such as /mcp", true, schema{"type": "string", "pattern": "^/[^?#%\\\\\\s]*$"}, routePath), func(r *rawRoute) *string { return &r.Path }, "/mcp", "Path of the MCP endpoint, matched as a whole."),
	row("host", textOf("host", "a host, such as mcp.example.com", true, schema{"type": "string", "pattern": hostForm}, hostMatch), func(r *rawRoute) *string { return &r.Host }, "(any)", "Host clients ask for."),
	row("match-headers", showPairs(pairsOf("names and values", 16, schema{"pattern": headerName.String()}, headerMatch), func(h HeaderMatch) (string, string) { return h.Name, h.Value }, hideNothing), func(r *rawRoute) *[]HeaderMatch { return &r.Headers }, "(none)", "Headers a request must have, exactly so."),
	row("listeners", listOf(name, maxList), func(r *rawRoute) *[]string { return &r.Listeners }, "(all)", "Names of the listeners it is on."),
	row("public-url", public, func(r *rawRoute) *string { return &r.PublicURL }, "(the listener's, and path)", "Whole URL under which clients reach it."),
	row("sse-path", textOf("path \\| off", "a path, such as /sse, or off", true, schema{"type": "string", "pattern": "^(off|/[^?#%\\\\\\s]+)$"}, ssePath), func(r *rawRoute) *string { return &r.sse }, "(`/sse` for the only route, else `off`)", "Path of the stream of clients that speak HTTP+SSE; they post to `message` beside it."),
	row("upstream", urlOrGroup(), func(r *rawRoute) *Upstream { return &r.one }, "(one of these three)", "Its only server: a URL, or the keys of an upstream."),
	row("command", listOf(argument, maxList), func(r *rawRoute) *[]string { return &r.command }, "(one of these three)", "Its only server: a program and its arguments."),
	row("upstreams", some(listOf(showing(group("an upstream", upstreamKeys, oneServer), showUpstream), maxUpstreams)), func(r *rawRoute) *[]Upstream { return &r.Upstreams }, "(one of these three)", "Its servers: variants of one, never merged."),
	misplaced[rawRoute]("headers", "headers for the server belong under its upstream; to choose requests by theirs, write match-headers"),
	misplaced[rawRoute]("env", "it belongs to a program: write upstream: with command and env under it"),
	misplaced[rawRoute]("cwd", "it belongs to a program: write upstream: with command and cwd under it"),
	misplaced[rawRoute]("url", "write upstream: URL"),
	misplaced[rawRoute]("upstream-era", "write era"),
}, lift(policyKeys, func(r *rawRoute) *Policies { return &r.Policies }, "as in `defaults`")...)

var oneUpstream = schema{"oneOf": []any{schema{"required": []any{"upstream"}}, schema{"required": []any{"command"}}, schema{"required": []any{"upstreams"}}}}

var fileKeys = []key[document]{
	row("listen", listening, func(d *document) *string { return &d.listen }, "(`127.0.0.1:8080`)", "`ADDRESS:PORT` of the only listener; the short form of `listeners`."),
	row("listeners", some(listOf(group("a listener", listenerKeys, nil), maxList)), func(d *document) *[]Listener { return &d.Listeners }, "(that of `listen`)", "Where clients come in."),
	row("admin", group("admin", adminKeys, nil), func(d *document) *Admin { return &d.Admin }, "(off)", "Where operators come in."),
	row("state", textOf("text", "memory", false, schema{"type": "string", "pattern": "^memory$"}, stateKind), func(d *document) *string { return &d.State }, "memory", "Where state is kept; memory ends with the process."),
	row("state-keys", listOf(stateKeyKind(), 8), func(d *document) *[]StateKey { return &d.StateKeys }, "(a random one)", "Files with the keys that seal handles, or `env:NAME` for a variable that holds one; the first seals, all open."),
	row("principal", showing(textOf("text", "token, header:NAME or jwt:JWKS", false, schema{"type": "string", "pattern": "^(token$|header:.|jwt:.)"}, principalKind), showAfter("jwt:")), func(d *document) *string { return &d.Principal }, "token", "How callers are told apart: `token`, `header:NAME`, or `jwt:JWKS` with the file or URL of a key set."),
	row("jwt-audience", listOf(someText, maxList), func(d *document) *[]string { return &d.JWTAudience }, "(the public URLs)", "Whom tokens must be for."),
	row("jwt-issuer", someText, func(d *document) *string { return &d.JWTIssuer }, "(anybody whose key is in the set)", "Whom tokens must be from."),
	row("jwt-alg", listOf(called("algorithm", words(asymmetric...)), maxList), func(d *document) *[]string { return &d.JWTAlgorithms }, "(RS256, ES256, EdDSA)", "How tokens may be signed."),
	row("allow-open", yesNo(), func(d *document) *bool { return &d.AllowOpen }, "false", "Unverified callers may use credentials of ours."),
	row("limits", group("limits", limitKeys, nil), func(d *document) *Limits { return &d.Limits }, "", "Bounds over all routes together; over them new work is refused."),
	row("log", withDefaults("log", logKeys), func(d *document) *Log { return &d.Log }, "", "The log."),
	row("record", group("record", recordKeys, nil), func(d *document) *Record { return &d.Record }, "(off)", "Whether traffic is kept."),
	row("telemetry", withDefaults("telemetry", telemetryKeys), func(d *document) *Telemetry { return &d.Telemetry }, "", "What is told about requests; OpenTelemetry is on by its `OTEL_*` variables alone."),
	row("drain-timeout", duration(false), func(d *document) *durationValue { return &d.DrainTimeout }, "10s", "How long calls in flight may take after SIGTERM."),
	row("max-message", size(1<<30), func(d *document) *int64 { return &d.MaxMessage }, "64MiB", "Largest message, either way."),
	row("defaults", defaults(), func(d *document) *Policies { return &d.defaults }, "", "What routes do that say nothing else."),
	row("routes", routes(), func(d *document) *[]rawRoute { return &d.routes }, "(required)", "Where requests go."),
	misplaced[document]("upstream", "write routes: with a list under it, - path: /mcp and upstream: URL"),
	misplaced[document]("upstreams", "write routes: with a list under it, - path: /mcp and upstreams"),
	misplaced[document]("state-key", "write state-keys: and a list"),
	misplaced[document]("log-level", "write log: with level under it"),
	misplaced[document]("log-format", "write log: with format under it"),
	misplaced[document]("log-file", "write log: with file under it"),
	misplaced[document]("version", "the shape of the file has no version yet"),
	misplaced[document]("audit", "write telemetry: with audit under it"),
}

var fileKind = group("the file", fileKeys, schema{"not": schema{"required": []any{"listen", "listeners"}}})
