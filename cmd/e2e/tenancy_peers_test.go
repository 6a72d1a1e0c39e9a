package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session"
	"taskbridge/translate"
)

// tenantPeer is a client of either era.
type tenantPeer interface {
	call(method string, params any) (string, error)
	run(label string) (peers.TaskRun, error)
}

type legacyTenant struct {
	*peers.LegacyClient
	t *testing.T
}

func (c legacyTenant) call(method string, params any) (string, error) {
	r, err := c.Call(c.t.Context(), method, params)
	return fmt.Sprintf("%s%s", r.Result, r.Error), err
}

func (c legacyTenant) run(label string) (peers.TaskRun, error) {
	return c.RunTask(c.t.Context(), "slow_compute", map[string]any{"seconds": 0.05, "label": label}, nil)
}

type modernTenant struct {
	*peers.ModernClient
	t *testing.T
}

func (c modernTenant) call(method string, params any) (string, error) {
	r, err := c.Call(c.t.Context(), method, params)
	return fmt.Sprintf("%s%s", r.Result, r.Error), err
}

func (c modernTenant) run(label string) (peers.TaskRun, error) {
	return c.RunTask(c.t.Context(), "slow_compute", map[string]any{"seconds": 0.05, "label": label}, nil)
}

// TestTenancy_Peers: the same over sockets with the built-in peers: fifty
// callers at once, each runs a task under its mark and reaches for its
// neighbour's.
func TestTenancy_Peers(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			var server http.Handler = peers.NewModernServer(peers.ServerOptions{PollInterval: 20 * time.Millisecond})
			if pair.server == translate.Legacy {
				server = peers.NewLegacyServer(peers.ServerOptions{PollInterval: 20 * time.Millisecond})
			}
			hs := httptest.NewServer(server)
			t.Cleanup(func() { hs.CloseClientConnections(); hs.Close() })
			b := newBridge(t, hs.URL+"/mcp", bridgeOptions{Policy: session.Policy{SealSameEra: true}, Header: http.Header{"Authorization": {"Bearer shared"}}})
			clients := make([]tenantPeer, tenants)
			for i := range clients {
				h := http.Header{"Authorization": {fmt.Sprint("Bearer t", i)}}
				if pair.client == translate.Modern {
					c := &peers.ModernClient{URL: b.URL, Header: h, Tasks: true}
					t.Cleanup(func() { c.Close() })
					clients[i] = modernTenant{c, t}
					continue
				}
				c := &peers.LegacyClient{URL: b.URL, Header: h}
				t.Cleanup(func() { c.Close() })
				if _, err := c.Initialize(t.Context()); err != nil {
					t.Fatal(err)
				}
				clients[i] = legacyTenant{c, t}
			}
			ids := make([]string, tenants)
			var wg sync.WaitGroup
			for i, c := range clients {
				wg.Go(func() {
					r, err := c.run(mark(i))
					if err != nil || !strings.Contains(string(r.Result), mark(i)) || r.TaskID == "" {
						t.Errorf("caller %d: %v, task %q, result %s", i, err, r.TaskID, r.Result)
					}
					ids[i] = r.TaskID
				})
			}
			wg.Wait()
			methods := []string{"tasks/get", "tasks/cancel", "tasks/result", "tasks/list"}
			if pair.client == translate.Modern {
				methods = methods[:2] // it has no others
			}
			for i, c := range clients {
				for _, method := range methods {
					params := map[string]any{"taskId": ids[(i+1)%tenants]}
					if method == "tasks/list" {
						params = map[string]any{}
					}
					got, err := c.call(method, params)
					for _, m := range anyMark.FindAllString(got, -1) {
						if m != mark(i) {
							t.Errorf("%s: caller %d got what belongs to %s: %s", method, i, m, got)
						}
					}
					if id, _ := json.Marshal(ids[(i+1)%tenants]); err == nil && method != "tasks/list" && strings.Contains(got, string(id)) {
						t.Errorf("%s: caller %d was told of another's task: %s", method, i, got)
					}
				}
			}
		})
	}
}
