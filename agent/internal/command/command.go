// Package command is what every command of the agent works with: the environment, input and output, the machine, and flags that may also
// be variables.
//
// Applicant gets a machine its identity, for join and run: it decides which name, which credential and which root pins an enrolment uses,
// and what still counts of the identity from before.
//
// Machine is the computer that the agent runs on. The commands status, probe, leave, settle and launch are here too.
package command

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"muster/agent/flags"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

// Program is what a command works with besides its arguments.
type Program struct {
	Version  string // of this build
	Getenv   func(string) string
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	System   service.System // the machine
	Patience time.Duration  // the longest wait of join and leave in a test; 0: as long as they should wait
}

// Usagef returns the error of a wrong call. Its text says what to do instead.
func Usagef(format string, args ...any) error {
	return &flags.Error{Message: fmt.Sprintf(format, args...)}
}

// Limit returns the regular time limit, or Patience if a test has set a shorter one.
func (p Program) Limit(regular time.Duration) time.Duration {
	if p.Patience > 0 {
		return min(p.Patience, regular)
	}
	return regular
}

// AgentInfo describes this program to the gateway. It leaves out the digest if the program's file cannot be read.
func (p Program) AgentInfo() wire.AgentInfo {
	info := wire.AgentInfo{Version: p.Version, OS: runtime.GOOS, Arch: runtime.GOARCH}
	if digest, err := service.Digest(service.OwnProgram); err == nil {
		info.Digest = "sha256:" + digest
	}
	return info
}

// StatePath returns the state directory of the agent on this machine: the one that join was told, else the default one.
func (p Program) StatePath() string {
	settings, err := service.Manager{System: p.System, Settings: p.System.SettingsPath()}.LoadSettings()
	if err == nil && settings[wire.EnvState] != "" {
		return settings[wire.EnvState]
	}
	return identity.DefaultPath(p.Getenv, p.System.UID)
}
