package compare

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

var errSlower = errors.New("want a duration, a factor or both, such as 100ms,2x")

// ParseSlower reads "100ms,2x", or one of the two alone; empty checks nothing.
func ParseSlower(s string) (out Slower, err error) {
	if s == "" {
		return Slower{}, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if digits, ok := strings.CutSuffix(part, "x"); ok {
			n, err := strconv.ParseFloat(digits, 64)
			if err != nil || !(n >= 1 && n <= 1e6) || out.Factor != 0 {
				return Slower{}, errSlower
			}
			out.Factor = n
			continue
		}
		d, err := time.ParseDuration(part)
		if err != nil || d <= 0 || out.By != 0 {
			return Slower{}, errSlower
		}
		out.By = d
	}
	return out, nil
}
