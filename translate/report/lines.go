package report

import (
	"strconv"
	"strings"
	"time"
)

// lines is Text that keeps line ends.
func lines(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		body, ended := strings.CutSuffix(line, "\n")
		b.WriteString(Text(body, 0))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Seconds writes a duration as reports have it: seconds, with milliseconds.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
