package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/cmd/taskbridge/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check or print a configuration file, or print the schema of one",
		Long:  "A configuration file is what serve --config reads; docs/config.md names every key.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q of config; want check, print or schema", args[0])
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.configCheckCommand(), a.configPrintCommand(), a.configSchemaCommand())
	return cmd
}

func (a *app) configCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say what is wrong with a configuration file",
		Long: "Says of each mistake where it is and what would be right; - is standard input.\n" +
			"Exit code 0: fine, 2: not. Nothing is connected to. Variables are those of this process.",
		RunE: guarded(func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("config check wants the name of one file, or - for standard input")
			}
			return a.checkConfig(args[0], asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

// checkConfig writes findings to standard output: they are what was asked for.
func (a *app) checkConfig(name string, asJSON bool) error {
	f, problems := config.Load(name, a.stdin, os.LookupEnv, nil)
	if f != nil {
		if problems = a.unusable(f); len(problems) > 0 {
			f = nil
		}
	}
	routes, upstreams := 0, 0
	if f != nil {
		routes = len(f.Routes)
		for _, r := range f.Routes {
			upstreams += len(r.Upstreams)
		}
	}
	if asJSON {
		if err := a.printConfigJSON(f != nil, routes, upstreams, problems); err != nil {
			return err
		}
	} else {
		for _, p := range problems {
			fmt.Fprintln(a.stdout, showText(p.String(), maxShownError))
		}
		if f != nil {
			fmt.Fprintf(a.stdout, "%s: fine, %s, %s\n", showText(f.Name, maxShown), counted(routes, "route"), counted(upstreams, "upstream"))
		}
	}
	if f == nil {
		return &failure{code: exitUsage, name: "configuration", err: fmt.Errorf("%s: %s", name, counted(len(problems), "problem"))}
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (a *app) printConfigJSON(fine bool, routes, upstreams int, problems []config.Problem) error {
	type finding struct {
		File   string `json:"file"`
		Line   int    `json:"line,omitempty"`
		Column int    `json:"column,omitempty"`
		Path   string `json:"path,omitempty"`
		Text   string `json:"text"`
	}
	out := struct {
		Fine      bool      `json:"fine"`
		Routes    int       `json:"routes"`
		Upstreams int       `json:"upstreams"`
		Problems  []finding `json:"problems"`
	}{fine, routes, upstreams, []finding{}}
	for _, p := range problems {
		out.Problems = append(out.Problems, finding(p))
	}
	raw, err := json.MarshalIndent(out, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(a.stdout, "%s\n", asciiControls(raw))
	}
	return err
}

func (a *app) configPrintCommand() *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "print FILE",
		Short: "Print what serve makes of a configuration file, flags and environment",
		Long: "Prints the configuration serve --config FILE would run with, given the same flags, as a file\n" +
			"that says the same. Behind each value stands where it came from: a line of the file and the\n" +
			"variables in it, a flag, its environment variable, or default. Secrets are redacted: headers\n" +
			"and environments of programs that are not a variable alone, users and parameters of URLs.\n" +
			"Names of files are absolute; - is standard input. Nothing is connected to. Exit code 0: fine,\n" +
			"2: serve would refuse it.",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1:
				f.config = args[0]
			case len(args) > 1 || f.config == "":
				return usagef("config print wants the name of one file, or - for standard input, and the flags of serve beside it")
			}
			return a.printConfig(f, cmd.Flags())
		}),
	}
	f.register(cmd.Flags())
	return cmd
}

func (a *app) printConfig(f *serveFlags, fs *pflag.FlagSet) error {
	file, s, err := f.loadFile(a, fs)
	if err != nil {
		return err
	}
	if err := f.checkProcess(fs, s); err != nil {
		return err
	}
	return file.Print(a.stdout, func(path string) string { return overridden(fs, path) })
}

func (a *app) configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of a configuration file, for editors",
		RunE: guarded(func(cmd *cobra.Command, args []string) error {
			if err := noArgs(cmd, args); err != nil {
				return err
			}
			_, err := a.stdout.Write(config.Schema())
			return err
		}),
	}
}
