// Command methods prints the exported methods, options and handlers of the Go
// SDKs' clients as one JSON object: the list that features.json is held
// against.
package main

import (
	"encoding/json"
	"os"
	"reflect"

	mcpgo "github.com/mark3labs/mcp-go/client"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func methods[T any](prefix string) (names []string) {
	t := reflect.TypeFor[T]()
	for i := range t.NumMethod() {
		names = append(names, prefix+"."+t.Method(i).Name)
	}
	return names
}

func fields[T any](prefix string) (names []string) {
	t := reflect.TypeFor[T]()
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			names = append(names, prefix+"."+f.Name)
		}
	}
	return names
}

func join(lists ...[]string) (all []string) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func main() {
	_ = json.NewEncoder(os.Stdout).Encode(map[string][]string{
		"go-sdk 1.8.0": join(
			methods[*gosdk.ClientSession]("ClientSession"), methods[*gosdk.Client]("Client"), fields[gosdk.ClientOptions]("ClientOptions"),
			fields[gosdk.ClientSessionOptions]("ClientSessionOptions"),
		),
		"mcp-go 1.2.1": join(
			methods[*mcpgo.Client]("Client"), methods[mcpgo.SamplingHandler]("SamplingHandler"),
			methods[mcpgo.ElicitationHandler]("ElicitationHandler"), methods[mcpgo.RootsHandler]("RootsHandler"),
		),
	})
}
