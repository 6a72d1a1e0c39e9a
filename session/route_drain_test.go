package session_test

import (
	"testing"
	"testing/synctest"

	"taskbridge/session"
	"taskbridge/translate"
)

// What had an upstream chosen for it when the word came to drain it is either
// seen by whoever asks what is left there, or goes elsewhere: an upstream that is
// said to be empty gets nothing any more.
func TestRouteDrain_WhileChoosing(t *testing.T) {
	for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
		for _, work := range []struct {
			name   string
			client func(rig *routeRig) *routeClient
			method string
			params string
		}{
			{"call", func(rig *routeRig) *routeClient { return rig.modern("ann") }, "tools/call", `{"name":"t","arguments":{"do":"who"}}`},
			{"task", func(rig *routeRig) *routeClient { return rig.modern("ann") }, "tools/call", `{"name":"t","arguments":{"do":"task"}}`},
			{"listen", func(rig *routeRig) *routeClient { return rig.modern("ann") }, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`},
			{"session", func(rig *routeRig) *routeClient {
				return &routeClient{rig: rig, era: translate.Legacy, who: session.HashPrincipal("token", "ann"), name: "cli", version: "1.0.0"}
			}, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"cli","version":"1"}}`},
		} {
			t.Run(era.String()+" server, "+work.name, func(t *testing.T) {
				a, b := newRouteServer("a", era), newRouteServer("b", era)
				routed(t, func(t *testing.T, rig *routeRig) {
					rig.update(rig.up(a, 1), rig.up(b, 0)) // a is the choice
					c := work.client(rig)
					empty, chosen := false, 0
					rig.route.OnChoice(func() {
						if chosen++; chosen > 1 {
							return
						}
						rig.update(rig.up(a, 1), rig.up(b, 1))
						if err := rig.route.Drain("a"); err != nil {
							t.Error(err)
						}
						busy, _ := rig.route.Busy("a")
						empty = rig.route.Status()[0].Empty
						if empty == busy {
							t.Errorf("busy %v, empty %v", busy, empty)
						}
					})
					s := c.start(work.method, work.params)
					defer s.Gone()
					synctest.Wait()
					a.with(func() {
						if empty && len(a.saw) > 0 {
							t.Errorf("a was said to be empty, and got %s then", a.saw[0].Msg)
						}
					})
					b.with(func() {
						if empty && len(b.saw) == 0 {
							t.Error("b got nothing either")
						}
					})
				}, a, b)
			})
		}
	}
}
