package e2e

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
	"taskbridge/translate/jsonrpc"
)

// scaleModern is a modern server whose tasks work until they are told to end.
type scaleModern struct {
	mu      sync.Mutex
	next    int
	owner   map[string]session.Principal
	done    map[string]bool
	all     bool // every task is done
	poll    int  // pollIntervalMs
	push    bool // grant taskIds
	listens map[string]chan string
	foreign int
}

func newScaleModern() (*scaleModern, *scaleServer) {
	m := &scaleModern{owner: map[string]session.Principal{}, done: map[string]bool{}, listens: map[string]chan string{}, poll: 1000}
	return m, &scaleServer{serve: m.serve}
}

// state is what tasks/get or a push says; it needs m.mu.
func (m *scaleModern) state(id, head string) string {
	status, payload := "working", ""
	if m.all || m.done[id] {
		status, payload = "completed", `,"result":{"content":[{"type":"text","text":"`+id+`"}]}`
	}
	return fmt.Sprintf(`{%s"taskId":%q,"status":%q,"createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z","ttlMs":null,"pollIntervalMs":%d%s}`, head, id, status, m.poll, payload)
}

func (m *scaleModern) serve(x *scaleExchange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, _ := x.msg.At("params", "taskId").Str()
	if id != "" && m.owner[id] != x.as {
		m.foreign++
		x.refuse("unknown task")
		return
	}
	switch x.msg.Method {
	case "server/discover":
		x.reply(`{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	case "tools/call":
		m.next++
		id := "t" + strconv.Itoa(m.next)
		m.owner[id] = x.as
		x.reply(`{"resultType":"task",` + m.state(id, "")[1:])
	case "tasks/get":
		x.reply(m.state(id, `"resultType":"complete",`))
	case "subscriptions/listen":
		if !m.push {
			x.status = 404
			x.frames = []string{`{"jsonrpc":"2.0","id":` + string(x.msg.ID.Raw()) + `,"error":{"code":-32601,"message":"method not found"}}`}
			return
		}
		x.more = make(chan string, 1024)
		ids := x.msg.At("params", "notifications", "taskIds")
		for v := range ids.Elems() {
			s, _ := v.Str()
			m.listens[s] = x.more
		}
		x.more <- `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` +
			string(x.msg.ID.Raw()) + `},"notifications":{"taskIds":` + string(ids.Raw()) + `}}}`
	default:
		x.refuse("unexpected " + x.msg.Method)
	}
}

// TestScale_LegacyClients: 10,000 live tasks of 50 principals behind a cache
// of 64 states. Each is fetched to its result; each list names exactly the
// caller's own.
func TestScale_LegacyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newScaleModern()
		b := newScaleBridge(t, s, translate.Modern, session.Policy{PollRate: 1e9})
		defer b.close()
		const principals = 50
		each := scaleSize(10000) / principals
		clients := make([]*scaleClient, principals)
		handles := make([][]string, principals)
		texts := map[string]string{}
		for i := range clients {
			clients[i] = legacyScaleClient(b, "p"+strconv.Itoa(i))
			for range each {
				var r struct {
					Task struct{ TaskID, Status string }
				}
				clients[i].must("tools/call", map[string]any{"name": "t", "arguments": map[string]any{}, "task": map[string]any{}}, &r)
				handles[i] = append(handles[i], r.Task.TaskID)
				texts[r.Task.TaskID] = "t" + strconv.Itoa(m.next)
			}
		}
		for i, c := range clients {
			var listed []string
			cursor := ""
			for page := 0; page == 0 || cursor != ""; page++ {
				params := map[string]any{}
				if cursor != "" {
					params["cursor"] = cursor
				}
				var r struct {
					Tasks      []struct{ TaskID string }
					NextCursor string
				}
				c.must("tasks/list", params, &r)
				for _, task := range r.Tasks {
					listed = append(listed, task.TaskID)
				}
				cursor = r.NextCursor
			}
			slices.Sort(listed)
			want := slices.Sorted(slices.Values(handles[i]))
			if !slices.Equal(listed, want) {
				t.Fatalf("principal %d: %d tasks listed, want exactly its own %d", i, len(listed), len(want))
			}
		}
		if r := clients[0].call("tasks/get", map[string]any{"taskId": handles[1][0]}); r.Error == nil || r.Error.Code != -32602 {
			t.Errorf("a foreign task: %+v", r)
		}
		m.mu.Lock()
		m.all = true
		m.mu.Unlock()
		time.Sleep(2 * time.Second) // past the poll interval
		for i, c := range clients {
			for _, h := range handles[i] {
				for range 2 { // the state has left the cache by the second time, or is in it
					var r struct {
						Content []struct{ Text string }
					}
					c.must("tasks/result", map[string]any{"taskId": h}, &r)
					if len(r.Content) != 1 || r.Content[0].Text != texts[h] {
						t.Fatalf("task %s of principal %d gave %+v", texts[h], i, r)
					}
				}
			}
		}
		for i, c := range clients { // all of it again, oldest first: nothing is in the cache
			var r struct {
				Content []struct{ Text string }
			}
			c.must("tasks/result", map[string]any{"taskId": handles[i][0]}, &r)
			if len(r.Content) != 1 || r.Content[0].Text != texts[handles[i][0]] {
				t.Fatalf("evicted task gave %+v", r)
			}
		}
		if m.foreign > 0 {
			t.Errorf("%d requests about foreign tasks reached the server", m.foreign)
		}
		t.Logf("%d tasks, %d principals: %d tasks/get upstream", each*principals, principals, s.count("tasks/get").Load())
	})
}

// scaleLegacy is a legacy server that knows a task in its session only.
type scaleLegacy struct {
	mu       sync.Mutex
	next     int
	sessions map[string]session.Principal
	owner    map[string]string // task -> session
	all      bool
}

func (l *scaleLegacy) serve(x *scaleExchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.out.Verb != http.MethodPost {
		x.status = 405
		return
	}
	if x.msg.Kind != jsonrpc.Request {
		x.status = 202
		return
	}
	if x.msg.Method == "initialize" {
		sid := "s" + strconv.Itoa(len(l.sessions))
		l.sessions[sid] = x.as
		x.header.Set("Mcp-Session-Id", sid)
		x.reply(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}`)
		return
	}
	if l.sessions[x.out.Session] != x.as {
		x.status = 404
		return
	}
	id, _ := x.msg.At("params", "taskId").Str()
	if id != "" && l.owner[id] != x.out.Session {
		x.refuse("unknown task")
		return
	}
	status := "working"
	if l.all {
		status = "completed"
	}
	task := func(id string) string {
		return fmt.Sprintf(`{"taskId":%q,"status":%q,"createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z","ttl":null,"pollInterval":1000}`, id, status)
	}
	switch x.msg.Method {
	case "tools/list":
		x.reply(`{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`)
	case "tools/call":
		l.next++
		id := "t" + strconv.Itoa(l.next)
		l.owner[id] = x.out.Session
		x.reply(`{"task":` + task(id) + `}`)
	case "tasks/get":
		x.reply(task(id))
	case "tasks/result":
		x.reply(`{"content":[{"type":"text","text":"` + id + `"}]}`)
	case "tasks/list":
		var all []string
		for id, sid := range l.owner {
			if l.sessions[sid] == x.as {
				all = append(all, task(id))
			}
		}
		x.reply(`{"tasks":[` + strings.Join(all, ",") + `]}`)
	default:
		x.refuse("unexpected " + x.msg.Method)
	}
}

