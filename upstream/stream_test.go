package upstream

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"

	"taskbridge/session"
	"taskbridge/translate/jsonrpc"
)

func TestBodies(t *testing.T) {
	errNull := `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server not initialized"}}`
	for _, tc := range []struct {
		name, contentType string
		status            int
		body              string
		want              []string
	}{
		{"json", "application/json", 200, pongMsg, []string{pongMsg}},
		{"json with charset", "Application/JSON; charset=utf-8", 200, " " + pongMsg + "\n", []string{" " + pongMsg + "\n"}},
		{"json as text", "text/plain", 200, pongMsg, []string{pongMsg}},
		{"no type", "", 200, pongMsg, []string{pongMsg}},
		{"error with null id", "application/json", 400, errNull, []string{errNull}},
		{"error as text", "text/plain", 404, errNull, []string{errNull}},
		{"html error", "text/html", 502, "<html>" + strings.Repeat("x", 100_000), nil},
		{"bad json error", "application/json", 500, `{"error":`, nil},
		{"blank error", "application/json", 400, "", nil},
		{"batch", "application/json", 200, "[" + noteMsg + " , " + pongMsg + "]", []string{noteMsg, pongMsg}},
		{"empty batch error", "application/json", 400, "[]", nil},
		{"accepted", "", 202, "", nil},
		{"no content", "", 204, "", nil},
		{"html to a request", "text/html", 200, "<html>", nil},
		{"events", "text/event-stream; charset=utf-8", 200, "data: " + noteMsg + "\n\ndata: " + pongMsg + "\n\n", []string{noteMsg, pongMsg}},
		{"events with a batch", "text/event-stream", 200, "data: [" + noteMsg + "," + pongMsg + "]\n\n", []string{noteMsg, pongMsg}},
		{"events on 202", "text/event-stream", 202, "data: " + pongMsg + "\n\n", []string{pongMsg}},
		{"unfinished event", "text/event-stream", 200, "data: " + pongMsg, []string{pongMsg}},
		{"cut event", "text/event-stream", 200, "data: " + noteMsg + "\n\ndata: " + pongMsg[:20], []string{noteMsg}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, chunked := range []bool{false, true} {
				d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if chunked {
						w = &flushing{w}
					}
					reply(tc.status, tc.contentType, tc.body)(w, r)
				}))
				wantFrames(t, mustDo(t, dialUp(t, d, nil), post(pingMsg)), tc.want...)
			}
		})
	}
}

// flushing sends headers at once, so the body has no declared length.
type flushing struct{ http.ResponseWriter }

func (f *flushing) WriteHeader(status int) {
	f.ResponseWriter.WriteHeader(status)
	http.NewResponseController(f.ResponseWriter).Flush()
}

func TestNoJSONRPCToARequestIsAnError(t *testing.T) {
	for _, body := range []string{"null", `{"a":1}`, "ok", `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`} {
		d, _ := realServer(t, reply(200, jsonType, body))
		_, err := mustDo(t, dialUp(t, d, nil), post(pingMsg)).Next()
		wantFail(t, err, session.FailBroken, "no JSON-RPC message")
		if _, ok := errors.AsType[*jsonrpc.DecodeError](err); !ok {
			t.Errorf("%s: %v wraps no decode error", body, err)
		}
	}
}

