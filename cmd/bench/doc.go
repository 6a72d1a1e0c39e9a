// Bench measures the bridge end to end against a plain
// [net/http/httputil.ReverseProxy] on the same bytes, and prints the ratios of
// one run.
//
//	go run ./cmd/bench                  # all scenarios, some minutes
//	go run ./cmd/bench -quick           # a smoke run of a few seconds
//	go run ./cmd/bench -only 'modern→modern' -profile DIR
//
// The server, the bridge and the reverse proxy are processes of their own, so
// that each has its own heap and scheduler; this process only makes load. It
// writes canned requests to sockets it keeps, and reads replies without
// parsing them, so that its own share is small and the same for both. Bridge
// and reverse proxy are measured in turns, in short rounds, because machines
// are shared: what counts is the median of the rounds' ratios. A ratio over 1
// means that the bridge is faster.
//
// The last column is how many requests the server got for one of the bridge's.
// "first fetch" is a tasks/get whose payload the bridge has not yet: two there,
// against one of the reverse proxy.
//
// The reverse proxy reads each request body whole before it forwards it, as
// anything that looks into messages must, and is otherwise as it comes.
package main
