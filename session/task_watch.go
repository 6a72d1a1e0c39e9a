package session

import (
	"encoding/json"
	"strconv"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// taskWatch lets a modern server push the state of tasks somebody waits for:
// subscriptions/listen with taskIds (tasks extension, Task Status
// Notifications), many tasks a stream, a few streams a principal. Servers that
// do not acknowledge taskIds are polled as before.
type taskWatch struct {
	base
	As      Principal               `json:",omitempty"`
	Request watchRequest            `json:",omitzero"`
	Streams map[string]*watchStream `json:",omitempty"` // by exchange label
	Pending map[string]string       `json:",omitempty"` // server id -> handle
	No      int                     `json:",omitempty"`
	Tries   int                     `json:",omitempty"`
	Refused time.Time               `json:",omitzero"` // not asked again before
}

type watchStream struct {
	Tasks map[string]string // server id -> handle
	Acked bool              `json:",omitempty"`
}

// watchRequest is what the listen request carries, as the last task that
// joined would send it.
type watchRequest struct {
	Version    string
	ClientInfo []byte `json:",omitempty"`
	ClientCaps []byte `json:",omitempty"`
}

// watchJoin is what a task says when somebody begins to wait for it.
type watchJoin struct {
	As       Principal
	ServerID string
	Request  watchRequest
}

const (
	watchBatch    = 50 * time.Millisecond // tasks that join together share a stream
	watchPerList  = 200                   // tasks a stream
	watchStreams  = 10                    // streams a principal
	watchAgain    = 10 * time.Minute      // before a server that declined is asked again
	safetyPoll    = 30 * time.Second      // of a task that is pushed
	maxWatchTries = 5
)

func watchOp(x *Exec, as Principal) OpID {
	return OpID("lwatch:" + x.Handles().mark("principal", string(as)))
}

func (w *taskWatch) Step(x *Exec, ev Event) {
	switch ev.Kind {
	case EvOp:
		w.told(x, ev)
	case EvTimer:
		w.flush(x)
	case EvServer:
		w.server(x, ev)
	case EvServerEnd:
		w.ended(x, ev.Label)
	}
	if len(w.Streams) == 0 && len(w.Pending) == 0 && !x.Now.Before(w.Refused) {
		x.Do(Done{})
	}
}

func (w *taskWatch) told(x *Exec, ev Event) {
	var j watchJoin
	if json.Unmarshal(ev.Data, &j) != nil {
		return
	}
	if ev.Name == "leave" {
		w.leave(x, j.ServerID)
		return
	}
	if x.Now.Before(w.Refused) {
		return // the task polls
	}
	w.As, w.Request = j.As, j.Request
	if w.Pending == nil {
		w.Pending = map[string]string{}
	}
	w.Pending[j.ServerID] = ev.From.rest()[1:]
	if _, due := w.Wakes["batch"]; !due {
		x.Do(Wake{Name: "batch", At: x.Now.Add(watchBatch)})
	}
}

func (w *taskWatch) leave(x *Exec, id string) {
	delete(w.Pending, id)
	for label, s := range w.Streams {
		delete(s.Tasks, id)
		if len(s.Tasks) == 0 {
			x.Do(Shut{Label: label})
			delete(w.Streams, label)
		}
	}
}

// flush opens streams for the tasks that joined.
func (w *taskWatch) flush(x *Exec) {
	for len(w.Pending) > 0 && len(w.Streams) < watchStreams {
		s := &watchStream{Tasks: map[string]string{}}
		var ids []string
		for id, handle := range w.Pending {
			if len(ids) == watchPerList {
				break
			}
			s.Tasks[id] = handle
			ids = append(ids, id)
		}
		for _, id := range ids {
			delete(w.Pending, id)
		}
		w.No++
		label := "listen" + strconv.Itoa(w.No)
		req := translate.ModernRequest{Version: w.Request.Version, ClientInfo: w.Request.ClientInfo, ClientCaps: w.Request.ClientCaps}
		filter := jsonrpc.NewObject().Raw("taskIds", mustJSON(ids)).Bytes()
		msg := translate.NewModernRequest(jsonrpc.IntID(x.NextID("up/"+x.r.upstream)), "subscriptions/listen", req,
			translate.Param{Key: "notifications", Raw: filter})
		x.Do(Open{Label: label, Upstream: x.r.upstream, As: w.As, Out: modernOut(msg, req.Version, nil), Paced: true})
		if w.Streams == nil {
			w.Streams = map[string]*watchStream{}
		}
		w.Streams[label] = s
	}
	w.Pending = nil // beyond the cap tasks are polled
}

func (w *taskWatch) server(x *Exec, ev Event) {
	m, s := ev.Frame.Msg, w.Streams[ev.Label]
	if s == nil {
		return
	}
	switch {
	case m.Kind == jsonrpc.ErrorResponse:
		w.refused(x, ev.Label)
	case m.Kind == jsonrpc.Response:
		x.Do(Shut{Label: ev.Label})
		delete(w.Ups, ev.Label)
		w.ended(x, ev.Label)
	case m.Method == "notifications/subscriptions/acknowledged":
		w.acked(x, ev.Label, s, m)
	case m.Method == "notifications/tasks" && s.Acked:
		id, _ := m.At("params", "taskId").Str()
		if handle, ok := s.Tasks[id]; ok {
			x.Do(Tell{To: taskOp(handle), Name: "pushed", Data: m.Params().Raw()})
		}
	}
}

func (w *taskWatch) acked(x *Exec, label string, s *watchStream, m *jsonrpc.Message) {
	granted := map[string]bool{}
	for id := range m.At("params", "notifications", "taskIds").Elems() {
		text, _ := id.Str()
		granted[text] = true
	}
	for id, handle := range s.Tasks {
		if !granted[id] {
			delete(s.Tasks, id)
			continue
		}
		x.Do(Tell{To: taskOp(handle), Name: "watched"})
	}
	if len(s.Tasks) == 0 {
		w.refused(x, label)
		return
	}
	s.Acked, w.Tries = true, 0
}

// refused: the server does not push tasks; it is not asked again for a while.
func (w *taskWatch) refused(x *Exec, label string) {
	x.Do(Shut{Label: label})
	delete(w.Streams, label)
	w.Refused = x.Now.Add(watchAgain)
	x.Do(Wake{Name: "again", At: w.Refused})
}

// ended: a stream broke. Its tasks poll again and join once more.
func (w *taskWatch) ended(x *Exec, label string) {
	s := w.Streams[label]
	if s == nil {
		return
	}
	delete(w.Streams, label)
	w.Tries++
	for id, handle := range s.Tasks {
		x.Do(Tell{To: taskOp(handle), Name: "unwatched"})
		if w.Tries <= maxWatchTries {
			if w.Pending == nil {
				w.Pending = map[string]string{}
			}
			w.Pending[id] = handle
		}
	}
	x.Do(Wake{Name: "batch", At: x.Now.Add(backoff(x.Policy.RetryAfter, w.Tries))})
}

// join and leave are the task's side.
func (t *legacyTask) join(x *Exec) {
	if t.Joined || t.ServerID == "" || t.Final {
		return
	}
	t.Joined = true
	sess := new(legacySession)
	if !x.r.load(sessionOp(t.Session), sess) {
		return
	}
	req := sess.modernRequest(true)
	x.Do(Tell{To: watchOp(x, t.As), Name: "join", Data: mustJSON(watchJoin{t.As, t.ServerID, watchRequest{req.Version, req.ClientInfo, req.ClientCaps}})})
	t.JoinedAs = t.As
}

func (t *legacyTask) leave(x *Exec) {
	if !t.Joined || len(t.Waiters) > 0 && !t.Final {
		return
	}
	t.Joined, t.Watched = false, false
	x.Do(Tell{To: watchOp(x, t.JoinedAs), Name: "leave", Data: mustJSON(watchJoin{ServerID: t.ServerID})})
}

// watchNews: what the watch says to the task.
func (t *legacyTask) watchNews(x *Exec, ev Event) {
	switch ev.Name {
	case "watched":
		t.Watched = true
		x.Do(Unwake{Name: "poll"})
		delete(t.Wakes, "poll")
		if !t.Final && len(t.Waiters) > 0 {
			// What changed before the acknowledgement was pushed to nobody, and a
			// look that is under way may be from before it.
			t.Overtaken = t.up("poll")
			t.poll(x)
		}
	case "unwatched":
		t.Watched = false
		x.Do(Unwake{Name: "poll"})
		delete(t.Wakes, "poll")
		t.watch(x)
	case "pushed":
		if t.up("poll") {
			t.Overtaken = true
		}
		if !t.Final {
			t.absorb(x, translate.ParseResult(ev.Data))
		}
	}
}
