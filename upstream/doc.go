// Package upstream speaks to servers: it implements session.Dialer for the
// transports a server can stand behind, and finds out which era a server
// belongs to.
//
// Where to look:
//
//	Streamable HTTP: options, connections        http.go
//	what goes up, and whose credential           request.go
//	redirects                                    redirect.go
//	what comes back                              stream.go, body.go
//	cookies of a legacy session                  cookies.go
//	errors and the advice in them                errors.go
//	which era a server belongs to                probe.go, classify.go, eras.go
package upstream
