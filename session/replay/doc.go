// Package replay does again what a capture's clients did, against another
// server: it drives the client side of recorded operations into a session.Hub,
// the same one that stands behind the live proxy, so that two eras meet as they
// do there.
//
// What a client did is repeated, what a server made is not: task ids, cursors,
// request states and question ids in what is sent are those of the new answers,
// questions are answered with the recorded answers, and a task is polled until
// it ends, however often that takes. What comes back is kept as records, to be
// gathered and compared like any capture.
package replay
