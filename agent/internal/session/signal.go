package session

import (
	"strconv"
	"syscall"
)

// signals are the ones that a session can send, by their names without SIG.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "CONT": syscall.SIGCONT, "STOP": syscall.SIGSTOP, "TSTP": syscall.SIGTSTP,
		"ALRM": syscall.SIGALRM, "WINCH": syscall.SIGWINCH,
	}
}

// signalName names the signal that has ended a program.
func signalName(s syscall.Signal) string {
	for name, one := range signals() {
		if one == s {
			return name
		}
	}
	switch s {
	case syscall.SIGSEGV:
		return "SEGV"
	case syscall.SIGABRT:
		return "ABRT"
	case syscall.SIGPIPE:
		return "PIPE"
	case syscall.SIGBUS:
		return "BUS"
	case syscall.SIGFPE:
		return "FPE"
	case syscall.SIGILL:
		return "ILL"
	}
	return strconv.Itoa(int(s))
}
