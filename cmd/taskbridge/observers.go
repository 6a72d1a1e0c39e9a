package main

import "taskbridge/session"

// tracingPlace is where the observer that makes traces stands: before all who
// are told what it notes.
const tracingPlace = 0

// observers hear what clients ask.
func (b *bridge) observers() (list []session.Observer) {
	if b.tracing != nil {
		list = append(list, b.tracing.observer)
	}
	if b.metrics != nil {
		list = append(list, b.metrics.ops)
	}
	if b.audit != nil {
		list = append(list, b.audit)
	}
	if b.usage != nil {
		list = append(list, b.usage)
	}
	return list
}
