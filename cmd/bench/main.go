package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// options say what is measured and for how long.
type options struct {
	only        *regexp.Regexp
	rounds      int           // pairs of rounds
	round       time.Duration // of small messages; large ones take twice as long
	concurrency []int
	large       int // bytes of a large message
	memory      int // fresh processes for the peak memory of one large message
	pool        bool
	profile     string // folder
	record      string // folder: measure a bridge that records against one that does not
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == roleArg {
		if err := serveRole(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	o, err := parse(os.Args[1:])
	if err == flag.ErrHelp {
		return
	}
	if err != nil {
		os.Exit(2) // package flag said why
	}
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{concurrency: []int{1, 8}}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := fs.Bool("quick", false, "a smoke run of a few seconds; its figures mean nothing")
	fs.Func("only", "measure the scenarios whose name matches this `regexp`", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	fs.IntVar(&o.rounds, "rounds", 10, "pairs of rounds of each scenario")
	fs.DurationVar(&o.round, "round", 250*time.Millisecond, "length of a round")
	fs.Func("c", "connections in use at once, `n,n…` (1,8)", func(s string) error {
		o.concurrency = nil
		for f := range strings.SplitSeq(s, ",") {
			n, err := strconv.Atoi(f)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no count", f)
			}
			o.concurrency = append(o.concurrency, n)
		}
		return nil
	})
	fs.IntVar(&o.large, "large", 5<<20, "`bytes` of a large message")
	fs.IntVar(&o.memory, "memory", 3, "fresh processes for the peak memory of one large message")
	fs.BoolVar(&o.pool, "pool", false, "give the reverse proxy a buffer pool, which it has not by default")
	fs.StringVar(&o.record, "record", "", "measure a bridge that records to this `folder` against one that does not, on small messages")
	fs.StringVar(&o.profile, "profile", "", "write CPU and allocation profiles of both proxies to this `folder`")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		err := fmt.Errorf("unexpected argument %q", fs.Arg(0))
		fmt.Fprintln(fs.Output(), "bench:", err)
		return o, err
	}
	if *quick {
		o.rounds, o.round, o.memory, o.concurrency = 1, 20*time.Millisecond, 1, []int{2}
		o.large = min(o.large, 1<<20)
	}
	return o, nil
}

// run measures every chosen scenario and prints as it goes.
func run(o options, w io.Writer) error {
	servers, err := startServers(o.large)
	if err != nil {
		return err
	}
	defer servers.stop()
	chosen := 0
	fmt.Fprintln(w, tableHead)
	for _, s := range scenarios(o.large) {
		if o.only != nil && !o.only.MatchString(s.name()) || o.record != "" && s.size >= largeFrom {
			continue
		}
		chosen++
		if err := measure(o, s, servers, w); err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
	}
	if o.memory > 0 && o.record == "" {
		fmt.Fprintln(w, "\n"+memoryHead)
		for _, s := range scenarios(o.large) {
			if s.size < largeFrom || o.only != nil && !o.only.MatchString(s.name()) {
				continue
			}
			if err := measurePeak(o, s, servers, w); err != nil {
				return fmt.Errorf("%s: %w", s.name(), err)
			}
		}
	}
	if chosen == 0 {
		return fmt.Errorf("no scenario matches %q", o.only)
	}
	return nil
}
