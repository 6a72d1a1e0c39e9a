package e2e

import (
	"net/http/httptest"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// TestModernCells_Trips counts what a tasks/get costs at a legacy server: at
// most two requests, none from the snapshot, none within the poll interval.
func TestModernCells_Trips(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			server := peers.NewLegacyServer(peers.ServerOptions{PollInterval: 300 * time.Millisecond})
			log := &scripted{}
			hs := httptest.NewServer(counted{server, log})
			t.Cleanup(func() { server.Close(); hs.CloseClientConnections(); hs.Close() })
			p := &cellPlay{ctx: testContext(t), t: t, server: server}
			p.url = newBridge(t, hs.URL+"/mcp", form.o).URL
			// One that cannot be asked: nothing is held open for questions.
			p.c = &peers.ModernClient{URL: p.url, Tasks: true, Capabilities: map[string]any{}}
			t.Cleanup(func() { p.c.Close() })

			for range 2 { // every runner looks at the server's era once
				p.call("greet", map[string]any{"name": "Ada"})
			}
			id := p.create("slow_compute", map[string]any{"seconds": 0.2})
			log.Forget()
			if v := p.get(id); v.Status != "working" || len(log.Requests("")) != 0 {
				t.Errorf("%s within the poll interval, %d requests", v.Status, len(log.Requests("")))
			}
			time.Sleep(600 * time.Millisecond)
			log.Forget()
			if v := p.get(id); v.Status != "completed" {
				t.Fatalf("%+v", v)
			}
			gets, results := len(log.Requests("tasks/get")), len(log.Requests("tasks/result"))
			if gets != 1 || results != 1 || len(log.Requests("")) != 2 {
				t.Errorf("first fetch: %d tasks/get, %d tasks/result, %d in all", gets, results, len(log.Requests("")))
			}
			log.Forget()
			for range 3 {
				if v := p.get(id); v.Status != "completed" || len(v.Result.Content) != 1 {
					t.Fatalf("%+v", v)
				}
			}
			want := 0
			if form.o.Runners > 1 || form.o.Forget {
				want = 6 // snapshots are of one process
			}
			if n := len(log.Requests("")); n > want {
				t.Errorf("three more took %d requests, want at most %d", n, want)
			}
		})
	}
}
