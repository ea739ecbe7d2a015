package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"

	"muster/agent/internal/person"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// exec serves a program. No shell looks at its arguments, and its output and its errors are kept apart.
func (o *opening) exec(ctx context.Context, main *pipe.End, params *wire.ExecParams) (pipe.Exit, error) {
	who, err := person.Find(o.Accounts, params.User, o.policy.CheckUser)
	if err != nil {
		return pipe.Exit{}, err
	}
	environ := who.Environ("")
	folder := who.Folder()
	path, exit := person.Program(params.Command[0], person.Variable(environ, "PATH"), folder)
	if exit != nil {
		return *exit, pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{User: who.Name})
	}
	cmd := &exec.Cmd{Path: path, Args: params.Command, Env: environ, Dir: folder}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: who.Credential()}
	in, noIn := cmd.StdinPipe()
	out, noOut := cmd.StdoutPipe()
	complaint, noComplaint := cmd.StderrPipe()
	if err := errors.Join(noIn, noOut, noComplaint); err != nil {
		return pipe.Exit{}, fmt.Errorf("make the pipes of a program: %w", err)
	}
	program, err := o.start(cmd, true)
	if err != nil {
		return *person.NotStarted(params.Command[0], err), pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{User: who.Name, Directory: folder})
	}
	return o.attend(ctx, main, program, pipe.Ready{User: who.Name, Directory: folder},
		func(f frame) error { return passOn(f, in, program) },
		output{out.(source), pipe.FrameOutput}, output{complaint.(source), pipe.FrameError}), nil
}

// passOn passes on what the operator sends. A program that takes no more input goes on.
func passOn(f frame, in io.WriteCloser, program *process) error {
	switch f.kind {
	case pipe.FrameInput:
		_, _ = in.Write(f.data)
	case pipe.FrameInputEnd:
		in.Close()
	case pipe.FrameSignal:
		if one, found := signals()[string(f.data)]; found {
			program.signal(one)
		}
	}
	return nil
}