// TestScale_ModernClients: the same toward a legacy server that binds tasks to
// sessions. The modern era has no list; a foreign handle is unknown.
func TestScale_ModernClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scaleLegacy{sessions: map[string]session.Principal{}, owner: map[string]string{}}
		s := &scaleServer{serve: l.serve}
		b := newScaleBridge(t, s, translate.Legacy, session.Policy{PollRate: 1e9})
		defer b.close()
		const principals = 50
		each := scaleSize(10000) / principals
		clients := make([]*scaleClient, principals)
		handles := make([][]string, principals)
		texts := map[string]string{}
		for i := range clients {
			clients[i] = &scaleClient{b: b, who: "p" + strconv.Itoa(i), version: translate.LatestModern}
			for range each {
				var r struct{ TaskID, ResultType string }
				clients[i].must("tools/call", map[string]any{"name": "t", "arguments": map[string]any{}}, &r)
				if r.ResultType != "task" {
					t.Fatalf("no task: %+v", r)
				}
				handles[i] = append(handles[i], r.TaskID)
				texts[r.TaskID] = "t" + strconv.Itoa(l.next)
			}
		}
		if len(texts) != each*principals {
			t.Fatalf("%d different handles for %d tasks", len(texts), each*principals)
		}
		l.mu.Lock()
		l.all = true
		l.mu.Unlock()
		time.Sleep(2 * time.Second)
		for i, c := range clients {
			for _, h := range handles[i] {
				for range 2 {
					var r struct {
						Status string
						Result struct{ Content []struct{ Text string } }
					}
					c.must("tasks/get", map[string]any{"taskId": h}, &r)
					if r.Status != "completed" || len(r.Result.Content) != 1 || r.Result.Content[0].Text != texts[h] {
						t.Fatalf("task %s of principal %d gave %+v", texts[h], i, r)
					}
				}
			}
			if r := c.call("tasks/get", map[string]any{"taskId": handles[(i+1)%principals][0]}); r.Error == nil || r.Error.Code != -32602 {
				t.Errorf("a foreign task: %+v", r)
			}
			if r := c.call("tasks/list", map[string]any{}); r.Error == nil || r.Error.Code != -32601 {
				t.Errorf("tasks/list: %+v", r)
			}
		}
		t.Logf("%d tasks, %d principals, %d sessions: %d tasks/get and %d tasks/result upstream", each*principals, principals, len(l.sessions),
			s.count("tasks/get").Load(), s.count("tasks/result").Load())
	})
}

