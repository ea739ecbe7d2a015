package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/paste"
)

// Session is one command at work.
type Session struct {
	Env
	Flags  Flags
	Words  []string // the command's arguments that are no flags
	Behind []string // of a command with Program: the words behind --; nil: there was none
	Name   string   // of the command: "node ls"
	Form   string   // of its output

	ctx      context.Context // of the command, for reads of standard input
	commands catalog
	plainOut io.Writer // Stdout as the process has it
	files    string    // the data directory that the command works on without a gateway; empty: it does not
}

// Client reaches the gateway that the flags and the environment name, the same one at each call.
func (s *Session) Client(ctx context.Context) (c *client.Client, err error) {
	if s.Gateway == nil {
		s.Gateway, err = s.dial(ctx)
	}
	return s.Gateway, err
}

// dial finds the gateway. A flag wins over every variable, so --data wins over MUSTER_URL. Of the two variables MUSTER_URL wins.
func (s *Session) dial(ctx context.Context) (*client.Client, error) {
	if s.Flags.Given("url") && s.Flags.Given("data") {
		return nil, Usagef("a gateway is reached by its socket or by its URL", "--data and --url exclude each other")
	}
	if s.OverSocket() {
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
	return client.Dial(ctx, client.Target{URL: s.Flags.Text("url"), Token: token, RootPin: s.Flags.Text("root-pin"),
		CAFile: s.Flags.Text("ca")})
}

// OverSocket reports whether the gateway is one of this machine, and is reached through the socket in its data directory.
func (s *Session) OverSocket() bool { return s.Flags.Given("data") || s.Flags.Text("url") == "" }

// apiToken comes from the environment or a file, never from the arguments, which every user of the machine can read.
func (s *Session) apiToken() (string, error) {
	file := s.Flags.Text("token-file")
	if file == "" {
		return s.Getenv("MUSTER_API_TOKEN"), nil
	}
	raw, err := s.ReadSecret(file)
	if err != nil {
		return "", fmt.Errorf("read the API token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

const longestSecretFile = 64 << 10 // bytes

// ReadFile reads a small file; "-" is standard input.
func (s *Session) ReadFile(name string) ([]byte, error) {
	from := s.Input()
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

// ReadSecret does what ReadFile does, for a secret: it warns if others can read the file.
func (s *Session) ReadSecret(name string) ([]byte, error) {
	if said := datadir.Exposed(name); said != "" {
		fmt.Fprintln(s.Stderr, screen.Fold("warning: "+screen.Printable(said), s.Screen(), "  "))
	}
	return s.ReadFile(name)
}

// ReadValue reads a value that is to be kept secret: from the file that --file names, or from a pipe, and never from the arguments. A line
// feed at its end is cut. what names it in errors: "secret"; hint says what gives it.
func (s *Session) ReadValue(what, hint string) (string, error) {
	value, err := s.ReadGiven(what, hint)
	if err == nil && value == "" {
		err = Usagef(hint, "the %s is empty", what)
	}
	return value, err
}

// ReadGiven does what ReadValue does, and takes an empty value too.
func (s *Session) ReadGiven(what, hint string) (string, error) {
	file := s.Flags.Text("file")
	if file == "" && s.Interactive() {
		return "", Usagef(hint, "where does the %s come from?", what)
	}
	raw, err := s.ReadSecret(cmp.Or(file, "-"))
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", what, err)
	}
	return strings.TrimRight(string(raw), "\r\n"), nil
}

// FileOrPipe is the hint for a value that has no other source.
const FileOrPipe = "--file FILE or a pipe gives it"

// Way returns the flags that lead to the gateway, as words that can be pasted. A path is made whole.
func (s *Session) Way() string {
	words := ""
	for _, flag := range []string{"data", "url", "token-file", "root-pin", "ca"} {
		value := s.Flags.Text(flag)
		elsewhere := flag == "data" && s.Flags.Text("url") != "" // then the variable of data does not count
		if !s.Flags.Given(flag) && (value == "" || elsewhere) {
			continue
		}
		if flag == "data" || flag == "token-file" || flag == "ca" {
			if whole, err := filepath.Abs(value); err == nil {
				value = whole
			}
		}
		words += " --" + flag + " " + paste.Quote(value)
	}
	return words
}

// dataDir is the data directory that this call is about.
func (s *Session) dataDir() (string, error) {
	dir := s.Flags.Text("data")
	switch {
	case dir != "":
		return dir, nil
	case s.Flags.Given("data"):
		return "", Usagef("name the gateway's directory, or leave --data out", "--data is empty")
	}
	if dir = datadir.Default(s.Getenv, s.Machine.UID(), s.Machine.Root); dir == "" {
		return "", Usagef("name the gateway's directory with --data DIR",
			"there is no HOME and no XDG_DATA_HOME that says where the gateway's data are")
	}
	return dir, nil
}

// DataDir returns the directory of the gateway's data on this machine; empty: the gateway is reached by its URL, or nothing says where.
func (s *Session) DataDir() string {
	if !s.OverSocket() {
		return ""
	}
	dir, err := s.dataDir()
	if err != nil {
		return ""
	}
	return dir
}

// DataFiles names the data of a stopped gateway, for a command that works on them.
func (s *Session) DataFiles() (datadir.Files, error) {
	if s.Flags.Given("url") {
		return datadir.Files{}, Usagef("run it on the gateway's machine", "muster %s works on the files of a gateway, not by its URL", s.Name)
	}
	dir, err := s.dataDir()
	s.files = dir
	return datadir.Files{Data: dir, MasterKeyFile: s.Flags.Text(keyFlag)}, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Terminal returns the terminal that can show a live picture, and that keys come from; nil: there is no terminal, or it can only print.
func (s *Session) Terminal() (in, out *os.File) {
	term := s.Getenv("TERM")
	if term == "" || term == "dumb" {
		return nil, nil
	}
	return s.Keyboard()
}

// Keyboard returns the terminal that a person types on, whatever it can show; nil: there is none.
func (s *Session) Keyboard() (in, out *os.File) {
	in, _ = s.Stdin.(*os.File)
	out, _ = s.plainOut.(*os.File)
	if in == nil || out == nil || s.Screen() == 0 || !s.Interactive() {
		return nil, nil
	}
	return in, out
}

// isTerminal tells whether a person may be at the other end.
func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
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
