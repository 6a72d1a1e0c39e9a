package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"taskbridge/translate"
)

// scenario is one kind of request, between two eras.
type scenario struct {
	client, server translate.Era
	what           string
	size           int    // of the message that matters
	reply          int    // bytes a reply has at least
	tool           string // called; "": tasks/get
	args           func(room int) string
	body           int // bytes of the request
	// fresh is how many tasks there are, so that connections do not share a
	// look; the bridge then keeps no snapshots and every tasks/get is a first.
	fresh int
}

func (s scenario) name() string {
	return fmt.Sprintf("%s→%s %s", s.client, s.server, s.what)
}

func (s scenario) path() string {
	if s.server == translate.Modern {
		return pathModern
	}
	return pathLegacy
}

// legs are the pairs of eras.
var legs = [][2]translate.Era{
	{translate.Modern, translate.Modern},
	{translate.Legacy, translate.Legacy},
	{translate.Legacy, translate.Modern},
	{translate.Modern, translate.Legacy},
}

func scenarios(large int) []scenario {
	var list []scenario
	for _, leg := range legs {
		list = append(list, scenario{leg[0], leg[1], "tools/call 1 KB", small, small / 2, toolSmall, textArgs, small, 0})
	}
	for _, leg := range legs[2:] {
		list = append(list, scenario{leg[0], leg[1], "tasks/get finished 1 KB", small, small / 4, "", nil, 0, 0})
	}
	list = append(list, scenario{translate.Modern, translate.Legacy, "tasks/get first fetch", small, small / 4, "", nil, 0, 16})
	size := sizeText(large)
	for _, leg := range legs {
		list = append(list,
			scenario{leg[0], leg[1], "result " + size + " blob", large, large * 9 / 10, toolBlob, textArgs, small, 0},
			scenario{leg[0], leg[1], "request " + size + " blob", large, small / 2, toolSmall, blobArgs, large, 0})
	}
	for _, leg := range legs {
		list = append(list,
			scenario{leg[0], leg[1], "result " + size + " rows", large, large * 9 / 10, toolRows, textArgs, small, 0},
			scenario{leg[0], leg[1], "request " + size + " rows", large, small / 2, toolSmall, rowsArgs, large, 0})
	}
	return list
}

func sizeText(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d KB", n>>10)
}

func textArgs(room int) string { return `{"text":"` + words(room-11) + `"}` }
func blobArgs(room int) string { return `{"data":"` + letters(room-11) + `"}` }
func rowsArgs(room int) string { return `{"rows":` + rows(room-9) + `}` }

// firstID has as many digits as every id that follows it.
const firstID = 1_000_000_000

const modernMeta = `"_meta":{"` + translate.MetaVersion + `":"` + modernVersion + `",` +
	`"` + translate.MetaClientInfo + `":{"name":"bench","version":"1.0.0"},` +
	`"` + translate.MetaClientCaps + `":{"extensions":{"` + translate.ExtTasks + `":{}}}}`

// peer speaks one era to one URL, for what comes before the measured request.
type peer struct {
	era     translate.Era
	url     string
	session string
	id      int
}

// header of a request, in the order it is written.
func (p *peer) header(method, name string) [][2]string {
	h := [][2]string{
		{"User-Agent", "bench/1.0"},
		{"Content-Type", "application/json"},
		{"Accept", "application/json, text/event-stream"},
	}
	if p.era == translate.Modern {
		h = append(h, [2]string{translate.HeaderVersion, modernVersion}, [2]string{translate.HeaderMethod, method})
		if name != "" {
			h = append(h, [2]string{translate.HeaderName, name})
		}
		return h
	}
	if p.session != "" {
		h = append(h, [2]string{translate.HeaderVersion, legacyVersion}, [2]string{translate.HeaderSession, p.session})
	}
	return h
}

