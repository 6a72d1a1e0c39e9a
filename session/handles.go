package session

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// MinStateKey is the least a state key holds, in bytes.
const MinStateKey = 32

// KindTask labels the handles that SealTask makes.
const KindTask = "task"

const (
	sealPrefix = "tb1_"
	sealKeyID  = 2
	sealNonce  = 12
	sealTag    = 16

	// Task handles travel in Mcp-Name headers, and nothing cryptographic is
	// done for longer ones.
	maxTaskHandle = 2048
	// Other kinds may carry a server's own requestState.
	maxSealed = 1 << 20

	stateKeyRecord = "statekey"
	stateKeyMagic  = "taskbridge-statekey-1\n"
	maxKeyFile     = 4096
)

// sealEncoding is strict, so that no two spellings mean one handle.
var sealEncoding = base64.RawURLEncoding.Strict()

// Handles seals what the proxy must find again in what peers send back:
// upstream, session and server's ID of a task, states, cursors. Sealing is
// deterministic: the nonce is a keyed hash of what is sealed. Each kind has
// keys of its own, so one kind never opens as another. Safe for concurrent
// use.
type Handles struct {
	ring  atomic.Pointer[keyring]
	turn  sync.Mutex    // held while the keys change
	marks []byte        // the secret of mark; it stays
	plain *plainHandles // nil: things are sealed
}

type handleKey struct {
	secret []byte
	id     [sealKeyID]byte
	mask   []byte
	kinds  sync.Map // kind string → *kindKey; kinds come from this program, never from peers
}

func newHandleKey(secret []byte) *handleKey {
	k := &handleKey{secret: bytes.Clone(secret)}
	copy(k.id[:], deriveKey(k.secret, "key id", sealKeyID))
	k.mask = deriveKey(k.secret, "mask", sha256.Size)
	return k
}

type kindKey struct {
	aead cipher.AEAD
	mac  []byte
}

// NewHandles returns Handles under keys: the first seals, all open. Each has
// at least MinStateKey bytes.
func NewHandles(keys [][]byte) (*Handles, error) {
	h := &Handles{}
	h.ring.Store(new(keyring))
	if err := h.SetKeys(keys, time.Time{}); err != nil {
		return nil, err
	}
	h.marks = h.ring.Load().keys[0].mask
	return h, nil
}

func deriveKey(secret []byte, label string, n int) []byte {
	k, err := hkdf.Key(sha256.New, secret, nil, "taskbridge 1 "+label, n)
	if err != nil {
		panic("session: " + err.Error()) // lengths here are constants far below HKDF's bound
	}
	return k
}

func (k *handleKey) kind(kind string) *kindKey {
	if v, ok := k.kinds.Load(kind); ok {
		return v.(*kindKey)
	}
	block, err := aes.NewCipher(deriveKey(k.secret, "seal "+kind, 32))
	if err != nil {
		panic("session: " + err.Error()) // 32 bytes are a legal AES key
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("session: " + err.Error()) // AES has GCM's block size
	}
	v, _ := k.kinds.LoadOrStore(kind, &kindKey{aead: aead, mac: deriveKey(k.secret, "nonce "+kind, 32)})
	return v.(*kindKey)
}

func (k *kindKey) nonce(p Principal, plaintext []byte) []byte {
	m := hmac.New(sha256.New, k.mac)
	m.Write(binary.AppendUvarint(nil, uint64(len(p))))
	m.Write([]byte(p))
	m.Write(plaintext)
	return m.Sum(nil)[:sealNonce]
}

func sealedLimit(kind string) int {
	if kind == KindTask {
		return maxTaskHandle
	}
	return maxSealed
}

// Seal seals plaintext for whoever brings it back. The result is safe in
// headers and URLs. It is empty when it would be longer than Open takes
// (2048 characters for KindTask, 1 MiB for other kinds).
func (h *Handles) Seal(kind string, plaintext []byte) string {
	return h.SealFor(kind, "", plaintext)
}

// Open returns what Seal was given, and false for anything else.
func (h *Handles) Open(kind, s string) ([]byte, bool) {
	return h.OpenFor(kind, "", s)
}

