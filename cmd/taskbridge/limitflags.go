package main

import (
	"errors"
	"math"
	"strconv"

	"github.com/spf13/pflag"

	"taskbridge/session"
	"taskbridge/session/throttle"
)

// limitFlags bound what each caller may have and send, and all together.
type limitFlags struct {
	tasks, sessions, servers, streams session.Limit
	rates                             throttle.Limits
	burst                             int64
}

func (l *limitFlags) register(fs *pflag.FlagSet) {
	for _, row := range []struct {
		name, things, each, all string
		limit                   *session.Limit
	}{
		{"tasks", "tasks that live", "10000", "100000", &l.tasks},
		{"sessions", "legacy sessions", "1000", "10000", &l.sessions},
		{"server-sessions", "sessions toward the server on behalf of modern callers", "100", "1000", &l.servers},
		{"streams", "requests that wait open-ended (GET, listen, tasks/result)", "1000", "10000", &l.streams},
	} {
		countVar(fs, &row.limit.Each, "max-"+row.name, "most "+row.things+", of one caller; 0 means "+row.each)
		countVar(fs, &row.limit.All, "max-"+row.name+"-total", "most "+row.things+", of all callers; 0 means "+row.all)
	}
	rateVar(fs, &l.rates.Rate, "max-requests-per-second", "requests a second of one caller (callers who cannot be told apart: of one address); 0 sets no limit")
	rateVar(fs, &l.rates.RateTotal, "max-requests-per-second-total", "requests a second of all callers; 0 sets no limit")
	countVar(fs, &l.burst, "max-requests-burst", "requests a caller may send at once before the rate counts; 0 means those of two seconds, at least 10")
	sizeVar(fs, &l.rates.Bytes, "max-bytes-per-second", 0, "bytes a second of one caller's messages; 0 sets no limit")
	sizeVar(fs, &l.rates.InFlight, "max-bytes-in-flight", 0, "bytes of one caller's messages under way at a time; 0 sets no limit beside that of all")
}

// apply puts the flags into c, whose routes are there.
func (l *limitFlags) apply(c *bridgeConfig) {
	for i := range c.routes {
		p := &c.routes[i].policy
		p.Tasks, p.Sessions, p.Upstreams, p.Streams = l.tasks, l.sessions, l.servers, l.streams
	}
	c.rates = l.rates
	c.rates.Burst = int(l.burst)
}

// countFlag is a whole number; zero means something.
type countFlag int64

func countVar(fs *pflag.FlagSet, p *int64, name, usage string) { fs.Var((*countFlag)(p), name, usage) }

func (c *countFlag) Type() string   { return "number" }
func (c *countFlag) String() string { return strconv.FormatInt(int64(*c), 10) }

func (c *countFlag) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return errors.New("want a whole number from 0 to 2147483647")
	}
	*c = countFlag(n)
	return nil
}

// rateFlag is how often a second; zero means something.
type rateFlag float64

func rateVar(fs *pflag.FlagSet, p *float64, name, usage string) { fs.Var((*rateFlag)(p), name, usage) }

func (r *rateFlag) Type() string   { return "number" }
func (r *rateFlag) String() string { return strconv.FormatFloat(float64(*r), 'g', -1, 64) }

// leastRate: one request in about a day.
const leastRate = 1e-5

func (r *rateFlag) Set(s string) error {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > 1e6 || n > 0 && n < leastRate {
		return errors.New("want a number of times a second, such as 50 or 0.5, up to 1000000")
	}
	*r = rateFlag(n)
	return nil
}
