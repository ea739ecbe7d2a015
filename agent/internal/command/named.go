package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
)

// Named returns what a person types to call the agent on this machine: the agent that is installed in base, else the program that runs. It
// never names the copy that install.sh runs, because install.sh removes that copy.
func (p Program) Named(base string) string {
	path, err := os.Executable()
	if layout := (service.Layout{Base: base}); layout.Current() != "" {
		path = layout.Program()
		err = nil
	}
	if err != nil || strings.Contains(path, "/"+identity.InstallPrefix) {
		return service.Name
	}
	return service.Called(path, p.Getenv("PATH"))
}

// AsRoot returns a hint for a user who has no agent: it names root's agent. It is empty if root has none either.
func (p Program) AsRoot(command string) string {
	if p.System.UID == 0 {
		return ""
	}
	path := p.System.RootProgram()
	if path == "" {
		return ""
	}
	return fmt.Sprintf("; root's agent is on this machine: sudo %s %s", path, command)
}

// StartHint returns the command with which a person starts an agent that does not run.
func (p Program) StartHint(base, gateway string) string {
	absolute, err := filepath.Abs(base)
	if err != nil {
		absolute = base
	}
	m := service.Manager{System: p.System, Base: absolute, Settings: p.System.SettingsPath()}
	if command := m.StartCommand(); command != "" {
		return command
	}
	return fmt.Sprintf("%s run --gateway %s --state %s", p.Named(absolute), gateway, absolute)
}
