package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/session"
)

// fleetStatus is what GET /status of the admin address says.
type fleetStatus struct {
	Unready string        `json:"unready,omitempty"` // why no new work should come
	Config  *configStatus `json:"config,omitempty"`
	Routes  []routeStatus `json:"routes"`
}

// configStatus says which file runs.
type configStatus struct {
	File string    `json:"file"`
	OK   bool      `json:"ok"` // what was last read is what runs
	At   time.Time `json:"at"` // when what runs was put to work
}

// routeStatus is a route with its servers; Leaving: it was taken out.
type routeStatus struct {
	Name      string                   `json:"name"`
	Path      string                   `json:"path"`
	Leaving   bool                     `json:"leaving,omitempty"`
	Upstreams []session.UpstreamStatus `json:"upstreams"`
}

// serveAdmin adds what the admin address knows of routes and their servers.
func (r *reloader) serveAdmin(m *adminServer) {
	r.admin = m
	m.get("/status", func(*http.Request) (any, error) { return r.status(), nil })
	m.post("/drain", func(_ *http.Request, body []byte) (any, error) { return r.bridge.drainServer(body, true) })
	m.get("/busy", func(q *http.Request) (any, error) { return r.bridge.busy(q.URL.Query().Get("name")) })
	m.post("/undrain", func(_ *http.Request, body []byte) (any, error) { return r.bridge.drainServer(body, false) })
	m.post("/reload", func(q *http.Request, _ []byte) (any, error) {
		if err := r.reload(q.Context(), "the admin command"); err != nil {
			return nil, adminErrorf(http.StatusConflict, "nothing has changed: %v", err)
		}
		return r.config(), nil
	})
}

func (r *reloader) config() *configStatus {
	if r.file == "" {
		return nil
	}
	ok, at := r.last()
	return &configStatus{File: r.file, OK: ok, At: at.UTC().Truncate(time.Millisecond)}
}

func (r *reloader) status() fleetStatus {
	b := r.bridge
	out := fleetStatus{Unready: b.unready(), Config: r.config(), Routes: []routeStatus{}}
	for _, one := range b.current() {
		out.Routes = append(out.Routes, routeStatus{Name: one.name, Path: one.path, Upstreams: one.hub.Status()})
	}
	b.mu.Lock()
	var leaving []*route
	for _, one := range b.leaving {
		leaving = append(leaving, one)
	}
	b.mu.Unlock()
	slices.SortFunc(leaving, func(a, b *route) int { return strings.Compare(a.name, b.name) })
	for _, one := range leaving {
		out.Routes = append(out.Routes, routeStatus{Name: one.name, Path: one.path, Leaving: true, Upstreams: one.hub.Status()})
	}
	return out
}

