package session_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"taskbridge/session"
	"taskbridge/translate"
)

// A session whose id never reached its client is nobody's: it is ended, at the
// server too, and its place in the limit is free at once.
func TestSessionUnheard(t *testing.T) {
	take := func(t *testing.T, s *session.ClientStream) {
		out, ok := s.Next(t.Context())
		if !ok || out.Header.Get("Mcp-Session-Id") == "" {
			t.Fatalf("no session: %s", out.Raw)
		}
	}
	for _, era := range []translate.Era{translate.Modern, translate.Legacy} {
		for _, tt := range []struct {
			name  string
			read  func(t *testing.T, s *session.ClientStream)
			stays bool
		}{
			{"read", func(t *testing.T, s *session.ClientStream) { synctest.Wait(); take(t, s); s.Gone() }, true},
			{"lost after it was read", func(t *testing.T, s *session.ClientStream) { synctest.Wait(); take(t, s); s.Lost(); s.Gone() }, false},
			{"left unread", func(_ *testing.T, s *session.ClientStream) { synctest.Wait(); s.Gone() }, false},
			{"left before", func(_ *testing.T, s *session.ClientStream) { s.Gone(); synctest.Wait() }, false},
		} {
			t.Run(era.String()+" server, "+tt.name, func(t *testing.T) {
				a := newRouteServer("a", era)
				routed(t, func(t *testing.T, rig *routeRig) {
					rig.policy.Sessions = session.Limit{Each: 1, All: 1}
					rig.update(rig.up(a, 1))
					open := func() *session.ClientStream {
						c := &routeClient{rig: rig, era: translate.Legacy, who: session.HashPrincipal("token", "ann")}
						return c.start("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"cli","version":"1"}}`)
					}
					tt.read(t, open())
					synctest.Wait()
					if s := rig.route.Status()[0]; s.Empty == tt.stays {
						t.Errorf("%+v", s)
					}
					ends := 0
					a.with(func() {
						for _, out := range a.saw {
							if out.Verb == http.MethodDelete {
								ends++
							}
						}
					})
					if want := era == translate.Legacy && !tt.stays; (ends == 1) != want {
						t.Errorf("the server's own session was ended %d times", ends)
					}
					next := open()
					defer next.Gone()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if out, _ := next.Next(ctx); (out.Status == http.StatusTooManyRequests) != tt.stays {
						t.Errorf("the next one: %d %s", out.Status, out.Raw)
					}
				}, a)
			})
		}
	}
}
