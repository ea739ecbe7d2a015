package service

import (
	"os"
	"path/filepath"
	"strings"
)

// StartCommand is what a person types to have an agent that has ended started again. It is empty where no joining has arranged
// for that.
func (m Manager) StartCommand() string {
	switch m.Installed() {
	case Systemd:
		return "systemctl start " + Name
	case OpenRC:
		return "rc-service " + Name + " start"
	case UserSystemd:
		return "systemctl --user start " + Name
	case Supervised:
		return strings.TrimSuffix(m.bootLine(), " "+marker)
	}
	return ""
}

// rootBase is where root's agent is unless root has said otherwise.
const rootBase = "/var/lib/" + Name

// RootProgram is the program of an agent that root has joined to a gateway on this machine, as far as every user can see that.
// It is empty where none is seen.
func (s System) RootProgram() string {
	for path, start := range map[string]string{"/etc/systemd/system/" + unitName: "ExecStart=", openRCPath: "command="} {
		text, err := os.ReadFile(s.path(path))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if program, ok := strings.CutPrefix(strings.TrimSpace(line), start); ok {
				return strings.Trim(strings.TrimSuffix(strings.ReplaceAll(program, "%%", "%"), " run"), `"`)
			}
		}
	}
	if isDirectory(s.path(rootBase)) {
		return Layout{Base: rootBase}.Program()
	}
	return ""
}

// Called is how a program can be called in a shell here: by its name where the PATH leads to it, else by its path.
func Called(path, pathVariable string) string {
	real, err := filepath.EvalSymlinks(path)
	for _, folder := range filepath.SplitList(pathVariable) {
		found, missing := filepath.EvalSymlinks(filepath.Join(folder, Name))
		if err == nil && missing == nil && filepath.IsAbs(folder) {
			if found == real {
				return Name
			}
			return path // another program is called by that name
		}
	}
	return path
}
