// Command mcpgo-features is an mcp-go server with every feature of an era but
// tasks, or an mcp-go client that goes through every feature on such a server:
//
//	mcpgo-features -era legacy|modern serve
//	mcpgo-features -era legacy|modern URL features
//
// The server prints "listening on http://HOST:PORT/mcp" when ready and ends
// when its standard input closes. The client prints one JSON object a feature,
// {"step":NAME,…}, and {"ok":true}, within 60 seconds.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"
)

type fields = map[string]any

func main() {
	era := flag.String("era", "modern", "legacy or modern")
	flag.Parse()
	modern := *era == "modern"
	switch {
	case *era != "legacy" && !modern:
		log.Fatalf("-era: want legacy or modern, got %q", *era)
	case flag.Arg(0) == "serve":
		serve(modern)
	case flag.NArg() == 2:
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		if err := run(ctx, flag.Arg(0), modern); err != nil {
			printLine(fields{"ok": false, "error": err.Error()})
			os.Exit(1)
		}
		printLine(fields{"ok": true})
	default:
		log.Fatal("usage: mcpgo-features -era legacy|modern serve | URL features")
	}
}

func serve(modern bool) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler(modern))
	fmt.Printf("listening on http://%s/mcp\n", listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(http.Serve(listener, mux))
}

func printLine(value any) {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
}

func version(modern bool) string {
	if modern {
		return modernVersion
	}
	return legacyVersion
}
