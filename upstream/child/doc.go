// Package child runs one operating system process at a time as somebody's
// server: without a shell, with an environment of its own, its standard error
// read line by line, and stopped in order with all it has started.
//
// On POSIX the process leads a group of its own. What it starts outside of that
// group is found on Linux by a mark in the environment and by descent. A guard,
// which is the program's own binary run once more, ends what is left when the
// program itself is killed; on Windows a job object does both.
//
//	start, stop, standard error        child.go
//	what a child inherits              env.go
//	when the program itself is killed  guard_unix.go, guard_windows.go
//	signals and groups                 proc_unix.go, sweep_linux.go, sweep_other.go
//	Windows                            proc_windows.go
package child
