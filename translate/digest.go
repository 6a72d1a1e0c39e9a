package translate

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"

	"taskbridge/translate/jsonrpc"
)

// CallDigest identifies the call a requestState belongs to: method, name or
// uri, and arguments compared as JSON values (2026-07-28 basic/patterns/mrtr,
// Server Requirements 5). Key order and number spelling do not matter.
func CallDigest(m *jsonrpc.Message) []byte {
	h := sha256.New()
	text(h, m.Method)
	params := m.Params()
	for _, key := range []string{"name", "uri", "arguments"} {
		text(h, key)
		v := params.Get(key)
		if !v.Exists() {
			h.Write([]byte{'-'})
			continue
		}
		parsed, err := v.Parse()
		if err != nil {
			// Repeated members and the like: the bytes themselves count.
			h.Write([]byte{'?'})
			text(h, string(v.Raw()))
			continue
		}
		digest(h, parsed)
	}
	return h.Sum(nil)
}

func text(h hash.Hash, s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}

// digest recurses at most as deep as Decode allows.
func digest(h hash.Hash, v jsonrpc.Value) {
	switch v.Type() {
	case jsonrpc.Object:
		h.Write([]byte{'{'})
		type entry struct {
			key string
			v   jsonrpc.Value
		}
		var list []entry
		for k, m := range v.Members() {
			list = append(list, entry{k, m})
		}
		slices.SortFunc(list, func(a, b entry) int {
			if a.key < b.key {
				return -1
			}
			return 1
		})
		for _, e := range list {
			text(h, e.key)
			digest(h, e.v)
		}
		h.Write([]byte{'}'})
	case jsonrpc.Array:
		h.Write([]byte{'['})
		for e := range v.Elems() {
			digest(h, e)
		}
		h.Write([]byte{']'})
	case jsonrpc.String:
		s, _ := v.Str()
		h.Write([]byte{'"'})
		text(h, s)
	case jsonrpc.Number:
		h.Write([]byte{'0'})
		if id, err := jsonrpc.IDFromRaw(v.Raw()); err == nil {
			text(h, id.Key())
		} else {
			text(h, string(v.Raw()))
		}
	default:
		text(h, string(v.Raw()))
	}
}

// InputRequiredResult is the result that asks a modern client for input: entries in
// the order given, and the state to echo (basic/patterns/mrtr,
// InputRequiredResult).
func InputRequiredResult(keys []string, entries [][]byte, state string, serverInfo []byte) []byte {
	requests := jsonrpc.NewObject()
	for i, k := range keys {
		requests.Raw(k, entries[i])
	}
	b := jsonrpc.NewObject().Str("resultType", "input_required")
	if len(keys) > 0 { // else the state alone brings the client back
		b.Raw("inputRequests", requests.Bytes())
	}
	b.Str("requestState", state)
	if len(serverInfo) > 0 {
		b.Raw("_meta", jsonrpc.NewObject().Raw(MetaServerInfo, serverInfo).Bytes())
	}
	return b.Bytes()
}
