package child

import (
	"os"
	"runtime"
	"strings"
)

// markVar marks all processes a child starts, whatever group or session they
// move to. A child of a child carries both marks.
const markVar = "TASKBRIDGE_PROCESS_MARK"

// baseVars are what a child gets of our environment: what a program needs to
// find its files and to speak its user's language, and nothing that could be a
// secret.
var baseVars = map[string][]string{
	"posix":   {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"},
	"windows": {"APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR"},
}

// environ is the environment of a child: the base, what was asked for, the
// mark.
func environ(extra []string, mark string) []string {
	names := baseVars["posix"]
	if runtime.GOOS == "windows" {
		names = baseVars["windows"]
	}
	var env []string
	for _, name := range names {
		// A value that begins with "()" is a function of a shell.
		if v, ok := os.LookupEnv(name); ok && !strings.HasPrefix(v, "()") {
			env = append(env, name+"="+v)
		}
	}
	if runtime.GOOS != "windows" {
		for _, kv := range os.Environ() {
			if strings.HasPrefix(kv, "LC_") {
				env = append(env, kv)
			}
		}
	}
	env = append(env, extra...)
	if outer := os.Getenv(markVar); outer != "" && len(outer) < 1024 {
		mark = outer + "." + mark
	}
	return append(env, markVar+"="+mark)
}
