package session

import (
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// watch polls while somebody waits: one watcher however many do.
func (t *legacyTask) watch(x *Exec) {
	if t.Final || t.ServerID == "" || len(t.Waiters) == 0 {
		t.leave(x)
		return
	}
	t.join(x)
	if t.up("poll") {
		return
	}
	if t.Watched {
		x.Do(Wake{Name: "poll", At: t.safetyLook(x)})
		return
	}
	if _, waiting := t.Wakes["poll"]; waiting {
		return
	}
	if !x.Now.Before(t.Next) {
		t.poll(x)
		return
	}
	x.Do(Wake{Name: "poll", At: t.Next})
}

// safetyLook is when a pushed task is looked at all the same: no notification
// tells that one has expired, so also when its ttl is over.
func (t *legacyTask) safetyLook(x *Exec) time.Time {
	interval := time.Duration(t.Interval) * time.Millisecond
	at := x.Now.Add(max(safetyPoll, interval))
	if forget, ok := t.Wakes["forget"]; ok {
		if over := forget.Add(interval - x.Policy.TaskGrace); over.After(x.Now) && over.Before(at) {
			return over
		}
	}
	return at
}

func (t *legacyTask) poll(x *Exec) {
	if !t.up("poll") {
		t.open(x, "poll", "tasks/get")
	}
}

// own is poll for a look nobody asked for just now.
func (t *legacyTask) own(x *Exec) {
	if !t.up("poll") {
		t.paced = true
		t.open(x, "poll", "tasks/get")
	}
}

func (t *legacyTask) open(x *Exec, label, method string, params ...translate.Param) {
	req := translate.ModernRequest{Version: translate.LatestModern, ClientCaps: translate.ClientCapsToModern(nil, true)}
	sess := new(legacySession)
	if x.r.load(sessionOp(t.Session), sess) && sess.ServerVersion != "" {
		req = sess.modernRequest(true)
		req.LogLevel = ""
	}
	params = append([]translate.Param{{Key: "taskId", Raw: jsonrpc.Quote(t.ServerID)}}, params...)
	msg := translate.NewModernRequest(jsonrpc.IntID(x.NextID("up/"+x.r.upstream)), method, req, params...)
	x.Do(Open{Label: label, Upstream: x.r.upstream, As: t.As, Out: modernOut(msg, req.Version, nil), Paced: t.paced})
	t.paced = false
}

func (t *legacyTask) openCancel(x *Exec) {
	if t.ServerID != "" && !t.up("cancel") {
		t.open(x, "cancel", "tasks/cancel")
	}
}
