package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbridge/cmd/peers"
	"taskbridge/session"
	"taskbridge/translate"
)

// S21: a session belongs to its principal. For anybody else it does not exist,
// and its owner notices nothing.
func TestSafetyS21_SessionTheft(t *testing.T) {
	for _, era := range []translate.Era{translate.Legacy, translate.Modern} {
		t.Run(era.String()+" server", func(t *testing.T) {
			push := make(chan string)
			server := newScripted(t, era, func(c *scriptCall) bool {
				if c.R.Method != http.MethodGet {
					return false
				}
				c.Begin()
				for {
					select {
					case m := <-push:
						c.Events(m)
					case <-c.R.Context().Done():
						return true
					}
				}
			})
			g := newRig(t, server.URL, bridgeOptions{})
			a, b := newCaller(t, g, translate.Legacy, "a"), newCaller(t, g, translate.Legacy, "b")
			get := a.headers("", "")
			get.Del("Content-Type")
			get.Set("Accept", "text/event-stream")
			lines, status, _ := a.stream("GET", get, "")
			if status != 200 {
				t.Fatalf("GET: %d", status)
			}
			thief := &caller{t: t, g: g, era: translate.Legacy, http: b.http, token: "b", session: a.session}
			nobody := &caller{t: t, g: g, era: translate.Legacy, http: b.http, token: "b", session: "AAAAAAAAAAAAAAAAAAAAAAAA"}
			anonymous := &caller{t: t, g: g, era: translate.Legacy, http: b.http, session: a.session}
			for _, verb := range []string{"POST", "GET", "DELETE"} {
				body := ""
				if verb == "POST" {
					body = request("9", "tools/call", `{"name":"ok","arguments":{}}`)
				}
				ask := func(c *caller) rawReply {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					return c.do(ctx, verb, c.headers("", ""), body)
				}
				foreign, unknown, none := ask(thief), ask(nobody), ask(anonymous)
				if foreign.Status != 404 || string(foreign.Body) != string(unknown.Body) || unknown.Status != 404 {
					t.Errorf("%s: foreign %s, unknown %s", verb, foreign, unknown)
				}
				if none.Status != 404 || string(none.Body) != string(unknown.Body) {
					t.Errorf("%s without a credential: %s", verb, none)
				}
			}
			// Answers and cancels of a thief do nothing either.
			for _, body := range []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`} {
				if r := thief.post(thief.headers("", ""), body); r.Status != 404 {
					t.Errorf("thief's %s: %s", body, r)
				}
			}
			if r := a.tool("ok", ""); r.Text() != "fine" {
				t.Errorf("owner afterwards: %s", r)
			}
			if era == translate.Legacy {
				push <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
				nextLine(t, lines, "list_changed")
			}
			// A second GET of the owner lives beside the first.
			more, status, _ := a.stream("GET", get, "")
			if status != 200 {
				t.Errorf("second GET: %d", status)
			}
			if era == translate.Legacy {
				push <- `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`
				got := 0
				limit := time.After(patience)
				for got == 0 {
					select {
					case l := <-lines:
						got += strings.Count(l, "prompts/list_changed")
					case l := <-more:
						got += strings.Count(l, "prompts/list_changed")
					case <-limit:
						t.Fatal("the message came on no stream")
					}
				}
			}
		})
	}
}

// S26: a foreign handle and one that never was are told apart by nothing: not
// by the answer, not by a request to the server.
func TestSafetyS26_ForeignTaskHandles(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			url, server := countedPeer(t, pair.server, peers.ServerOptions{})
			// The route's own credential: all callers are one for the server.
			g := newRig(t, url, bridgeOptions{Header: http.Header{"Authorization": {"Bearer route"}}, Policy: session.Policy{SealSameEra: true}})
			owner := newCaller(t, g, pair.client, "owner")
			augment := ""
			if pair.client == translate.Legacy {
				augment = `,"task":{}`
			}
			r := owner.call("tools/call", `"name":"slow_compute","arguments":{"seconds":60}`+augment)
			handle := taskIDOf(r)
			if handle == "" {
				t.Fatalf("no task: %s", r)
			}
			if r := owner.call("tasks/get", `"taskId":`+quote(handle)); r.field("status") != "working" {
				t.Fatalf("owner: %s", r)
			}
			if pair.client == translate.Modern && pair.server == translate.Legacy {
				// The owner's questions would come there: no thief asked for it.
				eventually(t, "the owner's tasks/result", func() bool { return len(server.Requests("tasks/result")) > 0 })
			}
			unknown := handle[:len(handle)-8] + "AAAAAAAA"
			methods := []string{"tasks/get", "tasks/cancel", "tasks/result"}
			if pair.client == translate.Modern {
				methods = []string{"tasks/get", "tasks/cancel", "tasks/update"}
			}
			for i := range 50 {
				thief := newCaller(t, g, pair.client, fmt.Sprintf("thief-%d", i%5))
				thief.tool("greet", "")
				server.Forget()
				for _, method := range methods {
					p := func(id string) string { return thief.params(`"inputResponses":{},"taskId":` + quote(id)) }
					foreign, never := thief.send("7", method, p(handle)), thief.send("7", method, p(unknown))
					if foreign.Status != never.Status || string(foreign.Body) != string(never.Body) || foreign.Code() != -32602 || len(foreign.Answers) != 1 {
						t.Fatalf("%s: foreign %s, unknown %s", method, foreign, never)
					}
					if fmt.Sprint(foreign.Header["Content-Type"], foreign.Header["Content-Length"]) != fmt.Sprint(never.Header["Content-Type"], never.Header["Content-Length"]) {
						t.Errorf("%s: headers %v and %v", method, foreign.Header, never.Header)
					}
				}
				for _, up := range server.Requests("") {
					if strings.HasPrefix(up.Method, "tasks/") {
						t.Fatalf("the server was asked %s", up.Method)
					}
				}
				if pair.client == translate.Legacy {
					if r := thief.call("tasks/list", ""); strings.Contains(string(r.Body), "taskId") {
						t.Fatalf("the thief's list: %s", r)
					}
				} else if pair.server == translate.Legacy {
					lines, status, leave := thief.stream("POST", thief.headers("subscriptions/listen", ""), request("1", "subscriptions/listen", thief.params(`"notifications":{"taskIds":[`+quote(handle)+`,`+quote(unknown)+`]}`)))
					if status != 200 {
						t.Fatalf("listen: %d %s", status, <-lines)
					}
					if l := nextLine(t, lines, "acknowledged"); strings.Contains(l, "tb1_") {
						t.Fatalf("listen acknowledged %s", l)
					}
					leave()
				}
			}
			if r := owner.call("tasks/get", `"taskId":`+quote(handle)); r.field("status") != "working" {
				t.Errorf("owner afterwards: %s", r)
			}
			if pair.client == translate.Legacy {
				if r := owner.call("tasks/list", ""); !strings.Contains(string(r.Body), handle) {
					t.Errorf("owner's list: %s", r)
				}
			}
			if r := owner.call("tasks/cancel", `"taskId":`+quote(handle)); r.Code() != 0 {
				t.Errorf("owner's cancel: %s", r)
			}
		})
	}
}

// S27: where callers share what goes up, a server's requestState and cursors
// serve only whom they were given to.
func TestSafetyS27_SharedUpstreamCredential(t *testing.T) {
	const state, cursor = `{"user":"a","é":"\n"}`, "page-2"
	server := newScripted(t, translate.Modern, func(c *scriptCall) bool {
		var p struct {
			RequestState, Cursor *string
			InputResponses       json.RawMessage
		}
		_ = json.Unmarshal(c.Params, &p)
		switch {
		case c.Method == "tools/list" && p.Cursor == nil:
			c.Result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[],"nextCursor":"` + cursor + `"}`)
		case c.Method == "tools/list" && *p.Cursor == cursor:
			c.Result(c.complete(`"tools":[{"name":"second","inputSchema":{"type":"object"}}]`))
		case c.Tool == "asks" && p.RequestState == nil:
			c.Result(`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":` + quote(state) + `}`)
		case c.Tool == "asks" && *p.RequestState == state:
			c.Result(c.text("resumed"))
		default:
			return false
		}
		return true
	})
	for _, sealed := range []bool{true, false} {
		g := newRig(t, server.URL, bridgeOptions{Policy: session.Policy{SealSameEra: sealed}})
		a, b := newCaller(t, g, translate.Modern, "a"), newCaller(t, g, translate.Modern, "b")
		var asks struct{ RequestState, NextCursor string }
		_ = json.Unmarshal(a.tool("asks", "").answer().Result, &asks)
		list := a.call("tools/list", "")
		_ = json.Unmarshal(list.answer().Result, &asks)
		if (asks.RequestState == state) == sealed || (asks.NextCursor == cursor) == sealed {
			t.Fatalf("sealed %v: given %+v", sealed, asks)
		}
		retry := `"inputResponses":{"k":{"action":"accept","content":{}}},"requestState":` + quote(asks.RequestState)
		page := `"cursor":` + quote(asks.NextCursor)
		if sealed {
			server.Forget()
			for _, r := range []rawReply{b.tool("asks", retry), b.call("tools/list", page), b.tool("asks", `"requestState":`+quote(state)), b.call("tools/list", `"cursor":"`+cursor+`"`), b.call("tools/list", `"cursor":5`),
				b.tool("asks", `"requestState":`+quote(asks.NextCursor)), a.tool("asks", `"requestState":`+quote(asks.NextCursor)), a.call("tools/list", `"cursor":`+quote(asks.RequestState))} {
				if r.Status != 200 || r.Code() != -32602 || len(r.Answers) != 1 {
					t.Errorf("replayed: %s", r)
				}
			}
			if n := len(server.Requests("")); n != 1 && n != 0 { // a probe at most
				t.Errorf("%d requests reached the server: %v", n, server.Requests(""))
			}
		}
		if r := a.tool("asks", retry); r.Text() != "resumed" {
			t.Errorf("sealed %v: owner's retry: %s", sealed, r)
		}
		if r := a.call("tools/list", page); !strings.Contains(string(r.Body), "second") {
			t.Errorf("sealed %v: owner's page: %s", sealed, r)
		}
	}
}

