// Package usage counts who speaks which dialect, in a session.Store, and says
// from that who still needs the legacy one (docs/report.md). What a process
// counts is added to what the store has every few seconds, so several processes
// on one store add up; names are cut, their number is bounded, principals are
// kept as keyed hashes. Ids, arguments and credentials never enter.
package usage