// TestScale_ListBetweenLegacyPeers: both legacy, one credential for all, so
// the server lists everybody's tasks; each caller sees its own.
func TestScale_ListBetweenLegacyPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scaleLegacy{sessions: map[string]session.Principal{}, owner: map[string]string{}}
		// The server cannot tell the callers apart.
		s := &scaleServer{serve: func(x *scaleExchange) { x.as = "all"; l.serve(x) }}
		b := newScaleBridge(t, s, translate.Legacy, session.Policy{SealSameEra: true})
		defer b.close()
		const principals = 20
		each := max(scaleSize(2000)/principals, 2)
		clients := make([]*scaleClient, principals)
		handles := make([][]string, principals)
		for i := range clients {
			clients[i] = legacyScaleClient(b, "p"+strconv.Itoa(i))
			for range each {
				var r struct{ Task struct{ TaskID string } }
				clients[i].must("tools/call", map[string]any{"name": "t", "arguments": map[string]any{}, "task": map[string]any{}}, &r)
				handles[i] = append(handles[i], r.Task.TaskID)
			}
		}
		for i, c := range clients {
			var r struct{ Tasks []struct{ TaskID string } }
			c.must("tasks/list", map[string]any{}, &r)
			var listed []string
			for _, task := range r.Tasks {
				listed = append(listed, task.TaskID)
			}
			slices.Sort(listed)
			if !slices.Equal(listed, slices.Sorted(slices.Values(handles[i]))) {
				t.Fatalf("principal %d: %d tasks listed, want exactly its own %d", i, len(listed), each)
			}
		}
	})
}

// streamWriter is a client's side of a reply that stays open: what comes is
// kept in the shared buffer only while it matters.
type streamWriter struct {
	mu     sync.Mutex
	header http.Header
	status int
	body   strings.Builder
}

func (w *streamWriter) Header() http.Header { return w.header }
func (w *streamWriter) WriteHeader(n int)   { w.status = n }
func (w *streamWriter) Flush()              {}
func (w *streamWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(p)
}
func (w *streamWriter) SetWriteDeadline(time.Time) error { return nil }
func (w *streamWriter) SetReadDeadline(time.Time) error  { return nil }

// memoryInUse is what lives on the heap and what stacks take, after a collection.
func memoryInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// block starts tasks/result and returns where the answer comes.
func (c *scaleClient) block(ctx context.Context, wg *sync.WaitGroup, handle string) *streamWriter {
	w := &streamWriter{header: http.Header{}}
	wg.Go(func() { c.b.srv.ServeHTTP(w, c.request(ctx, "tasks/result", map[string]any{"taskId": handle})) })
	return w
}

