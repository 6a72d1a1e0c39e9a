package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbridge/session"
	"taskbridge/translate"
)

// peer is a server that answers each method with a fixed reply; %s in it is
// the request's id. It writes down what it was asked.
type peer struct {
	mu      sync.Mutex
	asked   []string
	answers map[string]http.HandlerFunc
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ProtocolVersion string
			Meta            map[string]json.RawMessage `json:"_meta"`
		}
	}
	if r.Method == "POST" {
		b, _ := io.ReadAll(r.Body)
		json.Unmarshal(b, &m)
	}
	line := fmt.Sprintf("%s %s v=%s s=%s", r.Method, m.Method, r.Header.Get("Mcp-Protocol-Version"), r.Header.Get("Mcp-Session-Id"))
	if m.Method == "initialize" {
		line += " p=" + m.Params.ProtocolVersion
	}
	if m.Method == "server/discover" && (r.Header.Get("Mcp-Method") != m.Method || string(m.Params.Meta[translate.MetaVersion]) != `"`+r.Header.Get("Mcp-Protocol-Version")+`"` ||
		string(m.Params.Meta[translate.MetaClientCaps]) != "{}" || string(m.Params.Meta[translate.MetaClientInfo]) != `{"name":"taskbridge","version":"0"}`) {
		line += " malformed"
	}
	p.mu.Lock()
	p.asked = append(p.asked, line)
	h := p.answers[m.Method]
	if h == nil {
		h = p.answers[r.Method]
	}
	p.mu.Unlock()
	if h == nil {
		h = reply(http.StatusAccepted, "", "")
	}
	h(&withID{w, m.ID}, r)
}

// heard is what it was asked so far.
func (p *peer) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// withID puts the request's id into what is written.
type withID struct {
	http.ResponseWriter
	id []byte
}

func (w *withID) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write([]byte(strings.ReplaceAll(string(p), "%s", string(w.id))))
	return len(p), err
}

func (w *withID) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func result(body string) http.HandlerFunc {
	return reply(200, jsonType, `{"jsonrpc":"2.0","id":%s,"result":`+body+`}`)
}

func rpcError(status, code int, data string) http.HandlerFunc {
	if data != "" {
		data = `,"data":` + data
	}
	return reply(status, jsonType, fmt.Sprintf(`{"jsonrpc":"2.0","id":%%s,"error":{"code":%d,"message":"m\u001b"%s}}`, code, data))
}

const initResult = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"old"},"instructions":"i"}`
const discoverResult = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new"}},"instructions":"i"}`

var initOK = func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Mcp-Session-Id", "S")
	result(initResult)(w, r)
}

const (
	askDiscover = "POST server/discover v=2026-07-28 s="
	askOld      = "POST server/discover v=2026-06-30 s="
	askInit     = "POST initialize v= s= p=2025-11-25"
	askNote     = "POST notifications/initialized v=2025-11-25 s=S"
	askDelete   = "DELETE  v=2025-11-25 s=S"
)

var legacyAsked = []string{askDiscover, askInit, askNote, askDelete}

