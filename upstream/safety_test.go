package upstream

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"

	"taskbridge/session"
)

// rawServer answers each connection with what write sends, after the request.
func rawServer(t *testing.T, write func(net.Conn)) *HTTP {
	t.Helper()
	n := newPipeNet()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := n.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				io.Copy(io.Discard, r.Body)
				write(c)
				io.Copy(io.Discard, c)
			}()
		}
	}()
	d := mustHTTP(t, HTTPOptions{Upstreams: map[string]HTTPUpstream{"up": {URL: "http://up.test/mcp"}}, DialContext: n.dial})
	t.Cleanup(func() { d.Close(); n.Close(); <-done })
	return d
}

// A switch of protocols was not asked for, and a flood of informational
// answers ends.
func TestSafetyS9_SwitchAndFlood(t *testing.T) {
	for name, write := range map[string]func(net.Conn){
		"101": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")
		},
		"1xx flood": func(c net.Conn) {
			for {
				if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"); err != nil {
					return
				}
			}
		},
		"endless header": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		},
		"two lengths": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\n"+pongMsg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, err := dialUp(t, rawServer(t, write), nil).Do(t.Context(), post(pingMsg))
				wantFail(t, err, session.FailBroken)
			})
		})
	}
	t.Run("a few 1xx", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := rawServer(t, func(c net.Conn) {
				io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 36\r\n\r\n"+pongMsg)
			})
			wantFrames(t, mustDo(t, dialUp(t, d, nil), post(pingMsg)), pongMsg)
		})
	})
}

// One Authorization goes up: the upstream's own where it has one, and then
// never the caller's.
func TestSafetyS15_OneAuthorization(t *testing.T) {
	var got http.Header
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		reply(200, jsonType, pongMsg)(w, r)
	})
	for _, tc := range []struct {
		name   string
		edit   func(u *HTTPUpstream)
		caller http.Header
		want   []string
	}{
		{"caller's", nil, http.Header{"authorization": {"Bearer caller"}}, []string{"Bearer caller"}},
		{"own", func(u *HTTPUpstream) { u.Header = http.Header{"authorization": {"Bearer own"}} }, http.Header{"Authorization": {"Bearer caller"}}, []string{"Bearer own"}},
		{"own in the URL", func(u *HTTPUpstream) { u.URL = strings.Replace(u.URL, "http://", "http://me:pw@", 1) }, http.Header{"Authorization": {"Bearer caller"}}, []string{"Basic bWU6cHc="}},
		{"doubled", nil, http.Header{"Authorization": {"Bearer one", "Bearer two"}}, []string{"Bearer one"}},
		{"none", nil, nil, nil},
		{"own key beside caller's", func(u *HTTPUpstream) { u.Header = http.Header{"X-Api-Key": {"k"}} }, http.Header{"Authorization": {"Bearer caller"}, "X-Api-Key": {"caller"}}, []string{"Bearer caller"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, _ := realServer(t, h, func(o *HTTPOptions) {
				u := o.Upstreams["up"]
				if tc.edit != nil {
					tc.edit(&u)
				}
				o.Upstreams["up"] = u
			})
			wantFrames(t, mustDo(t, dialUp(t, d, tc.caller), post(pingMsg)), pongMsg)
			if !slices.Equal(got["Authorization"], tc.want) {
				t.Errorf("Authorization %q, want %q", got["Authorization"], tc.want)
			}
			if k := got["X-Api-Key"]; len(k) > 0 && !slices.Equal(k, []string{"k"}) {
				t.Errorf("X-Api-Key %q", k)
			}
		})
	}
}