// TestScale_BlockedClients: 1,000 clients wait for one task. One watcher looks
// at the server, at its interval; a waiting client takes at most 40 KB.
func TestScale_BlockedClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newScaleModern()
		b := newScaleBridge(t, s, translate.Modern, session.Policy{Streams: session.Limit{Each: 5000, All: 5000}})
		defer b.close()
		c := legacyScaleClient(b, "p")
		var r struct{ Task struct{ TaskID string } }
		c.must("tools/call", map[string]any{"name": "t", "arguments": map[string]any{}, "task": map[string]any{}}, &r)
		n := scaleSize(1000)
		var wg sync.WaitGroup
		before := memoryInUse()
		writers := make([]*streamWriter, n)
		for i := range writers {
			writers[i] = c.block(t.Context(), &wg, r.Task.TaskID)
		}
		synctest.Wait()
		time.Sleep(3 * time.Second) // all of them have become event streams
		synctest.Wait()
		per := (memoryInUse() - before) / int64(n)
		t.Logf("%d clients blocked on one task: %d bytes each", n, per)
		if per > 40<<10 && !raceEnabled {
			t.Errorf("%d bytes a blocked client, want at most %d", per, 40<<10)
		}
		polls := s.count("tasks/get").Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := s.count("tasks/get").Load() - polls; got > 61 || got < 50 {
			t.Errorf("%d looks a minute at an interval of a second, want one watcher's", got)
		}
		m.mu.Lock()
		m.all = true
		m.mu.Unlock()
		time.Sleep(2 * time.Second)
		wg.Wait()
		for _, w := range writers {
			if !strings.Contains(string(last(w.body.String())), `"text":"t1"`) {
				t.Fatalf("a blocked client got %q", w.body.String())
			}
		}
	})
}

// TestScale_WatchedTasks: 1,000 tasks that a server pushes take at most 10
// listen streams and no looks beyond the safety poll.
func TestScale_WatchedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newScaleModern()
		m.push = true
		b := newScaleBridge(t, s, translate.Modern, session.Policy{Streams: session.Limit{Each: 5000, All: 5000}})
		defer b.close()
		c := legacyScaleClient(b, "p")
		n := scaleSize(1000)
		handles := make([]string, n)
		for i := range handles {
			var r struct{ Task struct{ TaskID string } }
			c.must("tools/call", map[string]any{"name": "t", "arguments": map[string]any{}, "task": map[string]any{}}, &r)
			handles[i] = r.Task.TaskID
		}
		var wg sync.WaitGroup
		writers := make([]*streamWriter, n)
		for i, h := range handles {
			writers[i] = c.block(t.Context(), &wg, h)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if most := s.most.Load(); most > 10 || most == 0 {
			t.Errorf("%d listen streams at once, want 1 to 10", most)
		}
		m.mu.Lock()
		if len(m.listens) != n {
			t.Errorf("%d of %d tasks are watched", len(m.listens), n)
		}
		m.mu.Unlock()
		before := s.count("tasks/get").Load()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		looks := s.count("tasks/get").Load() - before
		if limit := int64(n) * 11; looks > limit {
			t.Errorf("%d looks in 5 minutes, want at most %d: one each 30 s", looks, limit)
		}
		t.Logf("%d tasks watched on %d listen streams; %d looks in 5 minutes", n, s.most.Load(), looks)
		before = s.count("tasks/get").Load()
		m.mu.Lock()
		for id, more := range m.listens {
			m.done[id] = true
			more <- `{"jsonrpc":"2.0","method":"notifications/tasks","params":` + m.state(id, `"_meta":{"io.modelcontextprotocol/subscriptionId":1},`) + `}`
		}
		m.mu.Unlock()
		wg.Wait()
		for i, w := range writers {
			if !strings.Contains(string(last(w.body.String())), `"text":"t`+strconv.Itoa(i+1)+`"`) {
				t.Fatalf("client %d got %q", i, w.body.String())
			}
		}
		if n := s.count("tasks/get").Load() - before; n > 0 {
			t.Errorf("%d looks although the server pushed the ends", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if open := s.open.Load(); open != 0 {
			t.Errorf("%d listen streams stay open with nothing to watch", open)
		}
	})
}