// S28: of equal retries over two runners one resumes the call, which runs once.
func TestSafetyS28_SingleUseRaced(t *testing.T) {
	server := peers.NewLegacyServer(peers.ServerOptions{})
	g := newRig(t, startPeer(t, server), bridgeOptions{Runners: 2})
	c := newCaller(t, g, translate.Modern, "a")
	for round := range 3 {
		var a asked
		_ = json.Unmarshal(c.tool("ask_name", "").answer().Result, &a)
		if a.RequestState == "" || len(a.InputRequests) != 1 {
			t.Fatalf("not asked: %+v", a)
		}
		responses := ""
		for key := range a.InputRequests {
			responses = `{` + quote(key) + `:{"action":"accept","content":{"name":"Ada"}}}`
		}
		p := c.params(`"name":"ask_name","arguments":{},"inputResponses":` + responses + `,"requestState":` + quote(a.RequestState))
		replies := make([]rawReply, 50)
		var wg sync.WaitGroup
		for i := range replies {
			wg.Go(func() { replies[i] = c.send(fmt.Sprint(i), "tools/call", p) })
		}
		wg.Wait()
		resumed, refused, texts := 0, 0, map[string]bool{}
		for _, r := range replies {
			switch r.Code() {
			case 0:
				resumed++
			case -32602:
				refused++
				texts[r.answer().Error.Message] = true
			default:
				t.Errorf("got %s", r)
			}
		}
		if resumed != 1 || refused != 49 || len(texts) != 1 {
			t.Errorf("%d resumed, %d refused in words %v", resumed, refused, texts)
		}
		if n := server.Calls("ask_name"); n != round+1 {
			t.Errorf("the tool ran %d times", n)
		}
	}
}

