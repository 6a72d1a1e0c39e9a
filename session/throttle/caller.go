package throttle

// Caller is what one caller has used, of a limiter and of the one above it. Safe
// for concurrent use; the zero Caller is never refused anything.
type Caller struct{ own, above *used }

// Free: nothing limits the caller.
func (c Caller) Free() bool { return c.own == nil && c.above == nil }

// both asks one after the other; the first refusal counts, and what was counted
// before it stays counted.
func (c Caller) both(ask func(*used) Refusal) Refusal {
	if r := ask(c.own); r.Refused() {
		return r
	}
	return ask(c.above)
}

// Request counts one message.
func (c Caller) Request() Refusal { return c.both((*used).Request) }

// Eased counts one message of the kind translate.DueEased that Request has
// refused: those have as much again, of their own.
func (c Caller) Eased() Refusal { return c.both((*used).Eased) }

// Send counts n bytes, unless the caller is behind with what it sent before.
func (c Caller) Send(n int64) Refusal {
	return c.both(func(u *used) Refusal { return u.Send(n) })
}

// Sent counts n bytes, behind or not.
func (c Caller) Sent(n int64) {
	c.own.Sent(n)
	c.above.Sent(n)
}

// Hold counts n bytes of a message as under way, until Let. Nothing is counted
// where it is refused.
func (c Caller) Hold(n int64) Refusal {
	r := c.own.Hold(n)
	if r.Refused() {
		return r
	}
	if r = c.above.Hold(n); r.Refused() {
		c.own.Let(n)
	}
	return r
}

// Keep is Hold that is never refused.
func (c Caller) Keep(n int64) {
	c.own.Keep(n)
	c.above.Keep(n)
}

// Let ends a Hold or Keep.
func (c Caller) Let(n int64) {
	c.own.Let(n)
	c.above.Let(n)
}
