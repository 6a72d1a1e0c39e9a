package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"taskbridge/cmd/peers"
	"taskbridge/translate"
)

// steered is a built-in server that a test steers through calls of greet whose
// name begins with an exclamation mark, so that the same works where the server
// is a process of the proxy's. What it has seen it writes to a journal.
type steered struct {
	http.Handler
	era     translate.Era
	legacy  *peers.LegacyServer
	modern  *peers.ModernServer
	drop    func()       // loses every connection
	journal func(string) // one line

	calls sync.WaitGroup // that the journal tells of
	mu    sync.Mutex     // protects heard
	heard int            // notifications/roots/list_changed
}

func newSteered(era translate.Era, journal func(string)) *steered {
	o := peers.ServerOptions{PollInterval: 20 * time.Millisecond}
	s := &steered{era: era, journal: journal}
	if era == translate.Modern {
		s.modern = peers.NewModernServer(o)
		s.Handler = s.modern
	} else {
		s.legacy = peers.NewLegacyServer(o)
		s.Handler = s.legacy
	}
	return s
}

func (s *steered) close() {
	if s.modern != nil {
		s.modern.Close()
	} else {
		s.legacy.Close()
	}
	s.calls.Wait()
}

// ServeHTTP implements http.Handler.
func (s *steered) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.Handler.ServeHTTP(w, r)
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	switch {
	case bytes.Contains(raw, []byte(`"name":"!`)):
		s.steer(w, raw)
		return
	case bytes.Contains(raw, []byte(`"notifications/roots/list_changed"`)):
		s.mu.Lock()
		s.heard++
		s.mu.Unlock()
	case bytes.Contains(raw, []byte(`"slow_plain"`)):
		var m struct {
			Params struct{ Arguments struct{ Label string } }
		}
		_ = json.Unmarshal(raw, &m)
		label := m.Params.Arguments.Label
		w = &beginning{w, sync.OnceFunc(func() { s.journal("began " + label) })}
		s.calls.Add(1)
		defer s.calls.Done()
		defer s.journal("ended " + label)
	}
	s.Handler.ServeHTTP(w, r)
}

// beginning tells when a reply begins: from then on its call can be cancelled.
type beginning struct {
	http.ResponseWriter
	begun func()
}

func (b *beginning) WriteHeader(status int) { b.ResponseWriter.WriteHeader(status); b.begun() }

