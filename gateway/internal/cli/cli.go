// Package cli is the operator's command line: every command of muster but serve. All it does goes through the admin API.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/adminapi"
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
	Agents  fs.FS // the agents that push carries, <os>-<arch>/muster-agent; nil: none

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
	err := run(ctx, env)
	var usage *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		report(env.Stderr, usage.message, usage.hint)
		return exitUsage
	case errors.Is(err, errReported):
		return exitFailed
	case ctx.Err() != nil:
		report(env.Stderr, "interrupted", "")
		return exitFailed
	}
	var detail *wire.ErrorDetail
	if errors.As(err, &detail) {
		report(env.Stderr, detail.Message, detail.Hint)
	} else {
		report(env.Stderr, err.Error(), "")
	}
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

func report(w io.Writer, message, hint string) {
	fmt.Fprintf(w, "muster: %s\n", printable(message))
	if hint != "" {
		fmt.Fprintf(w, "  hint: %s\n", printable(hint))
	}
}

func run(ctx context.Context, env Env) error {
	args, forServe := serveArguments(env.Args)
	words, options, err := split(args)
	if err != nil {
		return err
	}
	cmd, rest, err := find(words)
	if err != nil {
		return err
	}
	if cmd == nil || options.given("help") {
		return help(env, cmd, rest, options.given("help") || len(words) > 0 && words[0] == "help")
	}
	if err := cmd.check(options, rest); err != nil {
		return err
	}
	rest = append(rest, forServe...)
	options.getenv = env.Getenv
	out := &checked{w: env.Stdout}
	if stdout := env.Stdout; env.Screen == nil {
		env.Screen = func() int { return screenOf(stdout, env.Getenv("COLUMNS")) }
	}
	env.Stdout = out
	if err := cmd.run(ctx, &session{Env: env, options: options, args: rest, command: cmd}); err != nil {
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
}

func (s *session) client(ctx context.Context) (*adminapi.Client, error) {
	if s.options.given("url") && s.options.given("data") {
		return nil, usagef("a gateway is reached by its socket or by its URL", "--data and --url exclude each other")
	}
	target := adminapi.Target{DataDir: s.dataDir(), RootPin: s.options.text("root-pin"), CAFile: s.options.text("ca")}
	if s.options.given("data") {
		return adminapi.Dial(ctx, target)
	}
	if target.URL = s.options.text("url"); target.URL == "" {
		return adminapi.Dial(ctx, target)
	}
	token, err := s.apiToken()
	if err != nil {
		return nil, err
	}
	target.Token = token
	return adminapi.Dial(ctx, target)
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

func (s *session) dataDir() string {
	if dir := s.options.text("data"); dir != "" {
		return dir
	}
	return DataDir(s.Getenv, os.Geteuid())
}

// DataDir is where a gateway keeps its data unless told otherwise.
func DataDir(getenv func(string) string, uid int) string {
	if uid == 0 {
		return "/var/lib/muster"
	}
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) { // the XDG specification has relative ones ignored
		return filepath.Join(dir, "muster")
	}
	return filepath.Join(getenv("HOME"), ".local", "share", "muster")
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
