// Package play has what the peers on the Go SDKs share: how they start, print
// and end.
package play

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Fields are members of a JSON object.
type Fields = map[string]any

// Version is the newest revision of an era.
func Version(modern bool) string {
	if modern {
		return "2026-07-28"
	}
	return "2025-11-25"
}

var out sync.Mutex // questions come beside the call

// Print writes one line of JSON.
func Print(value any) {
	out.Lock()
	defer out.Unlock()
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
}

// Step prints what came of one.
func Step(name string, more Fields) {
	line := Fields{"step": name}
	maps.Copy(line, more)
	Print(line)
}

// End prints whether all went well and ends the process.
func End(err error) {
	if err != nil {
		Print(Fields{"ok": false, "error": err.Error()})
		os.Exit(1)
	}
	Print(Fields{"ok": true})
}

// Serve serves at /mcp, says where once it is ready, and ends the process when
// standard input closes.
func Serve(addr string, endpoint http.Handler) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	fmt.Printf("listening on http://%s/mcp\n", listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(listener, mux))
}

// Features is the main function of a command that is a server with every
// feature of an era, or a client that goes through them.
func Features(name string, handler func(modern bool) http.Handler, run func(ctx context.Context, url string, modern bool) error) {
	era := flag.String("era", "modern", "legacy or modern")
	flag.Parse()
	modern := *era == "modern"
	switch {
	case *era != "legacy" && !modern:
		log.Fatalf("-era: want legacy or modern, got %q", *era)
	case flag.Arg(0) == "serve":
		Serve("127.0.0.1:0", handler(modern))
	case flag.NArg() == 2:
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		End(run(ctx, flag.Arg(0), modern))
	default:
		log.Fatalf("usage: %s -era legacy|modern serve | URL features", name)
	}
}

// Do prints what comes of a feature, unless that is nil.
func Do(ctx context.Context, name string, run func(context.Context) (Fields, error)) {
	result, err := run(ctx)
	if err != nil {
		result = Fields{"message": err.Error()}
	}
	if result != nil {
		Step(name, result)
	}
}
