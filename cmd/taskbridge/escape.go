package main

import "taskbridge/translate/report"

const (
	maxShown      = 200
	maxShownError = 2000
)

// showText makes text of a peer fit for a terminal: what moves the cursor,
// changes colours or turns the direction of writing is shown as an escape, and
// it is cut to about max bytes.
func showText(s string, max int) string { return report.Text(s, max) }

// asciiControls escapes what showText would in JSON text, where it can only
// stand inside strings.
func asciiControls(raw []byte) []byte { return report.EscapeJSON(raw) }