// SealFor is Seal for one principal: OpenFor opens it for nobody else.
func (h *Handles) SealFor(kind string, p Principal, plaintext []byte) string {
	if h.plain != nil {
		return h.plain.name(kind, p, plaintext, "")
	}
	raw := sealKeyID + sealNonce + len(plaintext) + sealTag
	if len(sealPrefix)+sealEncoding.EncodedLen(raw) > sealedLimit(kind) {
		return ""
	}
	k := h.ring.Load().keys[0]
	kk := k.kind(kind)
	out := make([]byte, 0, raw)
	out = append(out, k.id[:]...)
	out = append(out, kk.nonce(p, plaintext)...)
	out = kk.aead.Seal(out, out[sealKeyID:], plaintext, []byte(p))
	return sealPrefix + sealEncoding.EncodeToString(out)
}

// OpenFor returns what SealFor was given for p. Garbage, other kinds, other
// principals and other keys all fail in the same place.
func (h *Handles) OpenFor(kind string, p Principal, s string) ([]byte, bool) {
	if h.plain != nil {
		return h.plain.open(kind, p, s)
	}
	if len(s) > sealedLimit(kind) || !IsHandle(s) {
		return nil, false
	}
	raw, err := sealEncoding.DecodeString(s[len(sealPrefix):])
	if err != nil {
		return nil, false
	}
	id, nonce, box := raw[:sealKeyID], raw[sealKeyID:sealKeyID+sealNonce], raw[sealKeyID+sealNonce:]
	tried := false
	ring := h.ring.Load()
	for _, k := range ring.all {
		if !bytes.Equal(id, k.id[:]) {
			continue
		}
		tried = true
		if out, err := k.kind(kind).aead.Open(nil, nonce, box, []byte(p)); err == nil {
			return out, true
		}
	}
	if !tried {
		// An unknown key costs what a known one does.
		_, _ = ring.keys[0].kind(kind).aead.Open(nil, nonce, box, []byte(p))
	}
	return nil, false
}

