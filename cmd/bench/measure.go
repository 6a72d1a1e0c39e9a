package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbridge/translate"
)

// startServers starts the server behind the proxies.
func startServers(large int) (*child, error) {
	return start(roleServer, "-large", strconv.Itoa(large))
}

// contender is one proxy in a measurement.
type contender struct {
	canned *canned // what is sent
	*child
	conns []*connection
	rates []float64 // of each round: exchanges a second
	cpu   []float64 // and the process's µs for one
	trips []float64 // and requests at the server for one
	ops   int
	start usage
}

// round measures for d.
func (c *contender) round(d time.Duration, server *child) error {
	first, err := server.ask(sayUsage)
	if err != nil {
		return err
	}
	before, err := c.ask(sayUsage)
	if err != nil {
		return err
	}
	rate, ops, err := load(c.conns, d)
	if err != nil {
		return err
	}
	after, err := c.ask(sayUsage)
	if err != nil {
		return err
	}
	last, err := server.ask(sayUsage)
	if err != nil {
		return err
	}
	c.trips = append(c.trips, float64(last.Served-first.Served)/float64(max(1, ops)))
	c.rates = append(c.rates, rate)
	c.cpu = append(c.cpu, float64((after.CPU-before.CPU).Nanoseconds())/1e3/float64(max(1, ops)))
	c.ops += ops
	return nil
}

// startPair starts bridge and reverse proxy in front of the scenario's server,
// and prepares its request.
func startPair(o options, s scenario, server *child, label string) (bridge, reverse *contender, c *canned, err error) {
	target := "http://" + server.addr + s.path()
	args := func(role, name string) []string {
		list := []string{"-target", target}
		if role == roleBridge && s.fresh > 0 {
			list = append(list, "-no-snapshots")
		}
		if o.pool {
			list = append(list, "-pool")
		}
		if o.profile != "" && label != "" {
			file := filepath.Join(o.profile, strings.NewReplacer("→", "-", "/", "-", " ", "-").Replace(s.name())+"-"+label+"-"+name)
			list = append(list, "-cpuprofile", file+".cpu", "-memprofile", file+".mem")
		}
		return list
	}
	bridge, reverse = new(contender), new(contender)
	bridgeArgs := args(roleBridge, roleBridge)
	if o.record != "" {
		name := strings.NewReplacer("→", "-", "/", "-", " ", "-").Replace(s.name()) + "-" + label + ".jsonl"
		bridgeArgs = append(bridgeArgs, "-record", filepath.Join(o.record, name))
	}
	if bridge.child, err = start(roleBridge, bridgeArgs...); err != nil {
		return bridge, reverse, nil, err
	}
	other := roleReverse
	if o.record != "" {
		other = roleBridge
	}
	if reverse.child, err = start(other, args(other, roleReverse)...); err != nil {
		return bridge, reverse, nil, err
	}
	c, err = s.prepare("http://" + bridge.addr + "/mcp")
	bridge.canned, reverse.canned = c, c
	if err == nil && o.record != "" { // its sessions are its own
		reverse.canned, err = s.prepare("http://" + reverse.addr + "/mcp")
	}
	return bridge, reverse, c, err
}

func (c *contender) stop() {
	disconnect(c.conns)
	_ = c.child.stop()
}

const tableHead = "" +
	"| scenario                                | conns | bridge/s | reverse/s | ratio (quartiles)   | CPU µs: bridge | reverse | ratio | allocs: bridge | reverse | KB: bridge | reverse | upstream requests |\n" +
	"|-----------------------------------------|------:|---------:|----------:|---------------------|---------------:|--------:|------:|---------------:|--------:|-----------:|--------:|------------------:|"

// measure runs one scenario at each concurrency and prints its lines.
func measure(o options, s scenario, server *child, w io.Writer) error {
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o777); err != nil {
			return err
		}
	}
	for _, n := range o.concurrency {
		if err := measureAt(o, s, server, n, w); err != nil {
			return fmt.Errorf("%d connections: %w", n, err)
		}
	}
	return nil
}

