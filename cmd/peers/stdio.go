package peers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// ServeStdio lets one of the servers here speak over a process's standard
// streams: each line of in becomes a request to it, and what it answers, on
// whichever stream, a line of out. It returns when in ends, and the session of
// a legacy server ends with it.
func ServeStdio(h http.Handler, in io.Reader, out io.Writer) error {
	s := &stdioServer{h: h, out: out, cancels: map[string]context.CancelFunc{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	defer s.stop()
	defer s.delete()
	br := bufio.NewReader(in)
	for {
		line, err := br.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			s.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

type stdioServer struct {
	h    http.Handler
	ctx  context.Context
	stop context.CancelFunc

	mu      sync.Mutex // protects the fields below
	out     io.Writer
	session string
	cancels map[string]context.CancelFunc // of modern requests, by raw id
}

func (s *stdioServer) line(raw []byte) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, URI, TaskID string
			RequestID         json.RawMessage
			Meta              map[string]json.RawMessage `json:"_meta"`
		}
	}
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/mcp", bytes.NewReader(raw))
	if err != nil {
		cancel()
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	var version string
	if json.Unmarshal(m.Params.Meta["io.modelcontextprotocol/protocolVersion"], &version) == nil {
		r.Header.Set("MCP-Protocol-Version", version)
		r.Header.Set("Mcp-Method", m.Method)
		if name := m.Params.Name + m.Params.URI + m.Params.TaskID; name != "" {
			r.Header.Set("Mcp-Name", EncodeHeader(name))
		}
		s.mu.Lock()
		s.cancels[string(m.ID)] = cancel
		s.mu.Unlock()
	} else {
		s.mu.Lock()
		if s.session != "" {
			r.Header.Set("Mcp-Session-Id", s.session)
		}
		if stop := s.cancels[string(m.Params.RequestID)]; stop != nil && m.Method == "notifications/cancelled" {
			stop() // what a closed stream is over HTTP
		}
		s.mu.Unlock()
	}
	if m.Method == "initialize" || len(m.ID) == 0 || m.Method == "" {
		s.serve(r)
		cancel()
		if m.Method == "notifications/initialized" {
			s.get()
		}
		return
	}
	go func() {
		defer cancel()
		s.serve(r)
	}()
}

// get opens the stream for what belongs to no request.
func (s *stdioServer) get() {
	r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "http://127.0.0.1/mcp", nil)
	if err != nil {
		return
	}
	r.Header.Set("Accept", "text/event-stream")
	s.mu.Lock()
	r.Header.Set("Mcp-Session-Id", s.session)
	s.mu.Unlock()
	go s.serve(r)
}

// delete ends the session: nobody else knows of it.
func (s *stdioServer) delete() {
	r, err := http.NewRequestWithContext(s.ctx, http.MethodDelete, "http://127.0.0.1/mcp", nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.session == "" {
		return
	}
	r.Header.Set("Mcp-Session-Id", s.session)
	s.h.ServeHTTP(&stdioReply{header: http.Header{}, s: &stdioServer{out: io.Discard}}, r)
}

func (s *stdioServer) serve(r *http.Request) {
	w := &stdioReply{header: http.Header{}, s: s}
	s.h.ServeHTTP(w, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.event.Len() == 0 && !w.sse {
		s.write(w.body.Bytes())
	}
}

func (s *stdioServer) write(raw []byte) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return
	}
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil {
		return
	}
	line.WriteByte('\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.Write(line.Bytes())
}

// stdioReply is a reply that becomes lines: a JSON body one, an event stream
// one an event.
type stdioReply struct {
	s      *stdioServer
	header http.Header

	mu    sync.Mutex // protects the fields below
	sse   bool
	body  bytes.Buffer
	event bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *stdioReply) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *stdioReply) WriteHeader(int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sse = strings.HasPrefix(w.header.Get("Content-Type"), "text/event-stream")
	if id := w.header.Get("Mcp-Session-Id"); id != "" {
		w.s.mu.Lock()
		w.s.session = id
		w.s.mu.Unlock()
	}
}

// Flush implements http.Flusher.
func (w *stdioReply) Flush() {}

// Write implements http.ResponseWriter.
func (w *stdioReply) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.body.Write(p)
	if !w.sse {
		return len(p), nil
	}
	for {
		line, err := w.body.ReadString('\n')
		if err != nil {
			w.body.WriteString(line) // the rest of it is to come
			return len(p), nil
		}
		switch data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data:"); {
		case ok:
			w.event.WriteString(strings.TrimPrefix(data, " ") + "\n")
		case line == "\n" && w.event.Len() > 0:
			w.s.write(w.event.Bytes())
			w.event.Reset()
		}
	}
}