// B31: an event may only prime the stream, and heartbeats are no messages.
func TestCaseB31_PrimingAndHeartbeats(t *testing.T) {
	log := &syncBuffer{}
	d, _ := realServer(t, reply(200, sseType, "id: 7\nretry: 500\ndata:\n\n"+
		"data: {\"type\":\"heartbeat\"}\n\n"+"data: \x1b[31m\n\n"+"data: "+pongMsg+"\n\n"+"retry: 1\n\nid: a\x00b\n\n"),
		func(o *HTTPOptions) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	s := mustDo(t, dialUp(t, d, nil), post(pingMsg))
	r := s.(session.Resumer)
	f, err := s.Next()
	if err != nil || string(f.Msg.Raw) != pongMsg {
		t.Fatal(f, err)
	}
	if r.LastEventID() != "7" || r.Retry() != 500*time.Millisecond {
		t.Errorf("id %q, retry %v", r.LastEventID(), r.Retry())
	}
	if _, err = s.Next(); err != io.EOF {
		t.Error(err)
	}
	if r.LastEventID() != "7" || r.Retry() != minRetry {
		t.Errorf("id %q, retry %v", r.LastEventID(), r.Retry())
	}
	if n := strings.Count(log.String(), "skipped an event"); n != 1 || !strings.Contains(log.String(), "heartbeat") {
		t.Errorf("logged %d times: %s", n, log)
	}
}

// B32: whatever 2xx answers a notification or a response, it was accepted.
func TestCaseB32_AnyAcceptanceOfANotification(t *testing.T) {
	answer := `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`
	for _, msg := range []string{noteMsg, answer} {
		for _, h := range []http.HandlerFunc{
			reply(202, "", ""),
			reply(204, "", ""),
			reply(200, "", ""),
			reply(200, "application/json", `{"jsonrpc":"2.0","id":null}`),
			reply(200, "application/json", "null"),
			reply(200, "text/plain", "ok"),
			reply(202, "text/plain", "Accepted"),
			func(w http.ResponseWriter, r *http.Request) { http.NewResponseController(w).Flush() },
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "br")
				reply(200, "application/json", "xyz")(w, r)
			},
		} {
			d, _ := realServer(t, h)
			wantFrames(t, mustDo(t, dialUp(t, d, nil), post(msg)))
		}
		d, _ := realServer(t, reply(200, sseType, "data: "+noteMsg+"\n\n"))
		wantFrames(t, mustDo(t, dialUp(t, d, nil), post(msg)), noteMsg)
	}
}

// B37: gzip is undone though it was not asked for; events come as they are
// flushed, not at the end.
func TestCaseB37_Gzip(t *testing.T) {
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("Accept-Encoding %q was sent", got)
		}
		w.Header().Set("Content-Encoding", "identity, GZIP")
		w.Header().Set("Content-Type", jsonType)
		zw := gzip.NewWriter(w)
		io.WriteString(zw, pongMsg)
		zw.Close()
	}))
	s := mustDo(t, dialUp(t, d, nil), post(pingMsg))
	if s.Envelope().Header.Get("Content-Encoding") != "" {
		t.Error("Content-Encoding of the old body is shown")
	}
	wantFrames(t, s, pongMsg)
}

// encoders of the codings that are undone.
var encoders = map[string]func(io.Writer) interface {
	io.WriteCloser
	Flush() error
}{
	"gzip": func(w io.Writer) interface {
		io.WriteCloser
		Flush() error
	} {
		return gzip.NewWriter(w)
	},
	"br": func(w io.Writer) interface {
		io.WriteCloser
		Flush() error
	} {
		return brotli.NewWriter(w)
	},
}

func TestCaseB37_EncodedEventsComeWhenFlushed(t *testing.T) {
	for coding, encoder := range encoders {
		t.Run(coding, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Encoding", coding)
					w.Header().Set("Content-Type", sseType)
					zw := encoder(w)
					for range 3 {
						io.WriteString(zw, "data: "+noteMsg+"\n\n")
						zw.Flush()
						http.NewResponseController(w).Flush()
						time.Sleep(time.Minute)
					}
					zw.Close()
				}))
				s := mustDo(t, dialUp(t, d, nil), post(pingMsg))
				start := time.Now()
				for i := range 3 {
					if _, err := s.Next(); err != nil {
						t.Fatal(err)
					}
					if got, want := time.Since(start), time.Duration(i)*time.Minute; got != want {
						t.Errorf("event %d after %v, want %v", i, got, want)
					}
				}
				wantFrames(t, s)
			})
		})
	}
}

func TestCaseB37_Brotli(t *testing.T) {
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "br")
		w.Header().Set("Content-Type", jsonType)
		zw := brotli.NewWriter(w)
		io.WriteString(zw, pongMsg)
		zw.Close()
	}))
	wantFrames(t, mustDo(t, dialUp(t, d, nil), post(pingMsg)), pongMsg)
}

func TestCaseB37_UnknownEncodingIsNamed(t *testing.T) {
	for _, contentType := range []string{jsonType, sseType} {
		for _, encoding := range []string{"zstd", "gzip, gzip", "br, gzip"} {
			h := func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Encoding"] = []string{encoding}
				reply(200, contentType, "xyz")(w, r)
			}
			d, _ := realServer(t, http.HandlerFunc(h))
			_, err := mustDo(t, dialUp(t, d, nil), post(pingMsg)).Next()
			wantFail(t, err, session.FailBroken, "Content-Encoding "+quote(encoding, 64), "only gzip and br")
		}
	}
}

