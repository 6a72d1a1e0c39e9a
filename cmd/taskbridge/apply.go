package main

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"
)

// undo are steps back, for a change that fails half-way.
type undo []func()

func (u *undo) add(f func()) { *u = append(*u, f) }

func (u undo) run() {
	for _, f := range slices.Backward(u) {
		f()
	}
}

// apply puts a configuration to work, the first or a later one. What is under
// way goes on: sessions and tasks stay with their servers, streams with the
// endpoint that opened them. On an error nothing has changed.
func (b *bridge) apply(ctx context.Context, c bridgeConfig) (err error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	if b.closed { // changing is held by close
		return errors.New("the proxy is shutting down")
	}
	var back undo
	defer func() {
		if err != nil {
			back.run()
		}
	}()
	who, err := b.newCallers(ctx, &c, &back)
	if err != nil {
		return err
	}
	routes, err := b.changeRoutes(&c, &back)
	if err != nil {
		return err
	}
	for i, d := range b.doors {
		if err := b.change(&c, d, i, routes, who, &back); err != nil {
			return err
		}
	}
	lines, err := b.auditPlace(&c, &back)
	if err != nil {
		return err
	}
	retired := b.handles.Retired()
	if err := b.changeKeys(ctx, &c); err != nil {
		return &settingError{"state-key", err}
	}
	b.commit(c, routes, who)
	if b.audit != nil {
		b.audit.take(lines)
	}
	b.watchKeys(retired)
	return nil
}

// settingError says which setting cannot be had, by the name of its flag.
type settingError struct {
	setting string
	err     error
}

func (e *settingError) Error() string { return e.setting + ": " + e.err.Error() }

func (e *settingError) Unwrap() error { return e.err }

// auditPlace opens where audit lines are to go.
func (b *bridge) auditPlace(c *bridgeConfig, back *undo) (p auditPlace, err error) {
	if b.audit == nil {
		return p, nil
	}
	if p, err = b.audit.place(c.audit); err != nil {
		return p, &settingError{"audit", err}
	}
	back.add(func() { b.audit.drop(p) })
	return p, nil
}

// newCallers returns what verifies tokens: what there is, where nothing about it
// changed, with the keys there are, where their place did not.
func (b *bridge) newCallers(ctx context.Context, c *bridgeConfig, back *undo) (*callers, error) {
	if c.jwt == nil || c.stdio {
		return nil, nil
	}
	if b.who != nil && reflect.DeepEqual(b.who.jwtConfig, *c.jwt) {
		return b.who, nil
	}
	if b.who != nil && reflect.DeepEqual(b.who.keysAt, c.jwt.keysAt) {
		return &callers{*c.jwt, b.who.keysInUse}, nil
	}
	who, err := c.jwt.start(ctx, b.log, len(b.routes) > 0)
	if err == nil {
		back.add(who.close)
	}
	return who, err
}

// changeRoutes starts the routes that are new and changes the others.
func (b *bridge) changeRoutes(c *bridgeConfig, back *undo) ([]*route, error) {
	var routes []*route
	for i := range c.routes {
		rc := &c.routes[i]
		old := b.route(rc.name)
		if old == nil {
			r, err := b.newRoute(c, rc)
			if err != nil {
				return nil, err
			}
			back.add(func() { _ = r.hub.Close() })
			routes = append(routes, r)
			continue
		}
		r := &route{routeConfig: *rc, hub: old.hub, live: old.live, limiter: old.limiter}
		if err := r.hub.Update(b.upstreams(c, r)); err != nil {
			return nil, plainStart(err)
		}
		back.add(func() {
			if err := r.hub.Update(b.upstreams(&b.config, old)); err != nil {
				b.log.Error("a route could not be put back", "route", r.name, "err", err)
			}
		})
		routes = append(routes, r)
	}
	return routes, nil
}

// route finds a route that is there, or is leaving and comes back.
func (b *bridge) route(name string) *route {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.routes {
		if r.name == name {
			return r
		}
	}
	return b.leaving[name]
}

// change makes routes what comes in by a door.
func (b *bridge) change(c *bridgeConfig, d *door, i int, routes []*route, who *callers, back *undo) error {
	routes = onDoor(routes, d.name)
	next, err := b.open(c, d, &c.listeners[i], routes, who)
	if err != nil {
		return err
	}
	if err := d.front.Set(next.endpoints, next.unknown); err != nil {
		return err
	}
	was := d.given
	d.given = next
	back.add(func() {
		d.given = was
		_ = d.front.Set(was.endpoints, was.unknown)
	})
	return nil
}

func onDoor(routes []*route, door string) (list []*route) {
	for _, r := range routes {
		if r.on(door) {
			list = append(list, r)
		}
	}
	return list
}

// commit makes the new state what there is, and lets go of the old.
func (b *bridge) commit(c bridgeConfig, routes []*route, who *callers) {
	b.mu.Lock()
	var gone []*route
	for _, r := range b.routes {
		if !slices.ContainsFunc(routes, func(n *route) bool { return n.name == r.name }) {
			b.leaving[r.name] = r
			gone = append(gone, r)
		}
	}
	for _, r := range routes {
		delete(b.leaving, r.name)
	}
	old := b.who
	b.config, b.routes, b.who = c, routes, who
	for i, d := range b.doors {
		d.pair = c.listeners[i].pair
	}
	b.mu.Unlock()
	b.countRoutes(routes)
	b.limiter.Set(c.rates)
	for _, r := range routes {
		r.limiter.Set(r.ownRates())
		for i := range r.upstreams {
			if s := r.live.of(&r.upstreams[i]); s != nil { // one of its name may be emptied beside it
				b.know(s.owner, s.peer)
			}
		}
	}
	for _, d := range b.doors {
		d.seeOff()
	}
	if !old.shares(who) {
		old.close()
	}
	for _, r := range gone {
		b.log.Info("a route was taken out; what it has under way goes on", "route", r.name)
		b.wg.Go(func() { b.seeOff(r) })
	}
}

// seeOff has the endpoints that are no longer here end what has no end of its
// own; those that have become others go on.
func (d *door) seeOff() {
	for name, s := range d.settled {
		if d.servers[name] == nil {
			s.Leave()
		}
	}
	d.settled = d.servers
}

// leaveEvery is how often a route that was taken out is looked at.
const leaveEvery = 5 * time.Second

// seeOff closes a route that was taken out once nothing is left of it.
func (b *bridge) seeOff(r *route) {
	t := time.NewTicker(leaveEvery)
	defer t.Stop()
	for {
		select {
		case <-b.done:
			return
		case <-t.C:
		}
		if !b.isLeaving(r) {
			return // it came back
		}
		b.mu.Lock()
		back := b.leaving[r.name] != r
		b.mu.Unlock()
		if back { // or it left again, and another looks at it
			return
		}
		if !r.over() {
			continue
		}
		b.changing.Lock()
		b.mu.Lock()
		mine := !b.closed && b.leaving[r.name] == r
		if mine {
			delete(b.leaving, r.name)
		}
		b.mu.Unlock()
		if mine { // before another of its name begins with the same records
			_ = r.hub.Dissolve()
			b.log.Info("a route that was taken out is over", "route", r.name)
		}
		b.changing.Unlock()
		return
	}
}

func (b *bridge) isLeaving(r *route) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leaving[r.name] == r
}

// over: nothing is under way at any server of the route, and nothing kept for
// callers to fetch.
func (r *route) over() bool {
	return r.hub.Over()
}
