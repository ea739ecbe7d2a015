// Package cli is the core of the operator's command line: what all commands share. It reads the flags, runs the command, reaches the
// gateway, prints, asks, and says what went wrong. All that a command does goes through the admin API.
//
// The commands themselves are in the packages below, one for each group: cli/node, cli/join and so on. A group imports this package;
// this package imports no group. Package cli/commands lists the groups. A new group is a package of its own and one line there, and
// its flags stand in the table of flags.go.
package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"muster/agent/flags"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Env is all that the command line takes from its process.
type Env struct {
	Args    []string // without the program's name
	Getenv  func(string) string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Version string
	Program string // how this program is called in a command that is printed to be pasted; "": muster
	Agents  fs.FS  // the agents that push carries, <os>-<arch>/muster-agent; nil: none

	Serve   func(args []string, getenv func(string) string) (ServeFlags, error) // reads serve's flags; nil: there is no gateway
	Local   Local                                                               // what is done on files, without a gateway
	Machine Machine                                                             // what service install works on
	Gateway *client.Client                                                      // nil: the one that flags and variables name

	Screen      func() int                                 // columns of the terminal that Stdout is, 0: it is none; nil: it is asked
	Interactive func() bool                                // a person can answer questions; nil: Stdin is a terminal
	Signals     func() (<-chan os.Signal, func())          // what a person interrupts with, until the func is called; nil: the process's
	Now         func() time.Time                           // nil: time.Now
	Pause       func(context.Context, time.Duration) error // between two looks; nil: a timer
	After       func(time.Duration, func()) func()         // calls later, unless it is stopped before; nil: after
}

// complete fills in what the caller left out.
func (e Env) complete() Env {
	if e.Program == "" {
		e.Program = "muster"
	}
	if e.Screen == nil {
		stdout := e.Stdout
		e.Screen = func() int { return screen.Columns(stdout, e.Getenv("COLUMNS")) }
	}
	if e.Interactive == nil {
		e.Interactive = func() bool { return isTerminal(e.Stdin) }
	}
	if e.Signals == nil {
		e.Signals = signals
	}
	if e.Now == nil {
		e.Now = time.Now
	}
	if e.Pause == nil {
		e.Pause = pause
	}
	if e.After == nil {
		e.After = after
	}
	e.Machine = e.Machine.complete()
	return e
}

// Run runs one of the commands and gives the exit code: 0 done, 1 failed, 2 used wrongly; a command that runs a program elsewhere gives
// that one's.
func Run(ctx context.Context, env Env, commands []Command) int {
	s := &Session{Env: env.complete(), ctx: ctx, commands: commands}
	err := s.execute(ctx)
	var usage *flags.Error
	var ended *EndedWith
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		s.Report(usage.Message, usage.Hint)
		return exitUsage
	case errors.As(err, &ended):
		if ended.Err != nil {
			s.Report(s.Explain(ctx, ended.Err))
		}
		return ended.Code
	case errors.Is(err, ErrReported):
		return exitFailed
	case ctx.Err() != nil:
		s.Report("interrupted", "")
		return exitFailed
	}
	s.Report(s.Explain(ctx, err))
	return exitFailed
}

// execute finds the command and runs it.
func (s *Session) execute(ctx context.Context) error {
	if last := len(s.Args) - 1; last >= 0 && slices.Contains([]string{"--version", "-version", "-v", "-V"}, s.Args[last]) {
		if word, _ := firstWord(s.Args[:last]); word == "" { // people ask every program so
			s.Args = append(slices.Clone(s.Args[:last]), versionName)
		}
	}
	args, ofServe := s.commands.divide(s.Args)
	words, behind, given, err := split(args)
	s.Flags = given
	if err != nil {
		return s.commands.unread(readTyped(args), err)
	}
	command, rest, known := s.commands.find(words)
	ofProgram := command != nil && command.Program && behind != nil
	if !ofProgram { // words behind -- are words like others
		command, rest, known = s.commands.find(slices.Concat(words, behind))
	}
	if !known {
		return s.commands.unknown(readTyped(args))
	}
	switch {
	case command == nil && len(words) > 0 && words[0] == helpName:
		return s.topic(rest)
	case command == nil || given.Given("help"):
		return s.help(command, rest, given.Given("help"))
	}
	if ofProgram {
		s.Behind = behind
	}
	s.Flags.Getenv = s.Getenv
	s.Flags.Takes = command.Flags
	if err := s.commands.verbInstead(command, readTyped(args)); err != nil {
		return err
	}
	if err := command.check(s.Flags, rest); err != nil {
		return cmp.Or(s.commands.showInstead(command, rest), err)
	}
	if s.Form, err = command.form(s.Flags); err != nil {
		return err
	}
	s.Name = command.Name
	s.Words = append(rest, ofServe...)
	s.plainOut = s.Stdout
	out := &checked{w: s.Stdout}
	s.Stdout = out
	if err := command.Run(ctx, s); err != nil {
		return err
	}
	return out.err
}

// checked remembers a writer's first error, so that a command fails if its output could not be printed.
type checked struct {
	w   io.Writer
	err error
}

func (c *checked) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// signals are those that ask a program to end.
func signals() (<-chan os.Signal, func()) {
	came := make(chan os.Signal, 4)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return came, func() { signal.Stop(came) }
}
