package upstream

// bounded is a list of keys, the oldest of which leave.
type bounded[K comparable] struct {
	keys  []K
	known map[K]bool
}

// add returns what leaves for k, if anything.
func (b *bounded[K]) add(k K) (out K, left bool) {
	if b.known[k] {
		return out, false
	}
	if b.known == nil {
		b.known = map[K]bool{}
	}
	b.keys, b.known[k] = append(b.keys, k), true
	if len(b.known) <= maxTracked {
		return out, false
	}
	for len(b.keys) > 0 {
		k, b.keys = b.keys[0], b.keys[1:]
		if b.known[k] {
			delete(b.known, k)
			return k, true
		}
	}
	return out, false
}

func (b *bounded[K]) drop(k K) {
	delete(b.known, k)
	if len(b.keys) > 2*maxTracked {
		kept := b.keys[:0]
		for _, k := range b.keys {
			if b.known[k] {
				kept = append(kept, k)
			}
		}
		b.keys = kept
	}
}
