package service

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Replace starts this program anew in the place of this process, with the same arguments. The service that keeps the agent running does not
// notice: the process stays. It returns only if that fails. The program is looked for by the name with which it was started, so that after
// an update the new build starts.
func (s System) Replace(environ []string) error {
	program, err := exec.LookPath(os.Args[0])
	if err != nil {
		program = OwnProgram
	}
	return fmt.Errorf("start the agent anew: %w", s.Become(program, os.Args, environ))
}

// Become replaces this process by a program. It returns only if that fails.
func (s System) Become(program string, args, environ []string) error {
	if s.Exec != nil {
		return s.Exec(program, args, environ)
	}
	return syscall.Exec(program, args, environ)
}
