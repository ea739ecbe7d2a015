package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/shellword"
)

// Program is how a person calls this program: by its name where PATH leads to it, else by its whole path.
func Program(getenv func(string) string) string {
	const name = "muster"
	self, err := os.Executable()
	folders := filepath.SplitList(getenv("PATH"))
	if err != nil {
		return name
	}
	running, err := os.Stat(self)
	for _, folder := range folders {
		path := filepath.Join(folder, name)
		if _, missing := exec.LookPath(path); missing != nil {
			continue
		}
		found, errFound := os.Stat(path)
		if err == nil && errFound == nil && os.SameFile(found, running) {
			return name
		}
		break // another one comes first
	}
	return QuoteWord(self)
}

// report prints what went wrong and what to do about it. The commands in a hint can be pasted.
func (s *session) report(message, hint string) {
	fmt.Fprintf(s.Stderr, "muster: %s\n", printable(message))
	if hint != "" {
		fmt.Fprintf(s.Stderr, "  hint: %s\n", printable(s.paste(hint)))
	}
}

// printf prints text for a person; the commands in it can be pasted.
func (s *session) printf(format string, args ...any) {
	for line := range strings.Lines(s.paste(fmt.Sprintf(format, args...))) {
		fmt.Fprintln(s.Stdout, printable(strings.TrimSuffix(line, "\n")))
	}
}

// named finds the commands in a text: the program's name, not as part of a path or of a file's name, and a word behind it.
var named = regexp.MustCompile(`(^|[ (:;,"])muster (--help|[a-z]+)`)

// paste gives a text whose commands work where they are pasted: the program is called as it can be found, and the flags that led
// to the gateway this time stand in them, unless the text says that itself.
//
// It works line by line.
func (s *session) paste(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = s.pasteLine(lines[i])
	}
	return strings.Join(lines, "\n")
}

func (s *session) pasteLine(text string) string {
	if strings.Contains(text, "--data") || strings.Contains(text, "--url") || strings.Contains(text, "--help") {
		return s.pasteWith(text, "")
	}
	flags := ""
	for _, o := range globals() {
		if values := s.options.values[o.name]; o.value != "" && len(values) > 0 {
			flags += " --" + o.name + " " + QuoteWord(values[len(values)-1])
		}
	}
	return s.pasteWith(text, flags)
}

func (s *session) pasteWith(text, flags string) string {
	program := s.program()
	return named.ReplaceAllStringFunc(text, func(found string) string {
		parts := named.FindStringSubmatch(found)
		switch word := parts[2]; {
		case word != "--help" && !isCommand(word):
			return found
		case word == "--help", word == serveName, word == "service", word == helpName, word == "completion", word == "version":
			return parts[1] + program + " " + word
		default:
			return parts[1] + program + flags + " " + word
		}
	})
}

func isCommand(word string) bool {
	first, _ := tree()
	return slices.Contains(first, word)
}

// QuoteWord gives a word as a shell reads it back.
func QuoteWord(word string) string { return shellword.Quote(word) }

// explain gives the words for an error, and the next step where there is one.
func (s *session) explain(ctx context.Context, err error) (message, hint string) {
	var detail *wire.ErrorDetail
	var socket *client.SocketError
	switch {
	case errors.As(err, &detail):
		return detail.Message, detail.Hint
	case errors.As(err, &socket) && socket.Nobody():
		return err.Error(), s.startHint(ctx, filepath.Dir(socket.Path))
	case errors.As(err, &socket) && socket.Refused():
		return err.Error(), s.sudo(filepath.Dir(socket.Path)) + "; or reach the gateway by --url, with an API token"
	case errors.Is(err, fs.ErrPermission) && s.files != "" && s.uid() != 0:
		return err.Error(), s.sudo(s.files)
	}
	return err.Error(), ""
}

// startHint says how the gateway of a data directory comes to answer.
func (s *session) startHint(ctx context.Context, data string) string {
	installed := datadir.Installed(s.Machine.Root)
	ours := installed != "" && datadir.Same(data, installed)
	switch {
	case s.uid() != 0 && s.options.text("data") == "" && !isFile(filepath.Join(data, datadir.Database)) && (installed != "" || isFolder(filepath.Join(s.Machine.Root, datadir.Usual))):
		return "the gateway of this machine is root's to reach: " + s.sudo("")
	case ours && s.uid() != 0:
		return "sudo systemctl start muster, and then " + s.sudo(data)
	case ours:
		return s.serviceHint(ctx)
	}
	return "muster serve --data " + QuoteWord(datadir.Absolute(data)) +
		" starts it; --data DIR names another one's directory, --url one on another machine"
}

// serviceHint looks why a service does not answer.
func (s *session) serviceHint(ctx context.Context) string {
	m := &service{session: s, Machine: s.Machine.complete()}
	state, err := m.unit(ctx)
	if active := state["ActiveState"]; err == nil && (active == "active" || active == "activating") {
		return serviceUnit + " is " + active + " and does not answer yet: journalctl -u muster -n 20 says why"
	}
	return "systemctl start muster"
}

// sudo is this command as root gives it, for the gateway of a data directory; "": the one that root's commands find. Of a token
// in the arguments only the public part is shown.
func (s *session) sudo(data string) string {
	line := "sudo " + s.program()
	if data != "" && (s.options.given("data") || !datadir.Same(data, datadir.Default(s.Getenv, 0, s.Machine.Root))) {
		line += " --data " + QuoteWord(datadir.Absolute(data))
	}
	for i := 0; i < len(s.Args); i++ {
		arg := s.Args[i]
		if flag, _, inline := strings.Cut(strings.TrimLeft(arg, "-"), "="); flag == "data" && arg[0] == '-' {
			if !inline {
				i++
			}
			continue
		}
		if token, err := sign.ParseToken(arg); err == nil {
			arg = token.Public()
		}
		line += " " + QuoteWord(arg)
	}
	return line
}

func (s *session) program() string {
	if s.Program == "" {
		return "muster"
	}
	return s.Program
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
