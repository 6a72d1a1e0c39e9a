package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

func TestRequestAsTheServerSeesIt(t *testing.T) {
	var got *http.Request
	var body string
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, pongMsg)
	}), func(o *HTTPOptions) { o.UserAgent = "taskbridge/1" })
	c := dialUp(t, d, http.Header{"Authorization": {"Bearer caller"}})
	s := mustDo(t, c, session.Outgoing{
		Verb: "POST", Msg: []byte(pingMsg), Version: "2026-07-28", Session: "S",
		Header: http.Header{
			"Mcp-Method": {"ping"}, "Mcp-Param-X": {"1"}, "traceparent": {"00-a"},
			// None of these may come with a message.
			"Accept": {"text/html"}, "content-type": {"text/plain"}, "Mcp-Protocol-Version": {"1"}, "Mcp-Session-Id": {"evil"},
			"Authorization": {"Bearer other"}, "Cookie": {"a=b"}, "Host": {"evil"}, "Accept-Encoding": {"br"},
			"X-Forwarded-For": {"1.2.3.4"}, "Connection": {"Upgrade"}, "Upgrade": {"h2c"}, "Content-Length": {"1"},
		},
	})
	wantFrames(t, s, pongMsg)
	want := map[string][]string{
		"Accept": {acceptPost}, "Content-Type": {jsonType}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Session-Id": {"S"},
		"Authorization": {"Bearer caller"}, "User-Agent": {"taskbridge/1"}, "Mcp-Method": {"ping"}, "Mcp-Param-X": {"1"},
		"Traceparent": {"00-a"}, "Content-Length": {"40"},
	}
	for name, values := range got.Header {
		if !slices.Equal(values, want[name]) {
			t.Errorf("%s: %q, want %q", name, values, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("missing %v", want)
	}
	if body != pingMsg || got.URL.Path != "/mcp" || got.Method != "POST" || len(got.TransferEncoding) > 0 {
		t.Errorf("got %s %s %v %q", got.Method, got.URL, got.TransferEncoding, body)
	}
}

func TestVerbsWithoutMessage(t *testing.T) {
	var got []string
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.Header.Get("Accept")+" "+r.Header.Get("Mcp-Session-Id")+" "+r.Header.Get("Last-Event-Id"))
		if r.Method == "GET" {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: "+noteMsg+"\n\n")
		}
	}))
	c := dialUp(t, d, nil)
	wantFrames(t, mustDo(t, c, session.Outgoing{Verb: "GET", Session: "S", Header: http.Header{"Last-Event-Id": {"7"}}}), noteMsg)
	wantFrames(t, mustDo(t, c, session.Outgoing{Verb: "DELETE", Session: "S"}))
	if want := []string{"GET text/event-stream S 7", "DELETE  S "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnvelopeAndFrame(t *testing.T) {
	tap := &tapLog{}
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Mcp-Session-Id", "S1")
		h.Set("Set-Cookie", "a=b")
		h.Set("Access-Control-Allow-Origin", "*")
		io.WriteString(w, "data: "+noteMsg+"\n\ndata: "+pongMsg+"\n\n")
	}), func(o *HTTPOptions) { o.Tap = tap })
	c := dialUp(t, d, http.Header{"Authorization": {"Bearer secret"}})
	s := mustDo(t, c, session.Outgoing{Verb: "POST", Msg: []byte(pingMsg), Version: "2025-11-25"})
	env := s.Envelope()
	if env.Status != 200 || len(env.Header) != 2 || env.Header.Get("Mcp-Session-Id") != "S1" || env.Header.Get("Content-Type") != sseType {
		t.Errorf("envelope %+v", env)
	}
	frames, err := readAllFrames(s)
	if err != io.EOF || len(frames) != 2 {
		t.Fatal(frames, err)
	}
	f := frames[0]
	if f.Leg != translate.ServerLeg || f.Dir != translate.ToClient || f.Stream == "" || f.HTTP != env || f.Time.IsZero() || frames[1].HTTP != nil || frames[1].Stream != f.Stream {
		t.Errorf("frames %+v", frames)
	}
	if len(tap.frames) != 3 || tap.frames[0].Dir != translate.ToServer || tap.frames[0].HTTP.Verb != "POST" || tap.frames[0].Stream != f.Stream ||
		string(tap.frames[0].Msg.Raw) != pingMsg || tap.frames[0].HTTP.Header.Get("Authorization") != "" || tap.frames[0].HTTP.Header.Get("Mcp-Protocol-Version") != "2025-11-25" {
		t.Errorf("tap %+v", tap.frames)
	}
}