// Nothing is sent to another origin, whatever redirects there; the error names
// both places.
func TestSafetyS18_Redirects(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	var location string
	var status int
	var got []string
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = []string{location}
		w.WriteHeader(status)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) {
		got = append(got, "loop")
		w.Header().Set("Location", "/loop")
		w.WriteHeader(307)
	})
	mux.HandleFunc("/mcp/", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization")+" "+string(b))
		reply(200, jsonType, pongMsg)(w, r)
	})
	d, srv := realServer(t, mux)
	c := dialUp(t, d, http.Header{"Authorization": {"Bearer secret"}})
	host := strings.TrimPrefix(srv.URL, "http://")
	for _, tc := range []struct {
		status   int
		location string
	}{
		{307, other.URL + "/mcp/"}, {308, other.URL}, {302, other.URL}, {301, "/mcp/"}, {302, "/mcp/"}, {303, "/mcp/"},
		{307, "https://" + host + "/mcp/"}, {307, "//" + strings.TrimPrefix(other.URL, "http://") + "/x"},
		{307, "http://user@" + host + "/mcp/"}, {307, "http://" + host + "@evil.test/"}, {307, "javascript:x"},
		{307, `http:\\evil.test`}, {307, "http://localhost:" + srv.URL[strings.LastIndex(srv.URL, ":")+1:] + "/mcp/"},
		{307, ""}, {307, "/" + strings.Repeat("x", 9000)}, {300, "/mcp/"}, {307, "/loop"}, {307, "ftp://" + host},
		{307, "http://%zz/"},
	} {
		status, location, got = tc.status, tc.location, nil
		for _, out := range []session.Outgoing{post(pingMsg), {Verb: "GET"}, {Verb: "DELETE"}} {
			_, err := c.Do(t.Context(), out)
			de := wantFail(t, err, session.FailRedirect, srv.URL)
			if de.Status == 0 || strings.Contains(err.Error(), "\x7f") || len(err.Error()) > 2000 {
				t.Errorf("error %v", de)
			}
			if u, _ := url.Parse(tc.location); u != nil && u.Host != "" && !strings.Contains(err.Error(), u.Host) {
				t.Errorf("error %q does not name %s", err, u.Host)
			}
		}
		if tc.location != "/loop" && len(got) > 0 {
			t.Errorf("%d to %s was followed: %q", tc.status, tc.location, got)
		}
		if tc.location == "/loop" && len(got) != 9 {
			t.Errorf("%d requests in a loop, want 3 for each verb", len(got))
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went to another origin", n)
	}
	for _, location = range []string{"/mcp/a?b=c#d", srv.URL + "/mcp/a?b=c", "mcp/a?b=c"} {
		for _, status = range []int{307, 308} {
			got = nil
			wantFrames(t, mustDo(t, c, post(pingMsg)), pongMsg)
			if want := []string{"POST /mcp/a?b=c Bearer secret " + pingMsg}; !slices.Equal(got, want) {
				t.Errorf("%d to %s: %q", status, location, got)
			}
		}
	}
}

// At this level answers with foreign ids are handed on as they are, in order:
// who asked decides. Nothing a server sends on one stream reaches another.
func TestSafetyS30_WrongAnswersStayOnTheirStream(t *testing.T) {
	wrong := []string{
		`{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}`,
	}
	synctest.Test(t, func(t *testing.T) {
		d := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", sseType)
			if r.Header.Get("Mcp-Name") == "wrong" {
				for _, m := range wrong {
					io.WriteString(w, "data: "+m+"\n\n")
				}
				return
			}
			time.Sleep(time.Second)
			io.WriteString(w, "data: "+pongMsg+"\n\n")
		}))
		c := dialUp(t, d, nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s, err := c.Do(t.Context(), post(pingMsg))
			if err != nil {
				t.Error(err)
				return
			}
			wantFrames(t, s, pongMsg)
		}()
		out := post(pingMsg)
		out.Header = http.Header{"Mcp-Name": {"wrong"}}
		wantFrames(t, mustDo(t, c, out), wrong...)
		<-done
	})
}

// Every field of an event is bounded, and a stream of comments neither passes
// for progress nor costs memory.
func TestSafetyS37_EventFields(t *testing.T) {
	for name, field := range map[string]string{
		"event": "event: " + strings.Repeat("x", 10<<20), "id": "id: " + strings.Repeat("x", 10<<20),
		"data": "data: " + strings.Repeat("x", 10<<20), "many": strings.Repeat("data: xxxxxxxxxxxxxxxx\n", 1<<19),
	} {
		d, _ := realServer(t, reply(200, sseType, field+"\n\ndata: "+pongMsg+"\n\n"), func(o *HTTPOptions) { o.MaxMessage = 1 << 20 })
		_, err := mustDo(t, dialUp(t, d, nil), post(pingMsg)).Next()
		if de := wantFail(t, err, session.FailTooLarge); de == nil {
			t.Error(name)
		}
	}
	// Less is discarded, and the rest goes on.
	for _, field := range []string{"event: ", "id: ", "retry: 1", "other: ", "data: "} {
		d, _ := realServer(t, reply(200, sseType, field+strings.Repeat("1", 2<<20)+"\n\ndata: "+pongMsg+"\n\n"), func(o *HTTPOptions) { o.MaxMessage = 1 << 20 })
		wantFrames(t, mustDo(t, dialUp(t, d, nil), post(pingMsg)), pongMsg)
	}
	budget := session.NewBudget(64 << 20)
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", sseType)
		io.WriteString(w, "id: 1\r\nretry: 99999999999999999999\n\n")
		for range 100 {
			io.WriteString(w, strings.Repeat(": comment\n\n", 10_000)+strings.Repeat("data: {}\n\n", 1000))
		}
		io.WriteString(w, "retry: 0\nid: a\x00b\ndata: "+pongMsg+"\n\n")
	}), func(o *HTTPOptions) { o.Budget, o.MaxMessage = budget, 1<<20 })
	s := mustDo(t, dialUp(t, d, nil), post(pingMsg))
	wantFrames(t, s, pongMsg)
	if r := s.(session.Resumer); r.LastEventID() != "1" || r.Retry() < minRetry || r.Retry() > maxRetry {
		t.Errorf("id %q, retry %v", r.LastEventID(), r.Retry())
	}
	if budget.InUse() != 0 {
		t.Errorf("%d bytes in use", budget.InUse())
	}
	// The caller leaves while comments come: no clock says how many that are.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d, _ = realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", sseType)
		for n := 0; r.Context().Err() == nil; n++ {
			io.WriteString(w, ": comment\n\n")
			if n == 100_000 {
				cancel()
			}
		}
	}))
	s, err := dialUp(t, d, nil).Do(ctx, post(pingMsg))
	if err == nil {
		_, err = s.Next()
	}
	wantFail(t, err, session.FailBroken)
}

