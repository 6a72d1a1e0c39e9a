package session

func indexKey(x *Exec, owner Principal, handle string) string {
	// Newest first: keys sort by falling time.
	at := uint64(1<<63) - uint64(x.Now.UnixMicro())
	return indexPrefix(x, owner) + hex16(at) + "-" + x.Handles().mark("index", handle)
}

func indexPrefix(x *Exec, owner Principal) string {
	return "idx/" + x.Handles().mark("principal", string(owner)) + "/"
}

func hex16(n uint64) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[15-i] = digits[n&15]
		n >>= 4
	}
	return string(b[:])
}

// evictable: what has ended may be forgotten where its server knows the end, too.
func (t *legacyTask) evictable() bool {
	return t.Final && !t.Held && t.Failure == nil && !t.awaited()
}

// over: the task is none of its caller's concurrent ones any more. As many that
// are over are remembered for a caller as he may have of the others. Above that
// they are forgotten soon, and those nothing was counted for: a handle opens such
// a task again. But those of which only we know the end stay for their time, and
// roomForEnded sees to it that they do not become too many.
func (t *legacyTask) over(x *Exec) {
	if t.Over {
		return
	}
	t.Over = true
	if t.Limit != "" {
		x.Do(counted(countTasks, t.Limit, -1)...)
	} else if sess := new(legacySession); x.r.load(sessionOp(t.Session), sess) {
		t.Limit = sess.Limit // it was opened again by its handle
	}
	ours := t.Held || t.Failure != nil
	switch {
	case t.Limit != "" && (ours || x.r.within(countOver, t.Limit, x.Policy.Tasks, x.Policy.Above.Tasks)):
		x.Do(counted(countOver, t.Limit, 1)...)
	case !ours:
		t.Limit = ""
		x.Do(Wake{Name: "forget", At: x.Now.Add(spentFor)})
	}
}

// roomForEnded says whether a caller may have another task beside those that have
// ended and are remembered: as many as he may have at a time, unless one can be
// forgotten.
func roomForEnded(x *Exec, limit string, owner Principal) bool {
	ended := x.r.count(countOver+"/"+limit, 0)
	all := x.r.count(countOver, 0)
	own, above := x.Policy.Tasks, x.Policy.Above.Tasks
	return !ended.over(own.Each, above.Each) && !all.over(own.All, above.All) || evictOldest(x, owner)
}

// awaited: somebody waits for an answer.
func (t *legacyTask) awaited() bool { return len(t.Waiters)+len(t.Gets)+len(t.Cancels) > 0 }

// evictOldest makes room for a new task of owner by forgetting a finished one,
// the oldest it finds; its handle still opens it at the server.
func evictOldest(x *Exec, owner Principal) bool {
	if owner == "" {
		return false
	}
	var all []Entry
	after := ""
	for {
		page := x.List(indexPrefix(x, owner), after, 1000)
		all = append(all, page...)
		if len(page) < 1000 {
			break
		}
		after = page[len(page)-1].Key
	}
	for _, i := range candidates(len(all)) {
		op := taskOp(string(all[i].Value))
		t := new(legacyTask)
		if x.r.load(op, t) && t.evictable() {
			x.Do(Tell{To: op, Name: "evict"})
			return true
		}
	}
	return false
}

// evictLooks is how many tasks are looked at for one that may be forgotten: a call
// that is refused must not cost in proportion to what its caller has.
const evictLooks = 64

// candidates are places in a list of n, the newest first: the oldest ones, and as
// many that are spread over the rest.
func candidates(n int) (places []int) {
	for i := range min(n, evictLooks/2) {
		places = append(places, n-1-i)
	}
	rest := n - len(places)
	for i := range min(rest, evictLooks/2) {
		places = append(places, rest-1-i*rest/min(rest, evictLooks/2))
	}
	return places
}
