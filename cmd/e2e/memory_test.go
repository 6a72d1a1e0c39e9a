package e2e

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"taskbridge/session"
	"taskbridge/translate"
)

// Memory of what lives: the figures of docs/performance.md. With
// TASKBRIDGE_E2E=full they are taken of as many as the aims name:
//
//	TASKBRIDGE_E2E=full go test ./cmd/e2e -run TestMemory -v -count 1

// heapNow is what lives.
func heapNow() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// costOf is the memory of n things that make keeps alive, a thing.
func costOf(b *scaleBridge, n int, make func(i int)) int64 {
	for i := range n / 10 { // tables and pools have their size
		make(i)
	}
	if e2eMode() != "full" {
		b.r.Forget()
	}
	before := heapNow()
	for i := range n {
		make(n/10 + i)
	}
	if e2eMode() != "full" {
		b.r.Forget() // what is kept decoded has a bound of its own, which few things fill as well
	}
	return (heapNow() - before) / int64(n)
}

// memoryServer answers as a server that keeps nothing would.
func memoryServer() *scaleServer {
	var next atomic.Int64
	return &scaleServer{serve: func(x *scaleExchange) {
		id := func() string { return fmt.Sprintf("01981c4c-7a5e-7000-8000-%012d", next.Add(1)) }
		task := func(ttl string) string {
			return fmt.Sprintf(`"taskId":%q,"status":"working","statusMessage":"The operation is now in progress.","createdAt":"2026-11-30T10:00:00Z","lastUpdatedAt":"2026-11-30T10:00:00Z",%q:3600000`, id(), ttl)
		}
		if x.msg == nil {
			if x.out.Verb == "GET" {
				x.status = 405
			}
			return
		}
		switch x.msg.Method {
		case "server/discover":
			x.reply(`{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
		case "initialize":
			x.header.Set("Mcp-Session-Id", id())
			x.reply(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}`)
		case "tools/list":
			x.reply(`{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`)
		case "tools/call":
			if x.out.Version == translate.LatestModern {
				x.reply(`{"resultType":"task",` + task("ttlMs") + `,"pollIntervalMs":5000}`)
			} else {
				x.reply(`{"task":{` + task("ttl") + `,"pollInterval":5000}}`)
			}
		case "tasks/get":
			x.refuse("busy")
		default:
			if x.msg.ID.IsZero() {
				x.status = 202
				return
			}
			x.reply(`{}`)
		}
	}}
}

func modernScaleClient(b *scaleBridge, who string) *scaleClient {
	return &scaleClient{b: b, who: who, version: translate.LatestModern}
}

// TestMemory_LiveTasks: what a task costs while it lives. The aim is 150 MB for
// 100,000, of 50 callers; the bound leaves a little for it.
func TestMemory_LiveTasks(t *testing.T) {
	if long(t); raceEnabled {
		t.Skip("what the race detector keeps would be measured")
	}
	const most = 1550
	for _, tt := range []struct {
		name           string
		client, server translate.Era
		seal           bool
	}{
		{"legacy client, modern server", translate.Legacy, translate.Modern, false},
		{"modern client, legacy server", translate.Modern, translate.Legacy, false},
		{"legacy client, legacy server, sealed", translate.Legacy, translate.Legacy, true},
		{"modern client, modern server, sealed", translate.Modern, translate.Modern, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				many := session.Limit{Each: 1 << 30, All: 1 << 30}
				b := newScaleBridge(t, memoryServer(), tt.server, session.Policy{Tasks: many, Sessions: many, Upstreams: many, SealSameEra: tt.seal})
				defer b.close()
				var clients []*scaleClient
				for i := range 50 {
					who := "p" + strconv.Itoa(i)
					if tt.client == translate.Legacy {
						clients = append(clients, legacyScaleClient(b, who))
					} else {
						clients = append(clients, modernScaleClient(b, who))
					}
				}
				n := scaleSize(100_000)
				each := costOf(b, n, func(i int) {
					params := map[string]any{"name": "t", "arguments": map[string]any{}}
					if tt.client == translate.Legacy {
						params["task"] = map[string]any{"ttl": 3600000}
					}
					if r := clients[i%len(clients)].call("tools/call", params); r.Error != nil {
						t.Fatalf("%+v", *r.Error)
					}
				})
				t.Logf("%d tasks: %d bytes each", n, each)
				if each > most {
					t.Errorf("%d bytes a task, want at most %d", each, most)
				}
				runtime.KeepAlive(clients)
			})
		})
	}
}

// TestMemory_IdleSessions: what a legacy session costs that nobody uses.
func TestMemory_IdleSessions(t *testing.T) {
	if raceEnabled {
		t.Skip("what the race detector keeps would be measured")
	}
	for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
		t.Run(era.String()+" server", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				many := session.Limit{Each: 1 << 30, All: 1 << 30}
				b := newScaleBridge(t, memoryServer(), era, session.Policy{Sessions: many, Upstreams: many})
				defer b.close()
				n := scaleSize(10_000)
				each := costOf(b, n, func(i int) {
					c := legacyScaleClient(b, "p"+strconv.Itoa(i))
					req := c.request(context.Background(), "notifications/initialized", map[string]any{})
					w := httptest.NewRecorder()
					b.srv.ServeHTTP(w, req)
				})
				t.Logf("%d sessions: %d bytes each", n, each)
				if each > 10_000 {
					t.Errorf("%d bytes a session, want at most 10,000", each)
				}
			})
		})
	}
}
