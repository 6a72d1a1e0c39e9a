package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"taskbridge/translate"
)

// bigWords is what the document says of large messages.
const bigWords = `
` + "`TestTransports_Big`" + ` sends a call with an argument of 12 MiB (base64) and a call with such a result through
each cell: they arrive unchanged, and the proxy's memory grows by four times the size at most. An ordinary
run plays each pair of transports once, one with ` + "`TASKBRIDGE_E2E`" + ` all cells.
`

// bigFactor is how many times its size a message may take.
const bigFactor = 4

// onePerPair is each pair of transports once, with eras in turn.
func onePerPair() (list []pairCell) {
	of := map[string][]pairCell{}
	var pairs []string
	for _, c := range pairCells() {
		pair := c.down + " " + c.up
		if of[pair] == nil {
			pairs = append(pairs, pair)
		}
		of[pair] = append(of[pair], c)
	}
	for i, pair := range pairs {
		list = append(list, of[pair][i%len(of[pair])])
	}
	return list
}

// TestTransports_Big: a message of 12 MiB passes unchanged through every pair,
// both ways, and takes at most four times its size.
func TestTransports_Big(t *testing.T) {
	if testing.Short() {
		t.Skip("moves gigabytes: not with -short")
	}
	t.Parallel()
	sum := digestOf([]byte(bigText()))
	cells := pairCells()
	if e2eMode() == "" {
		cells = onePerPair()
	}
	for _, c := range cells {
		t.Run(c.String(), func(t *testing.T) {
			t.Run("argument", func(t *testing.T) {
				t.Parallel()
				r := newPairRig(t, c)
				r.warm()
				done := r.measured()
				m := r.p.wait("the call", r.bigCall("!sum:"+bigText()))
				if m.text() != sum {
					t.Errorf("the argument arrived changed: %.200s", m)
				}
				done()
			})
			t.Run("result", func(t *testing.T) {
				t.Parallel()
				r := newPairRig(t, c)
				r.warm()
				done := r.measured()
				m := r.p.wait("the call", r.bigCall("!big"))
				done()
				if text := m.text(); digestOf([]byte(text)) != sum {
					t.Errorf("the result arrived changed: %d bytes", len(text))
				}
			})
		})
	}
}

// recorded has a proxy record what passes, which is checked at the end. Where
// memory is measured it does not: a recorder holds what is not yet written.
func recorded(t testing.TB) []string {
	if strings.HasPrefix(t.Name(), "TestTransports_Big/") {
		return nil
	}
	return []string{"--record", checkedFile(t)}
}

// warm makes what a first call makes: a session, a connection, a process.
func (r *pairRig) warm() {
	r.t.Helper()
	if m := r.p.tool("greet", map[string]any{"name": "Ada"}); m.text() != "Hello, Ada!" {
		r.t.Fatalf("greet: %s", m)
	}
}

// bigCall calls greet with a name; the message is put together without copies
// the test machine would have to make room for.
func (r *pairRig) bigCall(name string) chan partyMessage {
	meta := ""
	if r.pairCell.client == translate.Modern {
		meta = `,"_meta":{"` + translate.MetaVersion + `":"` + translate.V20260728 + `","` + translate.MetaClientCaps + `":{}}`
	}
	_, answer := r.p.beginRaw("tools/call", []byte(`{"name":"greet","arguments":{"name":"`+name+`"}`+meta+`}`))
	return answer
}

// measured holds the proxy's memory against the size of the message between.
func (r *pairRig) measured() (done func()) {
	r.t.Helper()
	if raceEnabled {
		return func() {}
	}
	pid := 0
	if r.proxy != nil {
		pid = r.proxy.cmd.Process.Pid
	} else {
		pid = r.p.c.(*overLines).cmd.Process.Pid
	}
	before, ok := statusOf(pid, "VmRSS:")
	if !ok {
		return func() {}
	}
	return func() {
		r.t.Helper()
		most, _ := statusOf(pid, "VmHWM:")
		grown := most - before
		r.t.Logf("it took %.1f times the size", float64(grown)/bigSize)
		if grown > bigFactor*bigSize {
			r.t.Errorf("it took %d MiB for a message of %d MiB", grown>>20, bigSize>>20)
		}
	}
}

// statusOf is a line of a process's status (proc(5)) in bytes; ok is false where
// there is none.
func statusOf(pid int, key string) (n int64, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(raw)) {
		if rest, found := strings.CutPrefix(line, key); found {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}
