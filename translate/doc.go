// Package translate holds the rules by which the two eras of the Model
// Context Protocol are turned into each other. It is pure: tables and
// functions over raw JSON, without sockets, files, goroutines, clock or log.
//
// Where to look:
//
//	what a revision can do                          era.go (revisions)
//	HTTP status and JSON-RPC code of a failure      status.go (conditions)
//	what happens to a method in each direction      methods.go (methods)
//	what becomes of a task status or a task member  tasks.go (statuses, members)
//	initialize <-> server/discover                  capabilities.go
//	a header                                        headers.go
//	a _meta key                                     meta.go
//	what a frame is, and where its ids stand        facts.go (Facts)
//	what is lost and counted                        losses.go (losses)
package translate