// B36: status and every WWW-Authenticate line pass, whatever the body is.
func TestCaseB36_ChallengePasses(t *testing.T) {
	challenges := []string{
		`Bearer realm="m", error="invalid_token", scope="a b", resource_metadata="https://up.example/.well-known/oauth-protected-resource/mcp"`,
		`DPoP algs="ES256"`,
	}
	for _, status := range []int{401, 403} {
		for _, body := range []string{"", "<html>no", `{"error":"invalid_token"}`} {
			tap := &tapLog{}
			d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Www-Authenticate"] = challenges
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(status)
				io.WriteString(w, body)
			}), func(o *HTTPOptions) { o.Tap = tap })
			s := mustDo(t, dialUp(t, d, nil), post(pingMsg))
			env := s.Envelope()
			if env.Status != status || !slices.Equal(env.Header["Www-Authenticate"], challenges) || env.Header.Get("Retry-After") != "3" {
				t.Errorf("envelope %+v", env)
			}
			wantFrames(t, s)
			if len(tap.frames) != 2 || tap.frames[1].Msg != nil || tap.frames[1].HTTP.Status != status {
				t.Errorf("tap %+v", tap.frames)
			}
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, tc := range []struct {
		up   HTTPUpstream
		text string
	}{
		{HTTPUpstream{URL: "ws://h/mcp"}, "http:// or https://"},
		{HTTPUpstream{URL: "http:///mcp"}, "names no host"},
		{HTTPUpstream{URL: "http://u:secret@h:port/"}, "parse URL"},
		{HTTPUpstream{URL: "http://h", Header: http.Header{"Accept": {"x"}}}, "header Accept is set by the proxy"},
		{HTTPUpstream{URL: "http://h", Header: http.Header{"mcp-session-id": {"x"}}}, "Mcp-Session-Id"},
		{HTTPUpstream{URL: "http://h", Header: http.Header{"X-Key": {"secret\r\nb"}}}, "the value of header X-Key"},
		{HTTPUpstream{URL: "http://h", Header: http.Header{"a b": {"x"}}}, "is not a header name"},
		{HTTPUpstream{URL: "http://h", Header: http.Header{"Authorization": {"secret", "b"}}}, "give it once"},
	} {
		_, err := NewHTTP(HTTPOptions{Upstreams: map[string]HTTPUpstream{"main": tc.up}})
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), tc.text) || !strings.Contains(err.Error(), `"main"`) {
			t.Errorf("%s: %v, want %q", tc.up.URL, err, tc.text)
		}
	}
	if _, err := NewHTTP(HTTPOptions{}); err == nil {
		t.Error("no upstream was accepted")
	}
	d := mustHTTP(t, HTTPOptions{Upstreams: map[string]HTTPUpstream{"main": {URL: "http://h"}}})
	_, err := d.Dial(t.Context(), session.Target{Upstream: "other"})
	wantFail(t, err, session.FailUnreachable, `"other"`)
}

func TestUnreachableSaysWhatToDo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	d := mustHTTP(t, HTTPOptions{Upstreams: map[string]HTTPUpstream{"up": {URL: "http://u:pw@" + addr + "/mcp?key=hidden"}}})
	for _, out := range []session.Outgoing{post(pingMsg), {Verb: "GET"}} {
		_, err = dialUp(t, d, nil).Do(t.Context(), out)
		wantFail(t, err, session.FailUnreachable, "http://"+addr+"/mcp", "is the server running")
		if strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "pw") {
			t.Errorf("error shows a secret: %v", err)
		}
	}
}

func TestTLSAdvice(t *testing.T) {
	_, plain := realServer(t, reply(200, jsonType, pongMsg))
	_, tls := tlsServer(t, reply(200, jsonType, pongMsg))
	for url, want := range map[string]string{
		strings.Replace(plain.URL, "http:", "https:", 1): "use http://",
		tls.URL: "--upstream-ca FILE",
	} {
		d := mustHTTP(t, HTTPOptions{Upstreams: map[string]HTTPUpstream{"up": {URL: url}}})
		for _, out := range []session.Outgoing{post(pingMsg), {Verb: "GET"}} {
			_, err := dialUp(t, d, nil).Do(t.Context(), out)
			wantFail(t, err, session.FailUnreachable, want)
		}
		d.Close()
	}
}

func TestBrokenAfterSending(t *testing.T) {
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	_, err := dialUp(t, d, nil).Do(t.Context(), post(pingMsg))
	wantFail(t, err, session.FailBroken, "send the request")
}

// Connecting is bounded; the answer is not.
func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			time.Sleep(3 * time.Hour)
			w.Header().Set("Content-Type", sseType)
			http.NewResponseController(w).Flush()
			time.Sleep(3 * time.Hour)
			io.WriteString(w, "data: "+pongMsg+"\n\n")
		}))
		wantFrames(t, mustDo(t, dialUp(t, d, nil), post(pingMsg)), pongMsg)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := dialUp(t, d, nil).Do(ctx, post(pingMsg))
		wantFail(t, err, session.FailBroken)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(7 * time.Hour) // let the handler end
	})
}

func TestCookiesStayWithTheirSession(t *testing.T) {
	var got []string
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Mcp-Session-Id")+":"+r.Header.Get("Cookie"))
		if r.Header.Get("Mcp-Session-Id") == "" {
			w.Header().Set("Mcp-Session-Id", "S")
			w.Header().Add("Set-Cookie", "lb=n1; Path=/; HttpOnly")
		}
		reply(200, jsonType, pongMsg)(w, r)
	}))
	do := func(p session.Principal, verb, id string) {
		c, _ := d.Dial(t.Context(), session.Target{Upstream: "up", Principal: p})
		defer c.Close()
		out := session.Outgoing{Verb: verb, Session: id}
		if verb == "POST" {
			out.Msg = []byte(pingMsg)
		}
		s := mustDo(t, c, out)
		readAllFrames(s)
	}
	do("a", "POST", "")
	do("a", "POST", "S")
	do("b", "POST", "S")
	do("a", "POST", "T")
	do("a", "DELETE", "S")
	do("a", "POST", "S")
	if want := []string{":", "S:lb=n1", "S:", "T:", "S:lb=n1", "S:"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