// The limit counts decoded bytes.
func TestSafetyS38_DecompressionBomb(t *testing.T) {
	var bomb bytes.Buffer // 20 KB that are 20 MB
	zw := gzip.NewWriter(&bomb)
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = 'x'
	}
	for range 20 {
		zw.Write(block)
	}
	zw.Close()
	for contentType, prefix := range map[string]string{jsonType: `{"jsonrpc":"2.0","id":1,"result":{"d":"`, sseType: "data: "} {
		d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", contentType)
			zw := gzip.NewWriter(w)
			io.WriteString(zw, prefix)
			zw.Close()
			w.Write(bomb.Bytes()) // members of one gzip stream follow each other
		}), func(o *HTTPOptions) { o.MaxMessage = 1 << 20 })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := mustDo(t, dialUp(t, d, nil), post(pingMsg)).Next()
		runtime.ReadMemStats(&after)
		wantFail(t, err, session.FailTooLarge, "1048576")
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: %d bytes allocated", contentType, used)
		}
	}
}

func TestSafetyS38_BrotliBomb(t *testing.T) {
	for contentType, prefix := range map[string]string{jsonType: `{"jsonrpc":"2.0","id":1,"result":{"d":"`, sseType: "data: "} {
		var bomb bytes.Buffer
		zw := brotli.NewWriterLevel(&bomb, brotli.BestSpeed)
		io.WriteString(zw, prefix)
		block := bytes.Repeat([]byte("x"), 1<<20)
		for range 20 {
			zw.Write(block)
		}
		zw.Close()
		d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			w.Header().Set("Content-Type", contentType)
			w.Write(bomb.Bytes())
		}), func(o *HTTPOptions) { o.MaxMessage = 1 << 20 })
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := mustDo(t, dialUp(t, d, nil), post(pingMsg)).Next()
		runtime.ReadMemStats(&after)
		wantFail(t, err, session.FailTooLarge, "1048576")
		if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 { // its window is up to 16 MiB
			t.Errorf("%s: %d bytes allocated", contentType, used)
		}
	}
}

// Credentials are in no error, log line or frame.
func TestSafety_CredentialsAreShownNowhere(t *testing.T) {
	log, tap := &syncBuffer{}, &tapLog{}
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://evil.test/?token=s3cret-a")
		switch r.Method {
		case "GET":
			w.WriteHeader(307)
		case "POST":
			w.Header().Set("Set-Cookie", "a=s3cret-d")
			reply(500, "text/plain", "oops")(w, r)
		}
	}), func(o *HTTPOptions) {
		o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Tap = tap
		u := o.Upstreams["up"]
		u.URL += "?key=s3cret-b"
		u.Header = http.Header{"X-Key": {"s3cret-c"}}
		o.Upstreams["up"] = u
	})
	c := dialUp(t, d, http.Header{"Authorization": {"Bearer s3cret-e"}})
	_, err := c.Do(t.Context(), session.Outgoing{Verb: "GET", Header: http.Header{"Cookie": {"s3cret-f"}}})
	wantFail(t, err, session.FailRedirect)
	wantFrames(t, mustDo(t, c, post(pingMsg)))
	for _, f := range tap.frames {
		fmt.Fprintf(log, "%v %+v\n", f, f.HTTP)
	}
	if shown := err.Error() + log.String(); strings.Contains(shown, "s3cret") {
		t.Errorf("a secret is shown: %s", shown)
	}
}