// message is a request with the members of its params; modern ones get _meta.
func (p *peer) message(method, members string) []byte {
	if p.era == translate.Modern {
		if members != "" {
			members += ","
		}
		members += modernMeta
	}
	p.id++
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"%s","params":{%s}}`, firstID+p.id, method, members)
}

var client = &http.Client{Timeout: 30 * time.Second}

func (p *peer) post(method, name string, body []byte) (json.RawMessage, http.Header, error) {
	req, err := http.NewRequest(http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for _, h := range p.header(method, name) {
		req.Header.Set(h[0], h[1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode == http.StatusAccepted {
		return nil, resp.Header, err
	}
	var reply struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(raw, &reply); err != nil || reply.Result == nil {
		return nil, nil, fmt.Errorf("%s: HTTP %d: %.300s", method, resp.StatusCode, raw)
	}
	return reply.Result, resp.Header, nil
}

func (p *peer) call(method, name, members string) (json.RawMessage, error) {
	result, _, err := p.post(method, name, p.message(method, members))
	return result, err
}

// open is the handshake of the legacy era.
func (p *peer) open() error {
	if p.era == translate.Modern {
		_, err := p.call("server/discover", "", "")
		return err
	}
	_, h, err := p.post("initialize", "", p.message("initialize", `"protocolVersion":"`+legacyVersion+`","capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}`))
	if err != nil {
		return err
	}
	p.session = h.Get(translate.HeaderSession)
	_, _, err = p.post("", "", []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return err
}

// canned is a request as it goes out, but for Host and the digits of its id.
type canned struct {
	era     translate.Era
	method  string
	name    string
	session string
	body    []byte
	reply   int // bytes its reply has at least
	more    []*canned
}

// of is the request of the i-th connection.
func (c *canned) of(i int) *canned {
	if len(c.more) == 0 {
		return c
	}
	return c.more[i%len(c.more)]
}

// prepare opens what the scenario needs at the bridge and returns its request.
func (s scenario) prepare(url string) (*canned, error) {
	p := &peer{era: s.client, url: url}
	if err := p.open(); err != nil {
		return nil, err
	}
	c := &canned{era: s.client, method: "tools/call", name: s.tool, reply: s.reply, session: p.session}
	if s.tool != "" {
		without := len(p.message(c.method, `"name":"`+s.tool+`","arguments":`))
		c.body = p.message(c.method, `"name":"`+s.tool+`","arguments":`+s.args(max(16, s.body-without)))
		return c, nil
	}
	for range max(1, s.fresh) {
		handle, err := p.finishedTask()
		if err != nil {
			return nil, err
		}
		one := &canned{era: s.client, method: "tasks/get", name: handle, reply: s.reply, session: p.session}
		one.body = p.message(one.method, `"taskId":"`+handle+`"`)
		c.more = append(c.more, one)
	}
	return c, nil
}

// finishedTask makes a task and waits until it is shown finished.
func (p *peer) finishedTask() (string, error) {
	members := `"name":"` + toolJob + `","arguments":{}`
	if p.era == translate.Legacy {
		members += `,"task":{}`
	}
	raw, err := p.call("tools/call", toolJob, members)
	if err != nil {
		return "", err
	}
	type task struct{ TaskID, Status string }
	var created struct {
		task
		Task task
	}
	if err := json.Unmarshal(raw, &created); err != nil {
		return "", err
	}
	handle := created.TaskID + created.Task.TaskID
	var last task
	for range 100 {
		raw, err := p.call("tasks/get", handle, `"taskId":"`+handle+`"`)
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(raw, &last); err != nil {
			return "", err
		}
		if last.Status == "completed" {
			return handle, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", fmt.Errorf("the task stays %q", last.Status)
}

// head is the request's header toward addr.
func (c *canned) head(addr string) []byte {
	p := &peer{era: c.era, session: c.session}
	var b strings.Builder
	b.WriteString("POST /mcp HTTP/1.1\r\nHost: " + addr + "\r\n")
	for _, h := range p.header(c.method, c.name) {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(c.body))
	return []byte(b.String())
}
