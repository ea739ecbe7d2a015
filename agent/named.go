package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"muster/agent/internal/service"
)

// named is how this program can be called in a shell on this machine. The installed one is named, for what install.sh runs
// is gone afterwards; where nothing is installed in base, the program that runs.
func (p program) named(base string) string {
	path, err := os.Executable()
	if layout := (service.Layout{Base: base}); layout.Current() != "" {
		path, err = layout.Program(), nil
	}
	if err != nil || strings.Contains(path, "/.muster-install.") {
		return service.Name
	}
	return service.Called(path, p.getenv("PATH"))
}

// asRoot points a user at the agent of root's, for commands that find none of the user's own. It is empty where there is none.
func (p program) asRoot(command string) string {
	if p.system.UID == 0 {
		return ""
	}
	path := p.system.RootProgram()
	if path == "" {
		return ""
	}
	return fmt.Sprintf("; root's agent is on this machine: sudo %s %s", path, command)
}

// startHint is how a person starts an agent that does not run.
func (p program) startHint(base, gateway string) string {
	absolute, err := filepath.Abs(base)
	if err != nil {
		absolute = base
	}
	m := service.Manager{System: p.system, Base: absolute, Settings: p.system.SettingsPath()}
	if command := m.StartCommand(); command != "" {
		return command
	}
	return fmt.Sprintf("%s run --gateway %s --state %s", p.named(absolute), gateway, absolute)
}