func measureAt(o options, s scenario, server *child, n int, w io.Writer) error {
	bridge, reverse, _, err := startPair(o, s, server, "c"+strconv.Itoa(n))
	defer bridge.stop()
	defer reverse.stop()
	if err != nil {
		return err
	}
	pair := []*contender{bridge, reverse}
	round := o.round
	if s.size >= largeFrom {
		round *= 2
	}
	ids := int64(0)
	for _, p := range pair {
		if p.conns, err = connect(p.addr, p.canned, n, &ids); err != nil {
			return err
		}
		if _, _, err := load(p.conns, round); err != nil { // warm up
			return err
		}
		if p.start, err = p.ask(sayUsage); err != nil {
			return err
		}
	}
	for i := range o.rounds {
		for k := range pair {
			// Each goes first in half of the rounds.
			if err := pair[(i+k)%2].round(round, server); err != nil {
				return err
			}
			time.Sleep(round / 10) // collections under way end in their own time
		}
	}
	var mallocs, kb [2]float64
	dropped := uint64(0)
	for i, p := range pair {
		end, err := p.ask(sayUsage)
		if err != nil {
			return err
		}
		dropped += end.Dropped
		n := float64(max(1, p.ops))
		mallocs[i] = float64(end.Mallocs-p.start.Mallocs) / n
		kb[i] = float64(end.Bytes-p.start.Bytes) / 1024 / n
	}
	low, mid, high := quartiles(ratios(bridge.rates, reverse.rates))
	_, err = fmt.Fprintf(w, "| %-39s | %5d | %8.0f | %9.0f | %4.2f (%4.2f to %4.2f) | %14.1f | %7.1f | %5.2f | %14.0f | %7.0f | %10.1f | %7.1f | %17.2f |\n",
		s.name(), n, median(bridge.rates), median(reverse.rates), mid, low, high,
		median(bridge.cpu), median(reverse.cpu), median(ratios(reverse.cpu, bridge.cpu)),
		mallocs[0], mallocs[1], kb[0], kb[1], median(bridge.trips))
	if err == nil && o.record != "" {
		_, err = fmt.Fprintf(w, "  recording on (bridge) against off (reverse): %d frames dropped\n", dropped)
	}
	return err
}

// ratios are those of rounds that were next to each other.
func ratios(a, b []float64) []float64 {
	list := make([]float64, len(a))
	for i := range list {
		list[i] = a[i] / max(b[i], 1e-9)
	}
	return list
}

func median(list []float64) float64 {
	_, m, _ := quartiles(list)
	return m
}

func quartiles(list []float64) (low, mid, high float64) {
	list = slices.Sorted(slices.Values(list))
	at := func(q float64) float64 {
		x := q * float64(len(list)-1)
		i := int(x)
		if i+1 == len(list) {
			return list[i]
		}
		return list[i] + (x-float64(i))*(list[i+1]-list[i])
	}
	return at(0.25), at(0.5), at(0.75)
}

const memoryHead = "" +
	"| one message in a fresh process          | idle MB: bridge | reverse | peak less idle MB: bridge | reverse | times its size: bridge | reverse |\n" +
	"|-----------------------------------------|----------------:|--------:|--------------------------:|--------:|-----------------------:|--------:|"

// measurePeak finds how much memory one large message takes at most, in
// processes that have only seen a small one.
func measurePeak(o options, s scenario, server *child, w io.Writer) error {
	var idle, peak [2][]float64
	for range o.memory {
		bridge, reverse, c, err := startPair(o, s, server, "")
		if err == nil {
			err = peakOfPair(s, bridge, reverse, c, &idle, &peak)
		}
		bridge.stop()
		reverse.stop()
		if err != nil {
			return err
		}
	}
	const mb = 1 << 20
	_, err := fmt.Fprintf(w, "| %-39s | %15.1f | %7.1f | %25.1f | %7.1f | %22.1f | %7.1f |\n", s.name(),
		median(idle[0])/mb, median(idle[1])/mb, median(peak[0])/mb, median(peak[1])/mb,
		median(peak[0])/float64(s.size), median(peak[1])/float64(s.size))
	return err
}

func peakOfPair(s scenario, bridge, reverse *contender, c *canned, idle, peak *[2][]float64) error {
	// A small request of the same kind first: sockets are open and sessions
	// are there, as in a process that has been idle for a while.
	first := scenario{s.client, s.server, "", small, small / 2, toolSmall, textArgs, small, 0}
	warm, err := first.prepare("http://" + bridge.addr + "/mcp")
	if err != nil {
		return err
	}
	if c.era == translate.Legacy {
		warm.session = c.session
	}
	ids := int64(0)
	for i, p := range []*contender{bridge, reverse} {
		conns, err := connect(p.addr, warm, 1, &ids)
		p.conns = append(p.conns, conns...)
		if err != nil {
			return err
		}
		before, err := p.ask(sayReset)
		if err != nil {
			return err
		}
		conns, err = connect(p.addr, c, 1, &ids) // sends one to check it
		p.conns = append(p.conns, conns...)
		if err != nil {
			return err
		}
		after, err := p.ask(sayUsage)
		if err != nil {
			return err
		}
		idle[i] = append(idle[i], float64(before.RSS))
		peak[i] = append(peak[i], float64(after.Peak-before.RSS))
	}
	return nil
}