// S30: two callers use equal ids at once; a server that answers with the
// other's id reaches nobody, and each gets its own answer.
func TestSafetyS30_AnswersOfOthers(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			gate := make(chan struct{})
			server := newScripted(t, pair.server, tools(map[string]func(c *scriptCall){
				"waits": func(c *scriptCall) { <-gate; c.Result(c.text("own")) },
				"lies": func(c *scriptCall) {
					c.SSE(`{"jsonrpc":"2.0","id":100,"result":`+c.text("stolen")+`}`, `{"jsonrpc":"2.0","id":1,"result":`+c.text("stolen")+`}`, `{"jsonrpc":"2.0","id":2,"result":`+c.text("stolen")+`}`)
				},
			}))
			g := newRig(t, server.URL, bridgeOptions{})
			a, b := newCaller(t, g, pair.client, "a"), newCaller(t, g, pair.client, "b")
			done := make(chan rawReply, 1)
			go func() { done <- a.send("100", "tools/call", a.params(`"name":"waits","arguments":{}`)) }()
			eventually(t, "the call is under way", func() bool { return server.Ran("waits") == 1 })
			r := b.send("200", "tools/call", b.params(`"name":"lies","arguments":{}`))
			close(gate)
			if len(r.Answers) != 1 || r.Code() == 0 && string(r.answer().ID) != "200" {
				t.Errorf("liar's caller: %s", r)
			}
			if got := <-done; got.Text() != "own" || len(got.Answers) != 1 {
				t.Errorf("the other: %s", got)
			}
			if g.Losses.droppedOf("answer") == 0 {
				t.Error("nothing was counted")
			}
		})
	}
}

// S31: what one user was given is never given to another, "public" or not.
func TestSafetyS31_NoCacheAcrossUsers(t *testing.T) {
	for _, pair := range pairings {
		t.Run(pair.name, func(t *testing.T) {
			server := newScripted(t, pair.server, func(c *scriptCall) bool {
				if c.Method != "tools/list" {
					return false
				}
				who := strings.TrimPrefix(c.R.Header.Get("Authorization"), "Bearer ")
				c.Result(`{"resultType":"complete","ttlMs":3600000,"cacheScope":"public","tools":[{"name":"of-` + who + `","inputSchema":{"type":"object"}}]}`)
				return true
			})
			g := newRig(t, server.URL, bridgeOptions{})
			for _, who := range []string{"a", "b", "a"} {
				c := newCaller(t, g, pair.client, who)
				if r := c.call("tools/list", ""); !strings.Contains(string(r.Body), `"of-`+who+`"`) {
					t.Errorf("%s got %s", who, r)
				}
			}
		})
	}
}