func (b *beginning) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// steer does what a name tells and answers with a text.
func (s *steered) steer(w http.ResponseWriter, raw []byte) {
	_, rest, _ := bytes.Cut(raw, []byte(`"name":"!`))
	arg, _, _ := bytes.Cut(rest, []byte(`"`))
	word, value, _ := bytes.Cut(arg, []byte(":"))
	text, notice := "done", ""
	switch string(word) {
	case "change":
		if s.modern != nil {
			s.modern.ToolsChanged()
			s.modern.ResourceUpdated("demo://readme")
		} else {
			s.legacy.ToolsChanged()
			s.legacy.ResourceUpdated("demo://readme")
		}
	case "heard":
		s.mu.Lock()
		text = fmt.Sprint(s.heard)
		s.mu.Unlock()
	case "log":
		notice = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a line of the log"}}`
	case "sum":
		text = digestOf(value)
	case "big":
		text = bigText()
	case "drop":
		go s.drop()
	}
	id := callID(raw)
	result := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]`, id, text)
	if s.era == translate.Modern {
		result = append(result, `,"resultType":"complete"`...)
	}
	result = append(result, `}}`...)
	if notice == "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(result)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	fmt.Fprintf(w, "event: message\ndata: %s\n\nevent: message\ndata: %s\n\n", notice, result)
}

// callID is the id of a request, wherever it stands.
func callID(raw []byte) string {
	var m struct{ ID json.RawMessage }
	_ = json.Unmarshal(raw, &m)
	return string(m.ID)
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// bigSize is what the large messages hold.
const bigSize = 12 << 20

// bigText is base64 of bigSize bytes: what images and files are in results.
var bigText = sync.OnceValue(func() string {
	raw := make([]byte, bigSize/4*3)
	seed := [32]byte{1}
	_, _ = rand.NewChaCha8(seed).Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
})

// asPeer makes the test binary a server on stdio, where the environment says so.
func asPeer() {
	era, file := os.Getenv(peerEra), os.Getenv(peerJournal)
	if era == "" {
		return
	}
	journal := func(line string) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = f.WriteString(line + "\n")
			f.Close()
		}
	}
	parsed, _ := translate.ParseEra(era)
	s := newSteered(parsed, journal)
	s.drop = func() { journal("closed"); os.Exit(3) }
	journal("opened")
	_ = peers.ServeStdio(s, os.Stdin, os.Stdout)
	s.close()
	journal("closed")
	os.Exit(0)
}

const (
	peerEra     = "E2E_PEER_ERA"
	peerJournal = "E2E_PEER_JOURNAL"
)

// far is a server the proxy speaks to over one of the transports.
type far struct {
	args  []string // how the proxy is told of it
	lines func() string
	// open is how many connections or processes there are; behind Streamable
	// HTTP, which needs neither, sessions.
	open func() int
}

// saw is true once the server has written the line.
func (f *far) saw(line string) bool { return strings.Contains("\n"+f.lines(), "\n"+line+"\n") }

// stillOpen counts in a journal.
func stillOpen(lines func() string) func() int {
	return func() (n int) {
		for line := range strings.Lines(lines()) {
			switch line {
			case "opened\n":
				n++
			case "closed\n":
				n--
			}
		}
		return n
	}
}

// fars start a server for a transport.
var fars = map[string]func(t testing.TB, era translate.Era) *far{
	"http": farHTTP, "stdio": farStdio, "ws": farSocket, "sse": farSSE,
}

func farStdio(t testing.TB, era translate.Era) *far {
	file := filepath.Join(t.TempDir(), "journal")
	lines := func() string {
		raw, _ := os.ReadFile(file)
		return string(raw)
	}
	return &far{
		args:  []string{"-e", peerEra + "=" + era.String(), "-e", peerJournal + "=" + file, "--", os.Args[0]},
		lines: lines, open: stillOpen(lines),
	}
}

// memoryJournal is the journal of a server in this process.
func memoryJournal() (write func(string), read func() string) {
	var b lockedBuffer
	return func(line string) { fmt.Fprintln(&b, line) }, b.String
}

func farHTTP(t testing.TB, era translate.Era) *far {
	write, read := memoryJournal()
	s := newSteered(era, write)
	server := httptest.NewServer(s)
	s.drop = func() {
		server.CloseClientConnections()
		if s.legacy != nil {
			s.legacy.EndSessions()
		}
	}
	t.Cleanup(func() { s.close(); server.Close() })
	return &far{args: []string{"--upstream", server.URL + "/mcp"}, lines: read, open: func() int {
		if s.legacy != nil {
			return s.legacy.Sessions()
		}
		return 0
	}}
}

// connections are those of a server, to be lost together.
type connections struct {
	mu  sync.Mutex
	all map[any]func()
}

func (c *connections) add(key any, cut func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[any]func(){}
	}
	c.all[key] = cut
}

func (c *connections) remove(key any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, key)
}

func (c *connections) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cut := range c.all {
		cut()
	}
}

func farSocket(t testing.TB, era translate.Era) *far {
	write, read := memoryJournal()
	s := newSteered(era, write)
	var open connections
	s.drop = open.cut
	upgrader := websocket.Upgrader{Subprotocols: []string{"mcp"}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		write("opened")
		open.add(ws, func() { ws.NetConn().Close() })
		defer func() { open.remove(ws); ws.Close(); write("closed") }()
		in, feed := io.Pipe()
		go func() {
			for {
				_, raw, err := ws.ReadMessage()
				if err != nil {
					feed.Close()
					return
				}
				_, _ = feed.Write(append(raw, '\n'))
			}
		}()
		_ = peers.ServeStdio(s, in, writerFunc(func(line []byte) error {
			return ws.WriteMessage(websocket.TextMessage, bytes.TrimSuffix(line, []byte("\n")))
		}))
	}))
	t.Cleanup(func() { open.cut(); s.close(); server.Close() })
	return &far{args: []string{"--upstream", "ws" + strings.TrimPrefix(server.URL, "http") + "/mcp"}, lines: read, open: stillOpen(read)}
}

type writerFunc func([]byte) error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(p) }

// farSSE is a server of HTTP+SSE (2024-11-05 basic/transports).
func farSSE(t testing.TB, era translate.Era) *far {
	write, read := memoryJournal()
	s := newSteered(era, write)
	var open connections
	s.drop = open.cut
	feeds := sync.Map{} // session: *io.PipeWriter
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		in, feed := io.Pipe()
		id := fmt.Sprintf("%p", feed)
		feeds.Store(id, feed)
		write("opened")
		open.add(feed, cancel)
		defer func() { open.remove(feed); feeds.Delete(id); feed.Close(); write("closed") }()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: /message?session=%s\n\n", id)
		flush := http.NewResponseController(w).Flush
		_ = flush()
		lines := make(chan []byte)
		go func() {
			_ = peers.ServeStdio(s, in, writerFunc(func(line []byte) error {
				select {
				case lines <- bytes.Clone(line):
				case <-ctx.Done():
				}
				return nil
			}))
		}()
		for {
			select {
			case line := <-lines:
				fmt.Fprintf(w, "event: message\ndata: %s\n", line)
				_ = flush()
			case <-ctx.Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /message", func(w http.ResponseWriter, r *http.Request) {
		feed, ok := feeds.Load(r.URL.Query().Get("session"))
		raw, err := io.ReadAll(r.Body)
		if !ok || err != nil {
			http.Error(w, "no such session", http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = feed.(*io.PipeWriter).Write(append(raw, '\n'))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() { open.cut(); s.close(); server.Close() })
	return &far{args: []string{"--upstream", server.URL + "/sse"}, lines: read, open: stillOpen(read)}
}
