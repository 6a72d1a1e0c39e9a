package usage

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// short writes a duration in its two largest units.
func short(d time.Duration) string {
	units := []struct {
		of   time.Duration
		name string
	}{{hoursADay, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}}
	for i, u := range units {
		if d < u.of && i < len(units)-1 {
			continue
		}
		text := strconv.FormatInt(int64(d/u.of), 10) + u.name
		if rest := d % u.of; i < len(units)-2 && rest >= units[i+1].of {
			text += strconv.FormatInt(int64(rest/units[i+1].of), 10) + units[i+1].name
		}
		return text
	}
	return "0s"
}

func secondsText(d time.Duration) []byte {
	return strconv.AppendFloat(nil, d.Seconds(), 'f', -1, 64)
}

func parseSeconds(raw []byte) (time.Duration, error) {
	s, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || s < 0 || s > float64(1<<62)/1e9 {
		return 0, fmt.Errorf("want a number of seconds")
	}
	return time.Duration(s * 1e9), nil
}

// number writes a count with what is counted.
func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

const clockForm = "2006-01-02 15:04:05 UTC"

// text is a route's verdict in words.
func (v *view) text(rt *Route, window time.Duration) string {
	switch rt.Verdict {
	case Needed:
		var users, idle int
		last := stamp(0)
		for _, c := range v.clients {
			if c.state == StateUses {
				users++
				last = max(last, c.used)
				if c.holds {
					idle++
				}
			}
		}
		text := "legacy needed: " + number(users, "client", "clients")
		switch {
		case idle > 0:
			text += ", " + strconv.Itoa(idle) + " with a session open now"
		default:
			text += ", last used " + last.time().Format(clockForm)
		}
		return text + "; not before " + rt.Earliest.Format(clockForm)
	case Attempted:
		tried := 0
		for _, c := range v.clients {
			if c.state == StateTried {
				tried++
			}
		}
		return "legacy not used for " + short(window) + ", but " + number(tried, "client", "clients") + " tried: look at them before it is switched off"
	case NotSeen:
		return "legacy not seen for " + short(window) + ": may be switched off"
	}
	return "unknown: observed only " + rt.Observed.For.String() + " of " + short(window) + gapWords(rt.Observed)
}

// gapWords names the newest gaps.
func gapWords(o Observed) string {
	var b strings.Builder
	const most = 3
	for i := range o.Gaps {
		if i == most {
			break
		}
		g := o.Gaps[len(o.Gaps)-1-i]
		fmt.Fprintf(&b, ", gap of %s from %s (%s)", g.For, g.From.Format(clockForm), g.Why)
	}
	if n := len(o.Gaps) + o.MoreGaps - most; n > 0 {
		b.WriteString(" and " + number(n, "more", "more"))
	}
	return b.String()
}
