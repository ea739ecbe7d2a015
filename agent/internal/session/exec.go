package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
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
	streams, err := openStreams(cmd)
	if err != nil {
		return pipe.Exit{}, fmt.Errorf("make the pipes of a program: %w", err)
	}
	defer streams.close()
	program, err := o.start(cmd, true)
	streams.lent()
	if err != nil {
		return *person.NotStarted(params.Command[0], err), pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{User: who.Name, Directory: folder})
	}
	return o.attend(ctx, main, program, pipe.Ready{User: who.Name, Directory: folder},
		func(f frame) error { return streams.take(f, program) },
		func(cancel context.CancelCauseFunc) <-chan struct{} { return streams.send(main, program, cancel) }), nil
}

// streams are our ends of a program's input, output and errors.
type streams struct {
	in, out, err *os.File
	theirs       []*os.File
}

func openStreams(cmd *exec.Cmd) (*streams, error) {
	s := &streams{}
	theirIn, in, bad1 := os.Pipe()
	out, theirOut, bad2 := os.Pipe()
	err, theirErr, bad3 := os.Pipe()
	s.in = in
	s.out = out
	s.err = err
	s.theirs = []*os.File{theirIn, theirOut, theirErr}
	if bad := errors.Join(bad1, bad2, bad3); bad != nil {
		s.lent()
		s.close()
		return nil, bad
	}
	cmd.Stdin = theirIn
	cmd.Stdout = theirOut
	cmd.Stderr = theirErr
	return s, nil
}

// lent closes the program's ends, once it has them.
func (s *streams) lent() {
	for _, file := range s.theirs {
		file.Close()
	}
}

func (s *streams) close() {
	s.in.Close()
	s.out.Close()
	s.err.Close()
}

// send sends what the program writes. The channel is closed when all is sent.
func (s *streams) send(main *pipe.End, program *process, cancel context.CancelCauseFunc) <-chan struct{} {
	var writing sync.Mutex // a frame of one must not stand within a frame of the other
	var both sync.WaitGroup
	for _, one := range []struct {
		from *os.File
		kind pipe.FrameKind
	}{{s.out, pipe.FrameOutput}, {s.err, pipe.FrameError}} {
		both.Go(func() {
			err := drain(one.from, program.ended, func(data []byte) error {
				writing.Lock()
				defer writing.Unlock()
				return pipe.WriteFrame(main, one.kind, data)
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		both.Wait()
	}()
	return done
}

// take passes on what the operator sends. A program that takes no more input goes on.
func (s *streams) take(f frame, program *process) error {
	switch f.kind {
	case pipe.FrameInput:
		_, _ = s.in.Write(f.data)
	case pipe.FrameInputEnd:
		s.in.Close()
	case pipe.FrameSignal:
		if one, found := signals()[string(f.data)]; found {
			program.signal(one)
		}
	}
	return nil
}
