package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"taskbridge/translate"
)

// Paths of the server's two faces.
const (
	pathModern = "/modern"
	pathLegacy = "/legacy"
)

// Tools of the server. Each answers with a canned result; the reverse proxy
// brings requests of either era to either face, so tools are found by their
// name in the body and nothing else is looked at.
const (
	toolPrefix = `"bench_`
	toolSmall  = "bench_small" // a result of about 1 KB
	toolBlob   = "bench_blob"  // a large one that is one string
	toolRows   = "bench_rows"  // a large one of many small values
	toolJob    = "bench_job"   // becomes a task that is finished at once
)

// replies are the results of one face.
type replies struct {
	methods map[string][]byte
	tools   map[string][]byte
}

// server answers canned bytes in both eras.
type server struct{ modern, legacy *replies }

func newServer(large int) http.Handler {
	return &server{modern: modernReplies(large), legacy: legacyReplies(large)}
}

// bodies lends buffers for request bodies, so that the server's garbage does
// not weigh on what is measured.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	face := s.modern
	if r.URL.Path == pathLegacy {
		face = s.legacy
	}
	switch r.Method {
	case http.MethodPost:
	case http.MethodDelete:
		return
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	buf := bodies.Get().(*[]byte)
	defer bodies.Put(buf)
	body, err := readBody(r, *buf)
	*buf = body[:0]
	if err != nil {
		return
	}
	served.Add(1)
	face.answer(w, body)
}

// served counts the requests this process has answered, made its tasks.
var served, made atomic.Uint64

// jobID is the id of the canned tasks; each new one gets its own in its place.
const jobID = "0b7e6f0c9d2a4c1e"

func readBody(r *http.Request, buf []byte) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(r.Body)
	}
	n := int(r.ContentLength)
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err := io.ReadFull(r.Body, buf)
	return buf, err
}

func (f *replies) answer(w http.ResponseWriter, body []byte) {
	method := after(body, `"method":"`, `"`)
	if bytes.HasPrefix(method, []byte("notifications/")) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := f.methods[string(method)]
	if string(method) == "tools/call" {
		tool := "bench_" + string(after(body, toolPrefix, `"`))
		if result = f.tools[tool]; tool == toolJob {
			result = bytes.Replace(result, []byte(jobID), fmt.Appendf(nil, "%016x", made.Add(1)), 1)
		}
	}
	id := after(body, `"id":`, ",")
	head := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), ',')
	if result == nil {
		result = []byte(`"error":{"code":-32601,"message":"Method not found"}}`)
	}
	if string(method) == "initialize" {
		w.Header().Set("Mcp-Session-Id", "5c1b6a52-1c3b-4d0a-9a5e-3f1d2c7b8e90")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(head)+len(result)))
	_, _ = w.Write(head)
	_, _ = w.Write(result)
}

// after is what stands between before and the next end.
func after(b []byte, before, end string) []byte {
	i := bytes.Index(b, []byte(before))
	if i < 0 {
		return nil
	}
	b = b[i+len(before):]
	return b[:max(0, bytes.Index(b, []byte(end)))]
}

const (
	modernVersion = translate.LatestModern
	legacyVersion = translate.LatestLegacy
)

// result closes a response around its result.
func result(raw string) []byte { return []byte(`"result":` + raw + `}`) }

const (
	serverMeta = `"_meta":{"` + translate.MetaServerInfo + `":{"name":"bench","version":"1.0.0"}}`
	taskDates  = `"createdAt":"2026-01-02T03:04:05.000Z","lastUpdatedAt":"2026-01-02T03:04:06.000Z"`
)

func toolList(taskSupport bool) string {
	var b strings.Builder
	b.WriteString(`"tools":[`)
	for i, name := range []string{toolSmall, toolBlob, toolRows, toolJob} {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"name":"` + name + `","inputSchema":{"type":"object"}`)
		if taskSupport && name == toolJob {
			b.WriteString(`,"execution":{"taskSupport":"optional"}`)
		}
		b.WriteByte('}')
	}
	b.WriteByte(']')
	return b.String()
}

func modernReplies(large int) *replies {
	call := func(content string) []byte {
		return result(`{"resultType":"complete",` + content + `,` + serverMeta + `}`)
	}
	task := `"taskId":"` + jobID + `","status":"completed","statusMessage":"` + words(480) + `",` + taskDates +
		`,"ttlMs":3600000,"pollIntervalMs":100,"result":{"resultType":"complete",` + textContent(200) + `}`
	return &replies{
		methods: map[string][]byte{
			"server/discover": result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["` + modernVersion + `"],` +
				`"capabilities":{"tools":{},"extensions":{"` + translate.ExtTasks + `":{}}},` + serverMeta + `}`),
			"tools/list": result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + toolList(false) + `}`),
			"tasks/get":  result(`{"resultType":"complete",` + task + `,` + serverMeta + `}`),
		},
		tools: map[string][]byte{
			toolSmall: call(textContent(small - 200)),
			toolBlob:  call(blobContent(large - 256)),
			toolRows:  call(rowsContent(large - 256)),
			toolJob:   result(`{"resultType":"task","taskId":"` + jobID + `","status":"working",` + taskDates + `,"ttlMs":3600000,"pollIntervalMs":100,` + serverMeta + `}`),
		},
	}
}

func legacyReplies(large int) *replies {
	call := func(content string) []byte { return result(`{` + content + `}`) }
	task := `{"taskId":"` + jobID + `","status":"completed","statusMessage":"` + words(480) + `",` + taskDates + `,"ttl":3600000,"pollInterval":100}`
	return &replies{
		methods: map[string][]byte{
			"initialize": result(`{"protocolVersion":"` + legacyVersion + `","capabilities":{"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},` +
				`"serverInfo":{"name":"bench","version":"1.0.0"}}`),
			"tools/list":   result(`{` + toolList(true) + `}`),
			"tasks/get":    result(task),
			"tasks/result": result(`{` + textContent(200) + `,"_meta":{"` + translate.MetaRelatedTask + `":{"taskId":"` + jobID + `"}}}`),
		},
		tools: map[string][]byte{
			toolSmall: call(textContent(small - 90)),
			toolBlob:  call(blobContent(large - 256)),
			toolRows:  call(rowsContent(large - 256)),
			toolJob:   result(`{"task":{"taskId":"` + jobID + `","status":"working",` + taskDates + `,"ttl":3600000,"pollInterval":100}}`),
		},
	}
}
