package session

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
)

// NewPlainHandles returns Handles that seal nothing: a task keeps the server's
// own ID, other things get short names, and what they stand for is remembered
// here. They are for work without peers, where a capture is to keep its IDs.
func NewPlainHandles() *Handles {
	key := make([]byte, MinStateKey)
	rand.Read(key) // never fails, says its documentation
	h, err := NewHandles([][]byte{key})
	if err != nil {
		panic("session: " + err.Error()) // the key is long enough
	}
	h.plain = &plainHandles{names: map[string]string{}, meanings: map[string]string{}}
	return h
}

// plainHandles grow with the number of tasks and parked calls of one run.
type plainHandles struct {
	mu       sync.Mutex
	names    map[string]string // meaning → name
	meanings map[string]string // name → meaning
}

// name gives a meaning its name: wish, if that is free.
func (h *plainHandles) name(kind string, p Principal, plaintext []byte, wish string) string {
	meaning := kind + "\x00" + string(p) + "\x00" + string(plaintext)
	h.mu.Lock()
	defer h.mu.Unlock()
	if name, ok := h.names[meaning]; ok {
		return name
	}
	if wish == "" {
		what, _, _ := strings.Cut(kind, upstreamMark) // there is one upstream
		wish = what + "-" + strconv.Itoa(len(h.names)+1)
	}
	name := wish
	for n := 2; h.meanings[name] != ""; n++ { // two servers' sessions may use one ID
		name = wish + "~" + strconv.Itoa(n)
	}
	h.names[meaning], h.meanings[name] = name, meaning
	return name
}

func (h *plainHandles) open(kind string, p Principal, name string) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	plaintext, ok := strings.CutPrefix(h.meanings[name], kind+"\x00"+string(p)+"\x00")
	return []byte(plaintext), ok
}

func (h *plainHandles) has(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.meanings[name] != ""
}