// B17: every way in which a server meets server/discover over HTTP.
func TestCaseB17_ProbeHTTP(t *testing.T) {
	type answers = map[string]http.HandlerFunc
	sse := func(body string) http.HandlerFunc {
		return reply(200, sseType, "id: 1\ndata:\n\ndata: "+noteMsg+"\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":"+body+"}\n\n")
	}
	for _, tc := range []struct {
		name    string
		answer  http.HandlerFunc // to server/discover
		init    http.HandlerFunc // to initialize; nil: a good one
		era     translate.Era
		version string
		asked   []string
		err     string // the rest is then not looked at
		status  int
	}{
		{name: "result", answer: result(discoverResult), era: translate.Modern, version: "2026-07-28", asked: []string{askDiscover}},
		{name: "result as events", answer: sse(discoverResult), era: translate.Modern, version: "2026-07-28", asked: []string{askDiscover}},
		{name: "result of 2026-06-30", answer: result(`{"supportedVersions":["2026-06-30"],"capabilities":{}}`), era: translate.Modern, version: "2026-06-30", asked: []string{askDiscover}},
		{name: "-32022", answer: rpcError(400, -32022, `{"supported":["2026-07-28"],"requested":"1"}`), era: translate.Modern, version: "2026-07-28", asked: []string{askDiscover}},
		{name: "-32022 with 200", answer: rpcError(200, -32022, `{"supported":["2025-11-25","2026-07-28"]}`), era: translate.Modern, version: "2026-07-28", asked: []string{askDiscover}},
		{name: "-32004 of 2026-06-30", answer: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Protocol-Version") == "2026-06-30" {
				result(`{"supportedVersions":["2026-06-30"],"capabilities":{}}`)(w, r)
				return
			}
			rpcError(400, -32004, `{"supported":["2026-06-30"]}`)(w, r)
		}, era: translate.Modern, version: "2026-06-30", asked: []string{askDiscover, askOld}},
		{name: "-32022 for ever", answer: rpcError(400, -32022, `{"supported":["2026-06-30"]}`), era: translate.Modern, version: "2026-06-30", asked: []string{askDiscover, askOld}},
		{name: "-32020", answer: rpcError(400, -32020, ""), era: translate.Modern, version: "2026-07-28", asked: []string{askDiscover}},
		{name: "-32021", answer: rpcError(400, -32021, `{"requiredCapabilities":{}}`), era: translate.Modern, version: "2026-07-28", asked: []string{askDiscover}},
		{name: "-32003 with data", answer: rpcError(400, -32003, `{"requiredCapabilities":{}}`), era: translate.Modern, version: "2026-07-28", asked: []string{askDiscover}},

		{name: "-32602", answer: rpcError(200, -32602, ""), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "-32601", answer: rpcError(404, -32601, ""), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "-32000 with null id", answer: reply(400, jsonType, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server not initialized"}}`), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "-32001 of a legacy server", answer: rpcError(404, -32001, ""), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "-32003 without data", answer: rpcError(400, -32003, ""), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "-32004 without data", answer: rpcError(400, -32004, ""), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "-32022 without data", answer: rpcError(400, -32022, ""), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "-32022 with only legacy", answer: rpcError(400, -32022, `{"supported":["2025-11-25","2025-06-18"]}`), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "result without versions", answer: result(`{"protocolVersion":"2025-11-25"}`), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "result with only legacy", answer: result(`{"supportedVersions":["2025-06-18"]}`), init: result(`{"protocolVersion":"2025-06-18","capabilities":{}}`), era: translate.Legacy, version: "2025-06-18",
			asked: []string{askDiscover, "POST initialize v= s= p=2025-06-18", "POST notifications/initialized v=2025-06-18 s="}},
		{name: "result with odd versions", answer: result(`{"supportedVersions":[1,null,{}]}`), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "400 without body", answer: reply(400, "", ""), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "404 html", answer: reply(404, "text/html", "<html>"), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "405", answer: reply(405, "", ""), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "406 text", answer: reply(406, "text/plain", "no"), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "422 json", answer: reply(422, jsonType, `{"detail":"x"}`), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "200 null", answer: reply(200, jsonType, "null"), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "202", answer: reply(202, "", ""), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "events without answer", answer: reply(200, sseType, ":\n\n"), era: translate.Legacy, version: "2025-11-25", asked: legacyAsked},
		{name: "initialize as events", answer: reply(400, "", ""), init: sse(initResult), era: translate.Legacy, version: "2025-11-25",
			asked: []string{askDiscover, askInit, "POST notifications/initialized v=2025-11-25 s="}},

		{name: "401", answer: reply(401, "", ""), err: "was refused with HTTP 401", status: 401, asked: []string{askDiscover}},
		{name: "403 json-rpc", answer: rpcError(403, -32601, ""), err: "was refused with HTTP 403", status: 403, asked: []string{askDiscover}},
		{name: "401 at initialize", answer: reply(400, "", ""), init: reply(401, "", ""), err: "initialize was refused with HTTP 401", status: 401, asked: []string{askDiscover, askInit}},
		{name: "408", answer: reply(408, "", ""), err: "undecided", status: 408, asked: []string{askDiscover}},
		{name: "429", answer: reply(429, "", ""), err: "undecided", status: 429, asked: []string{askDiscover}},
		{name: "500 -32601", answer: rpcError(500, -32601, ""), err: "undecided", status: 500, asked: []string{askDiscover}},
		{name: "503 at initialize", answer: reply(400, "", ""), init: reply(503, "", ""), err: "undecided", status: 503, asked: []string{askDiscover, askInit}},
		{name: "aborted", answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, err: "undecided", asked: []string{askDiscover}},
		{name: "aborted events", answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", sseType)
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, err: "undecided", asked: []string{askDiscover}},
		{name: "redirect", answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://other.test/mcp", http.StatusTemporaryRedirect)
		}, err: "http://other.test/mcp", asked: []string{askDiscover}, status: 307},
		{name: "a future server", answer: result(`{"supportedVersions":["2030-01-01","2029-01-01"]}`), err: `speaks only "2030-01-01", "2029-01-01"; this proxy speaks 2026-07-28`, asked: []string{askDiscover}},
		{name: "a future server's error", answer: rpcError(400, -32022, `{"supported":["2030-01-01"]}`), err: `speaks only "2030-01-01"`, asked: []string{askDiscover}},
		{name: "neither", answer: reply(404, "", ""), init: reply(404, "", ""), err: "such as /sse", status: 404, asked: []string{askDiscover, askInit, "GET  v= s="}},
		{name: "initialize refused", answer: reply(400, "", ""), init: rpcError(200, -32602, ""), err: `initialize got HTTP 200, error -32602 "m\x1b"`, status: 200, asked: []string{askDiscover, askInit}},
		{name: "unknown legacy version", answer: reply(400, "", ""), init: result(`{"protocolVersion":"2024-10-07"}`), err: `chose version "2024-10-07"`, asked: []string{askDiscover, askInit}},
		{name: "initialize to modern", answer: reply(400, "", ""), init: result(`{"protocolVersion":"2026-07-28"}`), err: `chose version "2026-07-28"`, asked: []string{askDiscover, askInit}},
		{name: "huge answer", answer: result(`{"supportedVersions":["` + strings.Repeat("x", maxProbeAnswer) + `"]}`), err: "over 1048576 bytes", asked: []string{askDiscover}},
		{name: "foreign ids", answer: reply(200, sseType, strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n\n", maxProbeFrames+9)), err: "no answer in 256 messages", asked: []string{askDiscover}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := &peer{answers: answers{"server/discover": tc.answer, "initialize": tc.init}}
			if tc.init == nil {
				p.answers["initialize"] = initOK
			}
			d, _ := realServer(t, p)
			r, err := Probe(t.Context(), dialUp(t, d, nil), ProbeOptions{Upstream: "up"})
			if heard := p.heard(); !slices.Equal(heard, tc.asked) {
				t.Errorf("asked %q\nwant %q", heard, tc.asked)
			}
			if tc.err != "" {
				de, ok := errors.AsType[*session.DialError](err)
				if !ok || de.Upstream != "up" || de.Status != tc.status || strings.Contains(err.Error(), "\x1b") {
					t.Errorf("error %+v", err)
				}
				if text := tc.err; text == "undecided" && !errors.Is(err, ErrUndecided) || text != "undecided" && !strings.Contains(err.Error(), text) {
					t.Errorf("error %v, want %s", err, text)
				}
				return
			}
			if err != nil || r.Era != tc.era || r.Version != tc.version {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestProbeResult(t *testing.T) {
	both := strings.Replace(discoverResult, `["2026-07-28"]`, `["2026-07-28","2025-11-25","2025-06-18","x"]`, 1)
	p := &peer{answers: map[string]http.HandlerFunc{"server/discover": result(both), "initialize": initOK}}
	d, _ := realServer(t, p)
	c := dialUp(t, d, nil)
	r, err := Probe(t.Context(), c, ProbeOptions{})
	if err != nil || !r.Dual || r.LegacyVersion != "2025-11-25" || !r.Tasks || string(r.ServerInfo) != `{"name":"new"}` || r.Instructions != "i" ||
		string(r.Discover) != both || !strings.HasPrefix(string(r.Capabilities), `{"tools"`) || len(r.Versions) != 4 || r.Initialize != nil {
		t.Errorf("got %+v, %v", r, err)
	}
	r, err = Probe(t.Context(), c, ProbeOptions{LegacyFace: true})
	if err != nil || !r.Dual || !r.LegacyTasks || !r.Session || string(r.Initialize) != initResult || string(r.ServerInfo) != `{"name":"new"}` || r.Era != translate.Modern {
		t.Errorf("got %+v, %v", r, err)
	}
	p.answers["initialize"] = rpcError(400, -32022, "")
	if r, err = Probe(t.Context(), c, ProbeOptions{LegacyFace: true}); err != nil || r.Dual || r.LegacyVersion != "" {
		t.Errorf("got %+v, %v", r, err)
	}
	p.answers = map[string]http.HandlerFunc{"server/discover": reply(400, "", ""), "initialize": initOK}
	r, err = Probe(t.Context(), c, ProbeOptions{})
	if err != nil || r.Dual || !r.Tasks || !r.LegacyTasks || !r.Session || string(r.Initialize) != initResult || string(r.ServerInfo) != `{"name":"old"}` || r.Instructions != "i" || r.LegacyVersion != "2025-11-25" {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err = Probe(t.Context(), c, ProbeOptions{Pin: translate.Modern}); err == nil || !strings.Contains(err.Error(), "pinned to the modern era") {
		t.Error(err)
	}
	p.asked = nil
	if r, err = Probe(t.Context(), c, ProbeOptions{Pin: translate.Legacy}); err != nil || r.Era != translate.Legacy || p.heard()[0] != askInit {
		t.Errorf("got %+v, %v, asked %q", r, err, p.heard())
	}
}

// Silence decides nothing, and a challenge reaches whoever asked.
func TestCaseB17_Silence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := pipeServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}))
		start := time.Now()
		_, err := Probe(t.Context(), dialUp(t, d, nil), ProbeOptions{Upstream: "up"})
		if de := wantFail(t, err, session.FailBroken, "no answer within 15s"); de.Status != 504 {
			t.Errorf("status %d", de.Status)
		}
		if !errors.Is(err, ErrUndecided) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != DefaultProbeTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestCaseB36_ProbeCarriesTheChallenge(t *testing.T) {
	d, _ := realServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Www-Authenticate"] = []string{"Bearer a", "Basic b"}
		w.WriteHeader(401)
	}))
	_, err := Probe(t.Context(), dialUp(t, d, nil), ProbeOptions{Upstream: "up"})
	de := wantFail(t, err, session.FailNone)
	if de.HTTP == nil || !slices.Equal(de.HTTP.Header["Www-Authenticate"], []string{"Bearer a", "Basic b"}) || errors.Is(err, ErrUndecided) {
		t.Errorf("%+v", de)
	}
}
