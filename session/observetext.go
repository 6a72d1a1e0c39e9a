package session

import (
	"encoding/json"
	"regexp"
	"strings"
)

// sealed is what Seal makes, also where a text was cut within it.
var sealed = regexp.MustCompile(sealPrefix + `[A-Za-z0-9_-]*`)

// leftOut stands where a text named what it takes to get at somebody's task or
// session.
const leftOut = "…"

// leastSecret: a shorter id can be guessed, and may stand in a text for anything.
const leastSecret = 8

// shownError is a peer's error text for observers. Peers name in it what they were
// asked for, and whoever has the id of a task or of a session may need no more:
// those in ids and whatever is sealed are left out.
func shownError(text string, ids ...string) string {
	if text == "" {
		return ""
	}
	for _, id := range ids {
		if len(id) >= leastSecret {
			text = strings.ReplaceAll(text, id, leftOut)
		}
	}
	return Shown(sealed.ReplaceAllString(text, leftOut))
}

// taskIDs are the names of the task a request is about: its client's, and the
// server's where it can be had from that.
func (q *Request) taskIDs(h *Handles) (ids []string) {
	id := plainID(q.Task)
	if id == "" {
		return nil
	}
	p := q.Principal
	if q.Open {
		p = ""
	}
	if ref, ok := h.OpenTask(id, p); ok {
		ids = append(ids, ref.ID)
	}
	return append(ids, id)
}

// plainID is an id without its JSON; empty: it is no text.
func plainID(raw string) (id string) {
	if json.Unmarshal([]byte(raw), &id) != nil {
		return ""
	}
	return id
}
