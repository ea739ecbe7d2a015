// Package cli is the operator's command line: every command of muster but serve. All it does goes through the admin API.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
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

	Screen      func() int                                 // columns of the terminal that Stdout is, 0: it is none; nil: it is asked
	Interactive func() bool                                // a person can answer questions; nil: Stdin is a terminal
	Now         func() time.Time                           // nil: time.Now
	Pause       func(context.Context, time.Duration) error // between two looks; nil: a timer
}

// Run runs one command and gives the exit code: 0 done, 1 failed, 2 used wrongly.
func Run(ctx context.Context, env Env) int {
	s := &session{Env: env}
	err := s.execute(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		s.report(usage.message, usage.hint)
		return exitUsage
	case errors.Is(err, errReported):
		return exitFailed
	case ctx.Err() != nil:
		s.report("interrupted", "")
		return exitFailed
	}
	s.report(s.explain(ctx, err))
	return exitFailed
}

// errReported ends a command whose failures were printed as they came.
var errReported = errors.New("reported")

// usageError says what was wrong with the arguments.
type usageError struct{ message, hint string }

func (e *usageError) Error() string { return e.message }

func usagef(hint, format string, args ...any) error {
	return &usageError{message: fmt.Sprintf(format, args...), hint: hint}
}

// execute finds the command and runs it.
func (s *session) execute(ctx context.Context) error {
	args, forServe := serveArguments(s.Args)
	words, options, err := split(args)
	if err != nil {
		return err
	}
	s.options = options
	cmd, rest, err := find(words)
	if err != nil {
		return err
	}
	s.command = cmd
	if stdout := s.Stdout; s.Screen == nil {
		s.Screen = func() int { return screenOf(stdout, s.Getenv("COLUMNS")) }
	}
	switch {
	case cmd == nil && len(words) > 0 && words[0] == helpName:
		return s.topic(rest)
	case cmd == nil || options.given("help"):
		return help(s.Env, cmd, rest, options.given("help"))
	}
	if err := cmd.check(options, rest); err != nil {
		return err
	}
	s.args, s.options.getenv = append(rest, forServe...), s.Getenv
	out := &checked{w: s.Stdout}
	s.Stdout = out
	if err := cmd.run(ctx, s); err != nil {
		return err
	}
	return out.err
}

// checked remembers the first error of a writer, so that what could not be printed fails a command wherever it prints.
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

// session is one command at work.
type session struct {
	Env
	options settings
	args    []string
	command *command
	files   string // the data directory that the command works on without a gateway; empty: it does not
}

func (s *session) client(ctx context.Context) (*client.Client, error) {
	if s.options.given("url") && s.options.given("data") {
		return nil, usagef("a gateway is reached by its socket or by its URL", "--data and --url exclude each other")
	}
	url := s.options.text("url")
	if s.options.given("data") || url == "" {
		dir, err := s.dataDir()
		if err != nil {
			return nil, err
		}
		return client.Dial(ctx, client.Target{DataDir: dir})
	}
	token, err := s.apiToken()
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, client.Target{URL: url, Token: token, RootPin: s.options.text("root-pin"), CAFile: s.options.text("ca")})
}

// apiToken comes from the environment or a file, never from the arguments, which every user of the machine can read.
func (s *session) apiToken() (string, error) {
	file := s.options.text("token-file")
	if file == "" {
		return s.Getenv("MUSTER_API_TOKEN"), nil
	}
	raw, err := s.readFile(file)
	if err != nil {
		return "", fmt.Errorf("read the API token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

const longestSecretFile = 64 << 10 // bytes

// readFile reads a small file; "-" is standard input.
func (s *session) readFile(name string) ([]byte, error) {
	from := s.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	raw, err := io.ReadAll(io.LimitReader(from, longestSecretFile+1))
	if err == nil && len(raw) > longestSecretFile {
		err = fmt.Errorf("%s is longer than %d bytes", name, longestSecretFile)
	}
	return raw, err
}

// dataDir is the data directory that this call is about.
func (s *session) dataDir() (string, error) {
	dir := s.options.text("data")
	switch {
	case dir != "":
		return dir, nil
	case s.options.given("data"):
		return "", usagef("name the gateway's directory, or leave --data out", "--data is empty")
	}
	if dir = datadir.Default(s.Getenv, s.uid(), s.Machine.Root); dir == "" {
		return "", usagef("name the gateway's directory with --data DIR", "there is no HOME and no XDG_DATA_HOME that says where the gateway's data are")
	}
	return dir, nil
}

func (s *session) uid() int {
	if s.Machine.UID != nil {
		return s.Machine.UID()
	}
	return os.Geteuid()
}

func (s *session) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func (s *session) pause(ctx context.Context, d time.Duration) error {
	if s.Pause != nil {
		return s.Pause(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) interactive() bool {
	if s.Interactive != nil {
		return s.Interactive()
	}
	f, ok := s.Stdin.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a character device too, with nobody behind it
	return err != nil || !os.SameFile(info, null)
}
