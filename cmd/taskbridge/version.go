package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Set by release builds: -ldflags "-X main.version=v1.2.3 -X main.revision=…".
// Other builds know what the go command wrote into them.
var version, revision string

type build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	Modified  bool   `json:"modified"` // built from a tree with uncommitted changes
	GoVersion string `json:"go"`
	Platform  string `json:"platform"`
}

func buildInfo() build {
	b := build{Version: version, Revision: revision, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" {
			b.Version = strings.Trim(info.Main.Version, "()")
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && b.Revision == "":
				b.Revision = s.Value
			case s.Key == "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

func (b build) text() string {
	s := b.Version
	if b.Revision != "" {
		s += " " + b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			s += " (modified)"
		}
	}
	return s + " " + b.GoVersion + " " + b.Platform
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, revision and Go version",
		Args:  noArgs,
		RunE: guarded(func(*cobra.Command, []string) error {
			b := buildInfo()
			if !asJSON {
				_, err := fmt.Fprintln(a.stdout, "taskbridge", b.text())
				return err
			}
			return json.NewEncoder(a.stdout).Encode(b)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object")
	return cmd
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, but got %q", cmd.Name(), args[0])
	}
	return nil
}
