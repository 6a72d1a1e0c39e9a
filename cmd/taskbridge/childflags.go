package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taskbridge/cmd/taskbridge/config"
	"taskbridge/upstream"
	"taskbridge/upstream/child"
)

// guardArg makes this program the guard of another run of it (package child).
const guardArg = "__guard"

// newGuard is this program as a guard; nil where it cannot be found.
func newGuard() *child.Guard {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return child.NewGuard(self, guardArg)
}

// splitCommand takes the command that stands behind --.
func (u *upstreamFlags) splitCommand(cmd *cobra.Command, args []string) (rest []string) {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		return args
	}
	u.command = append([]string{}, args[dash:]...)
	return args[:dash]
}

// givenURL takes the server's URL as the one argument of stdio and probe.
func (u *upstreamFlags) givenURL(cmd *cobra.Command, rest []string) error {
	flag := cmd.Flags().Lookup("upstream")
	onLine := flag.Changed && len(flag.Annotations[fromEnv]) == 0
	if len(rest) > 1 {
		return usagef("%s takes one URL, but got %d arguments", cmd.Name(), len(rest))
	}
	if len(rest) == 1 {
		if onLine {
			return usagef("the server is given twice: as an argument and with --upstream")
		}
		u.url = rest[0]
		onLine = true
	}
	return u.oneServer(cmd, onLine)
}

// oneServer: a URL and a command are two servers. A URL of the environment
// gives way.
func (u *upstreamFlags) oneServer(cmd *cobra.Command, urlOnLine bool) error {
	if cmd.ArgsLenAtDash() >= 0 && (len(u.command) == 0 || u.command[0] == "") {
		return usagef("a command belongs behind --, as in: taskbridge %s -- npx some-server", cmd.Name())
	}
	if len(u.command) > 0 && urlOnLine {
		return usagef("the server is given twice: by a URL and by a command behind --")
	}
	return nil
}

// resolveChild checks a server that is a process of ours.
func (u *upstreamFlags) resolveChild(a *app, fs *pflag.FlagSet) (server, error) {
	for _, name := range []string{"header", "header-file", "upstream-ca"} {
		if f := fs.Lookup(name); f.Changed && len(f.Annotations[fromEnv]) == 0 {
			return server{}, usagef("--%s is for a server behind a URL; a server process gets what it needs with --env", name)
		}
	}
	env, err := u.childEnv(fs)
	if err != nil {
		return server{}, err
	}
	if u.cwd != "" {
		if info, err := os.Stat(u.cwd); err != nil || !info.IsDir() {
			return server{}, usagef("%s %q: is no directory", where(fs, "cwd"), u.cwd)
		}
	}
	if u.maxChildren < 0 {
		return server{}, usagef("%s: must be above zero", where(fs, "max-children"))
	}
	return server{
		child: &upstream.StdioOptions{
			Command: u.command, Env: env, Dir: u.cwd, StartLimit: u.startTimeout,
			Share: u.shareChild, MaxChildren: u.maxChildren, Guard: newGuard(),
		},
		shared: true,
		shown:  u.command[0],
	}, nil
}

// childEnv reads --env. Errors never show a value.
func (u *upstreamFlags) childEnv(fs *pflag.FlagSet) ([]string, error) {
	var env []string
	for _, kv := range u.env {
		name, value, given := strings.Cut(kv, "=")
		if !config.IsVarName(name) {
			return nil, usagef("%s: want KEY=VALUE, or KEY", where(fs, "env"))
		}
		if !given {
			var set bool
			if value, set = os.LookupEnv(name); !set {
				return nil, usagef("%s: environment variable %s is not set", where(fs, "env"), name)
			}
		} else {
			var err error
			if value, err = expandVars(value); err != nil {
				return nil, usagef("%s %s: %w", where(fs, "env"), name, err)
			}
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}
