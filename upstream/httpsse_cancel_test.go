package upstream

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// A server of HTTP+SSE may answer a POST when it is done with the request alone
// (2024-11-05 basic/transports, HTTP with SSE). The client that leaves before
// leaves a request the server works on, and its cancel has to get there, under
// the id the server knows.
func TestSSEUpstream_CancelBeforeAccepted(t *testing.T) {
	posted, cancelled, done := make(chan string, 1), make(chan string, 1), make(chan struct{})
	f := &sseFake{onPost: func(w http.ResponseWriter, m sseMsg, _ *sseFakeSession) bool {
		switch m.Method {
		case "tools/call":
			posted <- string(m.ID)
			<-done
		case "notifications/cancelled":
			cancelled <- string(m.Params)
		default:
			return false
		}
		w.WriteHeader(202)
		return true
	}}
	d, _ := realServer(t, f, sseAt(TransportSSE))
	t.Cleanup(func() { close(done) })
	c := dialUp(t, d, nil)
	id := beginSSE(t, c)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := c.Do(ctx, in(id, `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"x"}}`))
		left <- err
	}()
	theirs := <-posted
	leave()
	if err := <-left; err == nil {
		t.Error("the call went on")
	}
	st := mustDo(t, c, in(id, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mine"}}`))
	if st.Envelope().Status != 202 {
		t.Errorf("cancel: %+v", st.Envelope())
	}
	select {
	case params := <-cancelled: // before its POST was answered
		if !strings.Contains(params, `"requestId":`+theirs) {
			t.Errorf("cancelled with %s, want id %s", params, theirs)
		}
	default:
		t.Error("the server was not told")
	}
}
