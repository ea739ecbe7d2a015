package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/paste"
)

// Program returns how a person calls this program: by its name where PATH leads to it, else by its whole path.
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
	return paste.Quote(self)
}

// named finds the commands in a text: the program's name with a word behind it. A name that is part of a path or of a file's name does
// not count.
var named = regexp.MustCompile(`(^|[ (:;,"])muster (--help|[a-z]+)`)

// Pasted returns a command of this program as it can be pasted: line is what stands behind "muster ".
func (s *Session) Pasted(line string) string { return s.paste("muster " + line) }

// PastedText returns a text for a person, line by line safe to print, whose commands can be pasted.
func (s *Session) PastedText(text string) string {
	var out strings.Builder
	for line := range strings.Lines(s.paste(text)) {
		out.WriteString(screen.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return out.String()
}

// paste gives a text whose commands work where they are pasted. The program is called as a shell finds it, and the flags that led to
// the gateway this time stand in the command, except on a line that names the gateway itself.
func (s *Session) paste(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = s.pasteLine(lines[i])
	}
	return strings.Join(lines, "\n")
}

// pasteLine leaves the flags out where the line names a gateway itself, and where it is about --help, which needs none.
func (s *Session) pasteLine(text string) string {
	if strings.Contains(text, "--data") || strings.Contains(text, "--url") || strings.Contains(text, "--help") {
		return s.pasteWith(text, "")
	}
	flags := ""
	for _, o := range globals() {
		if o.Value != "" && s.Flags.Given(o.Name) {
			flags += " --" + o.Name + " " + paste.Quote(s.Flags.Text(o.Name))
		}
	}
	return s.pasteWith(text, flags)
}

func (s *Session) pasteWith(text, flags string) string {
	program := s.Program
	return named.ReplaceAllStringFunc(text, func(found string) string {
		parts := named.FindStringSubmatch(found)
		switch word := parts[2]; {
		case word != "--help" && !s.commands.begins(word):
			return found
		case word == "--help", s.commands.noGateway(word):
			return parts[1] + program + " " + word
		default:
			return parts[1] + program + flags + " " + word
		}
	})
}

// keyFlag names the file of a master key that is not in the data directory.
const keyFlag = "master-key-file"

// startHint says how to make the gateway of a data directory answer.
func (s *Session) startHint(ctx context.Context, data string) string {
	installed := datadir.Installed(s.Machine.Root)
	ours := installed != "" && datadir.Same(data, installed)
	switch {
	case s.Machine.UID() != 0 && s.Flags.Text("data") == "" && !isFile(filepath.Join(data, datadir.Database)) &&
		(installed != "" || IsFolder(filepath.Join(s.Machine.Root, datadir.Usual))):
		return "the gateway of this machine is root's to reach: " + s.Sudo("")
	case ours && s.Machine.UID() != 0:
		return "sudo systemctl start muster, and then " + s.Sudo(data)
	case ours:
		return s.serviceHint(ctx)
	}
	key := ""
	if isFile(filepath.Join(data, datadir.Database)) && !isFile(filepath.Join(data, datadir.MasterKey)) {
		key = " --" + keyFlag + " FILE" // it was started with a key from elsewhere
	}
	return "muster serve --data " + paste.Quote(datadir.Absolute(data)) + key +
		" starts it; --data DIR names another one's directory, --url one on another machine"
}

// serviceHint says what to do about the installed service, which does not answer.
func (s *Session) serviceHint(ctx context.Context) string {
	state, err := s.Machine.UnitState(ctx)
	if active := state["ActiveState"]; err == nil && (active == "active" || active == "activating") {
		return ServiceUnit + " is " + active + " and does not answer yet: journalctl -u muster -n 20 says why"
	}
	return "systemctl start muster"
}

// Sudo returns this command as root would give it, for the gateway of a data directory. Without a directory it is for the gateway that
// root's commands find. Of a token in the arguments only the public part is shown.
func (s *Session) Sudo(data string) string {
	line := "sudo " + s.Program
	if data != "" && (s.Flags.Given("data") || !datadir.Same(data, datadir.Default(s.Getenv, 0, s.Machine.Root))) {
		line += " --data " + paste.Quote(datadir.Absolute(data))
	}
	for i := 0; i < len(s.Args); i++ {
		arg := s.Args[i]
		if flag, _, inline := strings.Cut(strings.TrimLeft(arg, "-"), "="); flag == "data" && arg[0] == '-' {
			if !inline {
				i++
			}
			continue
		}
		line += " " + shown(arg)
	}
	return line
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// IsFolder reports whether a path leads to a folder of this machine.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