// IsHandle says that s has the form of something sealed here or by another
// proxy; only opening it tells. A server's own IDs may have the form too.
func IsHandle(s string) bool {
	body, ok := strings.CutPrefix(s, sealPrefix)
	if !ok || len(s) > maxSealed || len(body) < sealEncoding.EncodedLen(sealKeyID+sealNonce+sealTag) {
		return false
	}
	for i := range len(body) {
		c := body[i]
		// The decoder would skip line breaks.
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// IsHandle is the function of the same name.
func (h *Handles) IsHandle(s string) bool {
	if h.plain != nil {
		return h.plain.has(s)
	}
	return IsHandle(s)
}

// TaskRef is what a task handle stands for.
type TaskRef struct {
	Upstream  string
	Session   string    // the session of the server that knows the task; empty toward modern servers
	ID        string    // the server's ID, or our own when Minted
	Principal Principal // zero: whoever holds the handle
	Minted    bool      // we made the ID; the server knows the task, if at all, by another one
}

// SealTask returns the handle of a task. Equal refs have equal handles while
// the first key stays; a handle once given is kept, not sealed anew (see
// handleOf). It is
// empty when the server's ID is too long to be sealed (about 1400 bytes with
// upstream and session): then mint an ID and remember the server's.
func (h *Handles) SealTask(r TaskRef) string {
	b := make([]byte, 0, 1+4+len(r.Upstream)+len(r.Session)+len(r.ID))
	var flags byte
	if r.Minted {
		flags = 1
	}
	b = append(b, flags)
	for _, s := range []string{r.Upstream, r.Session} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = append(b, r.ID...)
	if h.plain != nil {
		return h.plain.name(KindTask, r.Principal, b, r.ID)
	}
	return h.SealFor(KindTask, r.Principal, b)
}

// OpenTask returns what handle stands for if it was sealed for p. A foreign
// handle, garbage and other kinds give the same false.
func (h *Handles) OpenTask(handle string, p Principal) (TaskRef, bool) {
	b, ok := h.OpenFor(KindTask, p, handle)
	if !ok || len(b) == 0 || b[0] > 1 {
		return TaskRef{}, false
	}
	r := TaskRef{Principal: p, Minted: b[0] == 1}
	b = b[1:]
	for _, s := range []*string{&r.Upstream, &r.Session} {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > uint64(len(b)-w) {
			return TaskRef{}, false
		}
		*s = string(b[w : w+int(n)])
		b = b[w+int(n):]
	}
	r.ID = string(b)
	return r, true
}

// Mask is how p is shown in logs, captures and reports: 16 hex characters
// that only holders of the first state key can compute. It changes with that.
func (h *Handles) Mask(p Principal) string {
	return h.MaskText("principal", string(p))
}

// MaskText is Mask for other texts; equal texts of two kinds look different.
func (h *Handles) MaskText(kind, s string) string {
	return maskText(h.ring.Load().keys[0].mask, kind, s)
}

func maskText(secret []byte, kind, s string) string {
	m := hmac.New(sha256.New, secret)
	m.Write(binary.AppendUvarint(nil, uint64(len(kind))))
	m.Write([]byte(kind))
	m.Write([]byte(s))
	return hex.EncodeToString(m.Sum(nil)[:8])
}

// LoadStateKey reads a key file: raw bytes, or their hex or base64 text with
// blanks around it. The file must be one that ReadSecretFile reads.
func LoadStateKey(path string) ([]byte, error) {
	raw, err := ReadSecretFile(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("state key %w", err)
	}
	key, err := ParseStateKey(raw)
	if err != nil {
		return nil, fmt.Errorf("state key %s: %w", path, err)
	}
	return key, nil
}

// ParseStateKey reads what a key file holds, wherever it comes from.
func ParseStateKey(raw []byte) ([]byte, error) {
	key := decodeStateKey(raw)
	if len(key) == 0 {
		return nil, fmt.Errorf("is empty; make one with: openssl rand -hex %d", MinStateKey)
	}
	if len(key) < MinStateKey {
		return nil, fmt.Errorf("has %d bytes, at least %d are needed; make one with: openssl rand -hex %d", len(key), MinStateKey, MinStateKey)
	}
	return key, nil
}

// ReadSecretFile reads a file of at most max bytes, which must be a regular one,
// not a symbolic link, that only its owner may read. Errors begin with the path.
func ReadSecretFile(path string, max int64) ([]byte, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
	}
	before, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	if before.Mode()&fs.ModeSymlink != 0 {
		return nil, bad("is a symbolic link; name the file itself")
	}
	if !before.Mode().IsRegular() {
		return nil, bad("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	defer f.Close()
	// Judged by the open file, so that nobody swaps it in between.
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	if !os.SameFile(before, info) {
		return nil, bad("changed while it was opened")
	}
	if m := info.Mode().Perm(); runtime.GOOS != "windows" && m&0o077 != 0 {
		return nil, bad("mode is %04o, others than the owner can use it; chmod 600 it", m)
	}
	raw, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, bad("%v", err)
	}
	if int64(len(raw)) > max {
		return nil, bad("is larger than %d bytes", max)
	}
	return raw, nil
}

// reason is err without the path it names.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// decodeStateKey leaves binary files alone, whose outer bytes may look like
// blanks by chance.
func decodeStateKey(raw []byte) []byte {
	text := bytes.TrimSpace(raw)
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c > '~' {
			return raw
		}
	}
	s := string(text)
	if k, err := hex.DecodeString(s); err == nil && len(k) >= MinStateKey {
		return k
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		if k, err := enc.DecodeString(s); err == nil && len(k) >= MinStateKey {
			return k
		}
	}
	return text
}

// RandomStateKey returns the key kept in st, which the first of all replicas
// makes. It lives as long as the store does.
func RandomStateKey(ctx context.Context, st Store) ([]byte, error) {
	e, err := st.Get(ctx, stateKeyRecord)
	if errors.Is(err, ErrNotFound) {
		key := make([]byte, MinStateKey)
		rand.Read(key) // never fails, says its documentation
		_, err = st.Put(ctx, stateKeyRecord, append([]byte(stateKeyMagic), key...), Absent)
		if err == nil {
			return key, nil
		}
		if errors.Is(err, ErrConflict) {
			e, err = st.Get(ctx, stateKeyRecord)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("state key in the store: %w", err)
	}
	key, ok := bytes.CutPrefix(e.Value, []byte(stateKeyMagic))
	if !ok || e.Key != stateKeyRecord || len(key) != MinStateKey {
		return nil, fmt.Errorf("state key in the store: record %q is not one of ours", e.Key)
	}
	return bytes.Clone(key), nil
}
