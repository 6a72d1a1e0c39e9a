package child

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// sweepEvery is how often a sweep looks whether something is left.
const sweepEvery = 20 * time.Millisecond

// kin is a process and when it began: numbers are given out again.
type kin struct {
	pid   int
	start string
}

// family are the processes that belong to a child now. What it knows of those
// with an environment of their own it knows by descent, so it is taken before
// the child ends.
func family(pid int, mark string) []kin {
	var out []kin
	for _, p := range leftovers(pid, mark) {
		if s, ok := lookAt(p); ok {
			out = append(out, kin{p, s.start})
		}
	}
	return out
}

// sweep ends what a process that has exited left behind: its group, whatever
// carries its mark, in whichever session, and known. It is told to terminate
// and killed after grace.
func sweep(pid int, mark string, known []kin, grace time.Duration) {
	find := func() []int {
		left := leftovers(pid, mark)
		for _, k := range known {
			if s, ok := lookAt(k.pid); ok && s.start == k.start && k.pid != pid {
				left = append(left, k.pid)
			}
		}
		return left
	}
	left := find()
	if len(left) == 0 {
		return
	}
	signalAll(left, syscall.SIGTERM)
	for end := time.Now().Add(grace); len(left) > 0 && time.Now().Before(end); left = find() {
		time.Sleep(sweepEvery)
	}
	// A process may start another while it is being killed.
	for range 50 {
		if len(left) == 0 {
			return
		}
		signalAll(left, syscall.SIGKILL)
		time.Sleep(sweepEvery)
		left = find()
	}
}

func signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig)
	}
}

// leftovers are the living processes of the group, those that carry the mark,
// and those either has started, even where they have an environment of their
// own. group 0: not known.
func leftovers(group int, mark string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	own := os.Getpid()
	parents := map[int]int{}
	found := map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == own || pid <= 1 {
			continue
		}
		s, alive := lookAt(pid)
		if !alive {
			continue
		}
		parents[pid] = s.parent
		if group > 1 && s.group == group {
			found[pid] = true
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && carries(env, mark) {
			found[pid] = true
		}
	}
	if len(found) == 0 {
		return nil
	}
	var out []int
	for pid := range parents {
		for at, hops := pid, 0; at > 1 && at != own && hops < 64; at, hops = parents[at], hops+1 {
			if found[at] {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

// carries looks for the mark in an environment. A mark is random.
func carries(env []byte, mark string) bool {
	i := bytes.Index(env, []byte(markVar+"="))
	if i < 0 {
		return false
	}
	value, _, _ := bytes.Cut(env[i:], []byte{0})
	return bytes.Contains(value, []byte(mark))
}

// stat is what /proc/PID/stat says.
type stat struct {
	parent, group int
	start         string
}

// lookAt reads it: pid (name) state ppid pgrp … starttime, where the name may
// hold anything; false for a process that is not there or a zombie.
func lookAt(pid int) (s stat, alive bool) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return s, false
	}
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 20 {
		return s, false
	}
	s.parent, _ = strconv.Atoi(string(fields[1]))
	s.group, _ = strconv.Atoi(string(fields[2]))
	s.start = string(fields[19])
	return s, fields[0][0] != 'Z' && fields[0][0] != 'X'
}
