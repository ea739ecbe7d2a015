package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"muster/agent/internal/person"
	"muster/agent/pipe"
	"muster/agent/wire"
)

// What a terminal is if nobody says more.
const (
	usualTerm    = "xterm-256color"
	usualRows    = 24
	usualColumns = 80
)

// shell serves a terminal with a program in it.
func (o *opening) shell(ctx context.Context, main *pipe.End, params *wire.ShellParams) (pipe.Exit, error) {
	who, err := person.Find(o.Accounts, params.User, o.policy.CheckUser)
	if err != nil {
		return pipe.Exit{}, err
	}
	cmd, exit := shellCommand(who, params)
	if exit != nil {
		return *exit, pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{User: who.Name})
	}
	terminal, slave, err := Open(cmp.Or(params.Rows, usualRows), cmp.Or(params.Columns, usualColumns))
	if err != nil {
		return pipe.Exit{}, err
	}
	defer terminal.Close()
	lend(slave, who)
	cmd.Stdin = slave
	cmd.Stdout = slave
	cmd.Stderr = slave
	program, err := o.start(cmd, false)
	slave.Close()
	if err != nil {
		return *person.NotStarted(cmd.Path, err), pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{User: who.Name, Directory: cmd.Dir})
	}
	return o.attend(ctx, main, program, pipe.Ready{User: who.Name, Directory: cmd.Dir},
		func(f frame) error { return typed(f, terminal, program) }, output{terminal, pipe.FrameOutput}), nil
}

// attend is there for a program that has begun, until it has ended and all of its output is sent. take gets what the operator sends.
func (o *opening) attend(ctx context.Context, main *pipe.End, program *process, ready pipe.Ready, take func(frame) error,
	outputs ...output) pipe.Exit {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := pipe.WriteJSON(main, pipe.FrameReady, ready); err != nil {
		cancel(err)
	}
	go func() { cancel(takeAll(pipe.NewFrames(main), take)) }()
	drained := program.send(main, outputs, cancel)
	program.watch(ctx, o.life.Done())
	o.settle(ctx, main, drained)
	return farewell(ctx, program.collect())
}

// takeAll hands on what the operator sends, until the session ends. The error is why it does.
func takeAll(frames *pipe.Frames, take func(frame) error) error {
	for {
		kind, data, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return errLeft
		}
		if err != nil {
			return fmt.Errorf("the operator's side ended: %w", err)
		}
		if err := take(frame{kind, data}); err != nil {
			return err
		}
	}
}

// farewell says why a program has ended, where it did not by itself: the signal alone does not tell.
func farewell(ctx context.Context, exit pipe.Exit) pipe.Exit {
	if errors.Is(context.Cause(ctx), errLeft) {
		exit.Error = errLeft.Error()
	}
	return exit
}

// settle waits until all output is sent. If the session is ended, nobody may take it any more: then it waits for a while.
func (o *opening) settle(ctx context.Context, main *pipe.End, drained <-chan struct{}) {
	stop := context.AfterFunc(ctx, func() {
		limit := outputTime
		if o.life.Err() != nil {
			limit = stopTime / 8
		}
		select {
		case <-drained:
		case <-time.After(limit):
			main.Close()
		}
	})
	defer stop()
	<-drained
}

// typed passes on what the operator types.
func typed(f frame, terminal *Terminal, program *process) error {
	switch f.kind {
	case pipe.FrameInput:
		if _, err := terminal.Write(f.data); err != nil {
			return fmt.Errorf("write to the terminal: %w", err)
		}
	case pipe.FrameSize:
		resize(terminal, f.data)
	case pipe.FrameSignal:
		group, unknown := terminal.Foreground()
		if s, found := signals()[string(f.data)]; found && unknown == nil && group > 1 {
			program.signalGroup(group, s)
		}
	}
	return nil
}

// resize sets the size of a terminal. One that cannot be is left out.
func resize(terminal *Terminal, data []byte) {
	var size pipe.Size
	if json.Unmarshal(data, &size) != nil || min(size.Rows, size.Columns) < 1 || max(size.Rows, size.Columns) > wire.MaxTerminal {
		return
	}
	_ = terminal.Resize(size.Rows, size.Columns) // it fails once the terminal is gone
}

// shellCommand is the user's login shell, or another program in a terminal.
func shellCommand(who person.Person, params *wire.ShellParams) (*exec.Cmd, *pipe.Exit) {
	folder := who.Folder()
	environ := who.Environ(cmp.Or(params.Term, usualTerm))
	name := who.Shell
	args := []string{"-" + filepath.Base(who.Shell)} // a dash in front makes it a login shell
	if len(params.Command) > 0 {
		name = params.Command[0]
		args = params.Command
	}
	program, exit := person.Program(name, person.Variable(environ, "PATH"), folder)
	if exit != nil {
		return nil, exit
	}
	cmd := &exec.Cmd{Path: program, Args: args, Env: environ, Dir: folder}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.Credential()}
	Attach(cmd.SysProcAttr)
	return cmd, nil
}

// lend gives the programs' side of a terminal to the user, as login(1) does: some programs open it by its name. Only root can.
func lend(slave *os.File, who person.Person) {
	if os.Geteuid() != 0 {
		return
	}
	_ = slave.Chown(who.UID, who.GID)
	_ = slave.Chmod(0o600)
}