// drainServer gives a server no new work, or work again, and says what it has.
func (b *bridge) drainServer(body []byte, on bool) (any, error) {
	var asked struct{ Name string }
	if err := json.Unmarshal(body, &asked); err != nil || asked.Name == "" {
		return nil, adminErrorf(http.StatusBadRequest, `want {"name":"ROUTE/UPSTREAM"}`)
	}
	r, owner, err := b.findServer(asked.Name)
	if err != nil {
		return nil, err
	}
	if on {
		err = r.hub.Drain(owner)
	} else {
		err = r.hub.Undrain(owner)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range r.hub.Status() {
		if s.Name == owner && s.State != session.StateRetired {
			return s, nil
		}
	}
	return nil, adminErrorf(http.StatusNotFound, "upstream %q is gone", session.Shown(asked.Name))
}

// busyStatus says whether a server has anything left to do.
type busyStatus struct {
	Busy bool `json:"busy"`
}

// busy is asked again and again by whoever waits for a server to be empty, so it
// counts nothing.
func (b *bridge) busy(name string) (any, error) {
	r, owner, err := b.findServer(name)
	if err != nil {
		return nil, err
	}
	busy, known := r.hub.Busy(owner)
	if !known {
		return nil, adminErrorf(http.StatusNotFound, "upstream %q is gone", session.Shown(name))
	}
	return busyStatus{busy}, nil
}

// maxNamed bounds the names in an error.
const maxNamed = 10

// findServer finds a server by ROUTE/UPSTREAM, by the name of a route that has
// one, or by its own name where no other has that.
func (b *bridge) findServer(name string) (*route, string, error) {
	var found []string
	var at *route
	var all []string
	for _, r := range b.current() {
		for i := range r.upstreams {
			u := &r.upstreams[i]
			full := r.name + "/" + u.shown()
			all = append(all, full)
			if name == full || name == u.owner {
				return r, u.owner, nil
			}
			if name == u.shown() || name == r.name && len(r.upstreams) == 1 {
				found, at = append(found, u.owner), r
			}
		}
	}
	switch {
	case len(found) == 1:
		return at, found[0], nil
	case len(found) > 1:
		return nil, "", adminErrorf(http.StatusBadRequest, "%q is the name of %d upstreams; say which one, as %s", session.Shown(name), len(found), found[0])
	case len(all) > maxNamed:
		all = append(all[:maxNamed], "…")
	}
	return nil, "", adminErrorf(http.StatusNotFound, "no upstream is called %q; there is %s", session.Shown(name), strings.Join(all, ", "))
}

// shown is what people call it.
func (u *upstreamConfig) shown() string {
	if u.show == "" {
		return u.owner
	}
	return u.show
}

// showStatus writes the answer of /status as a table.
func showStatus(w io.Writer, answer []byte) error {
	var s fleetStatus
	if err := json.Unmarshal(answer, &s); err != nil {
		return fmt.Errorf("the answer is no status: %w", err)
	}
	if s.Unready != "" {
		fmt.Fprintf(w, "not ready: %s\n", showText(s.Unready, maxShown))
	}
	if c := s.Config; c != nil {
		state := "as it is on disk"
		if !c.OK {
			state = "older than on disk: what is there now was refused, see the log"
		}
		fmt.Fprintf(w, "%s, since %s, %s\n", showText(c.File, maxShown), c.At.Format(time.RFC3339), state)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROUTE\tPATH\tUPSTREAM\tSTATE\tWEIGHT\tSESSIONS\tTASKS\tCALLS")
	for _, r := range s.Routes {
		name := showText(r.Name, maxShown)
		if r.Leaving {
			name += " (taken out)"
		}
		for _, u := range r.Upstreams {
			more := ""
			if u.More {
				more = "+"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d%s\t%d%s\t%d%s\n", name, showText(r.Path, maxShown), showText(u.Show, maxShown), stateOf(u), u.Weight, u.Sessions, more, u.Tasks, more, u.Calls, more)
		}
	}
	return t.Flush()
}

// stateOf says of a server that gets no new work also whether it is done.
func stateOf(u session.UpstreamStatus) string {
	if u.Empty && (u.State == session.StateDraining || u.State == session.StateRetired) {
		return u.State + ", empty"
	}
	return u.State
}

// showServer writes the answer of /drain and /undrain.
func showServer(w io.Writer, answer []byte) error {
	var u session.UpstreamStatus
	if err := json.Unmarshal(answer, &u); err != nil {
		return fmt.Errorf("the answer is no upstream: %w", err)
	}
	_, err := fmt.Fprintf(w, "%s: %s; %s\n", showText(u.Name, maxShown), stateOf(u), loadText(u))
	return err
}

// loadText says what a server has under way.
func loadText(u session.UpstreamStatus) string {
	many := func(n int, one string) string {
		if n == 1 {
			return "1 " + one
		}
		return strconv.Itoa(n) + " " + one + "s"
	}
	text := many(u.Sessions, "session") + ", " + many(u.Tasks, "task") + ", " + many(u.Calls, "call")
	if u.More {
		text += " or more"
	}
	return text
}

// showReload writes the answer of /reload.
func showReload(w io.Writer, answer []byte) error {
	var c configStatus
	if err := json.Unmarshal(answer, &c); err != nil {
		return fmt.Errorf("the answer is no reload: %w", err)
	}
	_, err := fmt.Fprintf(w, "%s is at work\n", showText(c.File, maxShown))
	return err
}

// drainWait has the drain command wait until the server is empty.
type drainWait struct{ wait time.Duration }

func (d *drainWait) register(fs *pflag.FlagSet) {
	durationVar(fs, &d.wait, "wait", 0, "wait so long until it is empty; exit 1 if it is not by then")
}

// drainLook is how often a server that is being emptied is looked at.
const drainLook = 500 * time.Millisecond

func (d *drainWait) after(ctx context.Context, ask askAdmin, answer []byte) ([]byte, error) {
	var u session.UpstreamStatus
	if err := json.Unmarshal(answer, &u); err != nil || d.wait == 0 {
		return answer, err
	}
	name := u.Name
	ctx, cancel := context.WithTimeout(ctx, d.wait)
	defer cancel()
	look := time.NewTicker(drainLook)
	defer look.Stop()
	for !u.Empty {
		late := false
		select {
		case <-ctx.Done():
			late = true
		case <-look.C:
			raw, err := ask("/busy?name=" + url.QueryEscape(name))
			if err != nil {
				return nil, err
			}
			var left busyStatus
			if err := json.Unmarshal(raw, &left); err != nil {
				return nil, fmt.Errorf("the answer does not say whether the server is busy: %w", err)
			}
			if left.Busy {
				continue
			}
		}
		raw, err := ask("/status")
		if err != nil {
			return nil, err
		}
		if u, err = serverIn(raw, name); err != nil {
			return nil, err
		}
		if late && !u.Empty {
			return nil, fmt.Errorf("%s is not empty yet: %s; it goes on draining", name, loadText(u))
		}
	}
	return json.Marshal(u)
}

// serverIn finds a server in the answer of /status.
func serverIn(answer []byte, name string) (session.UpstreamStatus, error) {
	var s fleetStatus
	if err := json.Unmarshal(answer, &s); err != nil {
		return session.UpstreamStatus{}, fmt.Errorf("the answer is no status: %w", err)
	}
	for _, r := range s.Routes {
		for _, u := range r.Upstreams {
			if u.Name == name {
				return u, nil
			}
		}
	}
	return session.UpstreamStatus{}, fmt.Errorf("upstream %s is gone", name)
}
