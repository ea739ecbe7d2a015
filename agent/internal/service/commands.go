package service

import (
	"os"
	"path/filepath"
	"strings"

	"muster/agent/internal/identity"
)

// StartCommand returns what a person types to start the agent again after it has ended. It is empty if the agent was not installed by
// join.
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

// rootBase is the state directory of root's agent, unless root has given another one.
func rootBase() string { return identity.DefaultPath(os.Getenv, 0) }

// RootProgram returns the program of the agent that root has installed on this machine, as far as every user can see it. It is empty if
// none is seen.
func (s System) RootProgram() string {
	for path, start := range map[string]string{systemUnits + unitName: "ExecStart=", openRCPath: "command="} {
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
	if isDirectory(s.path(rootBase())) {
		return Layout{Base: rootBase()}.Program()
	}
	return ""
}

// Called returns what a person types to call a program here. It is the name if the PATH leads to this program, else the path.
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
