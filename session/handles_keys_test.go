package session_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"taskbridge/session"
	"taskbridge/session/memory"
)

func TestHandleKeys(t *testing.T) {
	old, both, swapped, other := newHandles(t, "old"), newHandles(t, "new", "old"), newHandles(t, "old", "new"), newHandles(t, "other")
	r := taskRefs[4]
	s := old.SealTask(r)
	for name, h := range map[string]*session.Handles{"old": old, "both": both, "swapped": swapped} {
		if got, ok := h.OpenTask(s, alice); !ok || got != r {
			t.Errorf("%s does not open the old key's handle", name)
		}
	}
	n := both.SealTask(r)
	if n == s {
		t.Error("two keys give one handle")
	}
	if got, ok := swapped.OpenTask(n, alice); !ok || got != r {
		t.Error("the second key does not open")
	}
	if _, ok := old.OpenTask(n, alice); ok {
		t.Error("the old key opens the new one's handle")
	}
	for _, s := range []string{s, n} {
		if _, ok := other.OpenTask(s, alice); ok {
			t.Error("an unknown key's handle opens")
		}
	}
	if many := newHandles(t, "a", "b", "c", "old", "old"); true {
		if _, ok := many.OpenTask(s, alice); !ok {
			t.Error("the fourth key does not open")
		}
	}
}

func TestNewHandlesRefusesKeys(t *testing.T) {
	for name, keys := range map[string][][]byte{
		"none":   nil,
		"nil":    {nil},
		"short":  {make([]byte, 31)},
		"second": {testKey("a"), make([]byte, 8)},
	} {
		if _, err := session.NewHandles(keys); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	k := testKey("a")
	h, err := session.NewHandles([][]byte{k})
	if err != nil {
		t.Fatal(err)
	}
	clear(k)
	if s := newHandles(t, "a").SealTask(taskRefs[4]); h.SealTask(taskRefs[4]) != s {
		t.Error("Handles changed with its caller's key")
	}
}

func TestSafetyS59_KeysAndStore(t *testing.T) {
	dir := t.TempDir()
	key := testKey("a")
	key[0], key[31] = '\n', ' ' // trimming must not touch raw bytes
	for name, c := range map[string]struct {
		content []byte
		mode    os.FileMode
		fail    string
		want    []byte
	}{
		"raw":           {content: key, want: key},
		"longer":        {content: bytes.Repeat(key, 4), want: bytes.Repeat(key, 4)},
		"hex":           {content: []byte(hex.EncodeToString(key)), want: key},
		"hexnl":         {content: []byte(" " + strings.ToUpper(hex.EncodeToString(key)) + "\r\n"), want: key},
		"base64":        {content: []byte(base64.StdEncoding.EncodeToString(key) + "\n"), want: key},
		"base64url":     {content: []byte(base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, 32))), want: bytes.Repeat([]byte{0xfb}, 32)},
		"text":          {content: []byte("correct horse battery staple, twice over\n"), want: []byte("correct horse battery staple, twice over")},
		"32 characters": {content: []byte("0123456789abcdef0123456789abcdef\n"), want: []byte("0123456789abcdef0123456789abcdef")},
		"mode 0400":     {content: key, mode: 0o400, want: key},

		"empty":     {content: nil, fail: "is empty"},
		"blank":     {content: []byte(" \n\t"), fail: "is empty"},
		"8 bytes":   {content: []byte("12345678"), fail: "8 bytes"},
		"31 bytes":  {content: key[:31], fail: "31 bytes"},
		"short hex": {content: []byte(hex.EncodeToString(key[:8])), fail: "16 bytes"},
		"huge":      {content: make([]byte, 5000), fail: "larger than"},
		"world":     {content: key, mode: 0o604, fail: "mode is 0604"},
		"group":     {content: key, mode: 0o640, fail: "mode is 0640"},
		"writable":  {content: key, mode: 0o620, fail: "mode is 0620"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.mode == 0 {
				c.mode = 0o600
			}
			if c.mode&0o077 != 0 && runtime.GOOS == "windows" {
				t.Skip("no such modes here")
			}
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			got, err := session.LoadStateKey(path)
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) || !strings.Contains(err.Error(), path) {
					t.Fatalf("error %v, want the path and %q", err, c.fail)
				}
				if len(c.content) > 0 && strings.TrimSpace(string(c.content)) != "" && strings.Contains(err.Error(), string(c.content)) {
					t.Fatalf("error shows the key: %v", err)
				}
				return
			}
			if err != nil || !bytes.Equal(got, c.want) {
				t.Fatalf("%x, %v; want %x", got, err, c.want)
			}
			if _, err := session.NewHandles([][]byte{got}); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		_, err := session.LoadStateKey(filepath.Join(dir, "nothing"))
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
	t.Run("directory", func(t *testing.T) {
		if _, err := session.LoadStateKey(dir); err == nil || !strings.Contains(err.Error(), "regular file") {
			t.Fatal(err)
		}
	})
	t.Run("symbolic link", func(t *testing.T) {
		link := filepath.Join(dir, "link")
		if err := os.Symlink(filepath.Join(dir, "raw"), link); err != nil {
			t.Skip(err)
		}
		if _, err := session.LoadStateKey(link); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Fatal(err)
		}
	})

	t.Run("key in the store", func(t *testing.T) {
		st := memory.New()
		k1, err := session.RandomStateKey(t.Context(), st)
		if err != nil || len(k1) != 32 {
			t.Fatalf("%d bytes, %v", len(k1), err)
		}
		k2, err := session.RandomStateKey(t.Context(), st)
		if err != nil || !bytes.Equal(k1, k2) {
			t.Fatalf("second call: other key or %v", err)
		}
		k3, err := session.RandomStateKey(t.Context(), memory.New())
		if err != nil || bytes.Equal(k1, k3) {
			t.Fatalf("another store: same key or %v", err)
		}
	})
	for name, value := range map[string]string{
		"empty":   "",
		"foreign": `{"task":"working"}`,
		"bare":    string(key),
		"short":   "taskbridge-statekey-1\n" + "short",
		"long":    "taskbridge-statekey-1\n" + strings.Repeat("k", 33),
	} {
		t.Run("foreign record "+name, func(t *testing.T) {
			st := memory.New()
			if _, err := st.Put(t.Context(), "statekey", []byte(value), session.Absent); err != nil {
				t.Fatal(err)
			}
			if k, err := session.RandomStateKey(t.Context(), st); err == nil {
				t.Fatalf("taken for a key of %d bytes", len(k))
			}
			if e, err := st.Get(t.Context(), "statekey"); err != nil || string(e.Value) != value {
				t.Fatalf("the record was changed to %q, %v", e.Value, err)
			}
		})
	}
	t.Run("another key's record", func(t *testing.T) {
		st := mixedUp{memory.New()}
		good, err := session.RandomStateKey(t.Context(), st.Store)
		if err != nil {
			t.Fatal(err)
		}
		if k, err := session.RandomStateKey(t.Context(), st); err == nil || bytes.Equal(k, good) {
			t.Fatalf("a record of another name was taken: %v", err)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := session.RandomStateKey(ctx, memory.New()); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

// mixedUp answers with records of another key.
type mixedUp struct{ session.Store }

func (m mixedUp) Get(ctx context.Context, key string) (session.Entry, error) {
	e, err := m.Store.Get(ctx, key)
	e.Key = "another"
	return e, err
}
