package upstream

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"

	"taskbridge/session"
	"taskbridge/translate/jsonrpc"
)

// TestSendQueue_Close: what is in line when the link ends was never written, and
// says so; what is being written may have been. Who waits for room goes on.
func TestSendQueue_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writing, release := make(chan struct{}), make(chan struct{})
		q := newSendQueue(func([][]byte) error {
			close(writing)
			<-release
			return errors.New("cut")
		}, 3*messageOverhead)
		dropped := map[string]bool{}
		msg := func(name string) queued {
			return queued{msg: [][]byte{[]byte(name)}, dropped: func() { dropped[name] = true }}
		}
		go func() { _ = q.run() }()
		if err := q.put(t.Context(), msg("written")); err != nil {
			t.Fatal(err)
		}
		<-writing
		if err := q.put(t.Context(), msg("in line")); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() { waited <- q.put(t.Context(), msg("waits for room")) }()
		synctest.Wait()
		q.close()
		synctest.Wait()
		select {
		case err := <-waited:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("who waited for room got %v", err)
			}
		default:
			t.Error("who waits for room waits for ever")
		}
		close(release)
		if len(dropped) != 1 || !dropped["in line"] {
			t.Errorf("dropped %v", dropped)
		}
	})
}

func againOf(t *testing.T, err error) session.Again {
	t.Helper()
	de, ok := errors.AsType[*session.DialError](err)
	if !ok {
		t.Fatalf("%v is no DialError", err)
	}
	return de.Again
}

// TestWebSocket_Again: what a connection's end says of a request: the server may
// have had it, or cannot have.
func TestWebSocket_Again(t *testing.T) {
	srv := newWSServer(t, "modern")
	got, cut := make(chan struct{}, 1), make(chan struct{})
	srv.speak = func(c *websocket.Conn, _ *http.Request, _ []byte) {
		got <- struct{}{}
		<-cut
		c.NetConn().Close()
	}
	w, _ := newWS(t, srv.url())
	c := dialWS(t, w, me, "")
	st := do(t, c, modernMessage("1", "tools/list", ""))
	<-got
	p := w.alive(w.key(session.Target{Upstream: "up", Principal: me}))
	close(cut)
	if _, err := st.Next(); againOf(t, err) != session.AgainSafe {
		t.Errorf("%v: again %d", err, againOf(t, err))
	}
	// A request that found the link while it ended.
	m, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}`), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	late := w.newStream(nil)
	if err := p.request(t.Context(), newFace("", ""), m, late); againOf(t, err) != session.AgainAny {
		t.Errorf("%v: again %d", err, againOf(t, err))
	}
	// A new one is on a new connection, whether the old one was cleared away or not.
	do(t, c, modernMessage("3", "tools/list", ""))
	<-got
	if w.alive(p.slot) == p {
		t.Error("the dead link is still in use")
	}
}

// TestHTTP_Again: a connection that broke, and an answer that is none.
func TestHTTP_Again(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   session.Again
	}{
		"no answer": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, session.AgainSafe},
		"half an answer": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"jsonrpc"`))
			panic(http.ErrAbortHandler)
		}, session.AgainSafe},
		"too long": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(make([]byte, 2<<20))
		}, session.AgainNever},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { tt.answer(w) }), func(o *HTTPOptions) { o.MaxMessage = 1 << 20 })
			c := dialUp(t, d, nil)
			st, err := c.Do(context.Background(), post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			if err == nil {
				_, err = readAllFrames(st)
			}
			if got := againOf(t, err); got != tt.want {
				t.Errorf("%v: again %d, want %d", err, got, tt.want)
			}
		})
	}
}