// B59: 12 MiB pass on both kinds of reply; over the limit is one clear error.
func TestCaseB59_Sizes(t *testing.T) {
	big := `{"jsonrpc":"2.0","id":1,"result":{"data":"` + base64.StdEncoding.EncodeToString(make([]byte, 12<<20)) + `"}}`
	for _, declared := range []bool{true, false} {
		for contentType, body := range map[string]string{jsonType: big, sseType: "data: " + big + "\n\n"} {
			h := func(w http.ResponseWriter, r *http.Request) {
				if declared {
					w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				}
				reply(200, contentType, body)(w, r)
			}
			d, _ := realServer(t, http.HandlerFunc(h))
			frames, err := readAllFrames(mustDo(t, dialUp(t, d, nil), post(pingMsg)))
			if err != io.EOF || raws(frames) != big {
				t.Errorf("%s: %d frames, %v", contentType, len(frames), err)
			}
			d, _ = realServer(t, http.HandlerFunc(h), func(o *HTTPOptions) { o.MaxMessage = 1 << 20 })
			_, err = mustDo(t, dialUp(t, d, nil), post(pingMsg)).Next()
			wantFail(t, err, session.FailTooLarge, "1048576 bytes")
		}
	}
}

func TestBudget(t *testing.T) {
	big := `{"jsonrpc":"2.0","id":1,"result":{"data":"` + strings.Repeat("x", 1<<20) + `"}}`
	for _, declared := range []bool{true, false} {
		for contentType, body := range map[string]string{jsonType: big, sseType: "data: " + big + "\n\ndata: " + noteMsg + "\n\n"} {
			budget := session.NewBudget(3 << 20)
			h := func(w http.ResponseWriter, r *http.Request) {
				if declared {
					w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				}
				reply(200, contentType, body)(w, r)
			}
			d, _ := realServer(t, http.HandlerFunc(h), func(o *HTTPOptions) { o.Budget = budget })
			c := dialUp(t, d, nil)
			s := mustDo(t, c, post(pingMsg))
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
			if used := budget.InUse(); used < 1<<20-budgetFree || used > 2<<20 {
				t.Errorf("%s: %d bytes in use for a message of 1 MiB", contentType, used)
			}
			s.Next()
			if used := budget.InUse(); used != 0 {
				t.Errorf("%s: %d bytes in use after the message was handed over", contentType, used)
			}
			s = mustDo(t, c, post(pingMsg))
			s.Next()
			s.Close()
			if used := budget.InUse(); used != 0 {
				t.Errorf("%s: %d bytes in use after Close", contentType, used)
			}
			budget.TryAcquire(5 << 19)
			_, err := mustDo(t, c, post(pingMsg)).Next()
			wantFail(t, err, session.FailBusy, "retry later")
			if used := budget.InUse(); used != 5<<19 {
				t.Errorf("%s: %d bytes in use after a refusal", contentType, used-5<<19)
			}
		}
	}
}

// Close is the cancel toward a modern server (2026-07-28 basic/patterns/
// cancellation), unblocks Next and may come twice.
func TestCloseCancels(t *testing.T) {
	for _, how := range []string{"stream", "conn", "context"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var canceled atomic.Bool
				d := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", sseType)
					io.WriteString(w, "data: "+noteMsg+"\n\n")
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
					canceled.Store(true)
				}))
				c := dialUp(t, d, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s, err := c.Do(ctx, post(pingMsg))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Next(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error)
				go func() { _, err := s.Next(); ended <- err }()
				synctest.Wait()
				want := ErrClosed
				switch how {
				case "stream":
					s.Close()
				case "conn":
					c.Close()
				case "context":
					cancel()
					want = context.Canceled
				}
				if err := <-ended; !errors.Is(err, want) {
					t.Errorf("Next returned %v", err)
				}
				synctest.Wait()
				if !canceled.Load() {
					t.Error("the server was not told")
				}
				s.Close()
				if _, err := s.Next(); !errors.Is(err, want) {
					t.Errorf("Next after Close returned %v", err)
				}
				c.Close()
				if _, err := c.Do(t.Context(), post(pingMsg)); !errors.Is(err, ErrClosed) {
					t.Errorf("Do after Close returned %v", err)
				}
			})
		})
	}
}

func TestCloseBeforeHeadersCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}))
		c := dialUp(t, d, nil)
		time.AfterFunc(time.Second, func() { c.Close() })
		_, err := c.Do(t.Context(), post(pingMsg))
		wantFail(t, err, session.FailBroken)
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// Sockets are used again after every ordinary exchange, read to its end or
// closed after the response; and a server that keeps the stream open after
// its response cannot hold it.
func TestSocketsAreReused(t *testing.T) {
	addrs := map[string]bool{}
	hold := false
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addrs[r.RemoteAddr] = true
		io.Copy(io.Discard, r.Body)
		switch r.Header.Get("Mcp-Name") {
		case "json":
			reply(200, jsonType, pongMsg)(w, r)
		case "sse":
			reply(200, sseType, "data: "+pongMsg+"\n\n: bye\n\n")(w, r)
		case "html":
			reply(401, "text/html", strings.Repeat("x", 5000))(w, r)
		}
		if hold {
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	c := dialUp(t, d, nil)
	for range 5 {
		for _, kind := range []string{"json", "sse", "html", "none"} {
			for _, how := range []string{"end", "close", "context", "context while reading"} {
				out := post(pingMsg)
				out.Header = http.Header{"Mcp-Name": {kind}}
				ctx, cancel := context.WithCancel(t.Context())
				s, err := c.Do(ctx, out)
				if err != nil {
					t.Fatal(err)
				}
				s.Next()
				switch how {
				case "end":
					s.Next()
				case "context":
					cancel()
				case "context while reading":
					time.AfterFunc(time.Millisecond, cancel)
					s.Next()
				}
				s.Close()
				cancel()
				waitReleased(c)
			}
		}
	}
	if len(addrs) != 1 {
		t.Errorf("%d sockets for requests one after the other", len(addrs))
	}
	hold = true
	out := post(pingMsg)
	out.Header = http.Header{"Mcp-Name": {"sse"}}
	s := mustDo(t, c, out)
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	s.Close()
	if took := time.Since(start); took > drainTime/2 {
		t.Errorf("Close took %v", took)
	}
	waitReleased(c)
}

// waitReleased waits until no stream of c is registered, that is, all are
// drained.
func waitReleased(c session.Conn) {
	for hc := c.(*httpConn); ; time.Sleep(time.Millisecond) {
		hc.mu.Lock()
		n := len(hc.open)
		hc.mu.Unlock()
		if n == 0 {
			return
		}
	}
}

// A stream that breaks says so; what came whole before is delivered.
func TestBrokenStream(t *testing.T) {
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", sseType)
		io.WriteString(w, "data: "+noteMsg+"\n\n")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	frames, err := readAllFrames(mustDo(t, dialUp(t, d, nil), post(pingMsg)))
	if raws(frames) != noteMsg {
		t.Errorf("got %s", raws(frames))
	}
	wantFail(t, err, session.FailBroken, "in the middle")
}

// B58: on HTTP/2 headers may come alone, silence is no fault, a reset is a
// disconnect, and one stream's end leaves the others alone.
func TestCaseB58_HTTP2(t *testing.T) {
	release := make(chan struct{})
	d, _ := tlsServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("spoken to over %s", r.Proto)
		}
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", sseType)
		http.NewResponseController(w).Flush()
		if r.Method == "GET" {
			<-release
			panic(http.ErrAbortHandler) // RST_STREAM
		}
		io.WriteString(w, ":\n\ndata: "+pongMsg+"\n\n")
	}))
	c := dialUp(t, d, nil)
	get := mustDo(t, c, session.Outgoing{Verb: "GET"})
	if get.Envelope().Status != 200 {
		t.Error(get.Envelope())
	}
	wantFrames(t, mustDo(t, c, post(pingMsg)), pongMsg)
	close(release)
	_, err := get.Next()
	wantFail(t, err, session.FailBroken)
	wantFrames(t, mustDo(t, c, post(pingMsg)), pongMsg)
}
