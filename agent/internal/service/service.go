// Package service keeps the agent running on a machine, and removes it again without a trace.
//
// The machine's own means restart the agent: systemd, OpenRC, or a user's systemd. If there is none of these, the agent brings a
// supervisor, which cron or a provider's start script starts at boot. Every file is complete and on the disk before it is used. After
// an interruption, the same call goes on and finishes the work. systemd is reloaded only on request, because a daemon-reload can take
// the GPUs away from running containers.
package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"muster/agent/disk"
	"muster/agent/wire"
)

// musterFolder holds root's settings of the agent, and what a bootstrap script writes.
const musterFolder = "/etc/muster"

// Name is the name of the program, of its unit, of its service and of its folders.
const Name = "muster-agent"

// commandTime bounds one call of a tool. To start the unit takes longest: systemd waits until the agent has asked its gateway once.
const commandTime = time.Minute

// Kind is the kind of service that keeps the agent running.
type Kind string

// The kinds, the preferred one first.
const (
	Systemd     Kind = "systemd"
	OpenRC      Kind = "OpenRC"
	UserSystemd Kind = "systemd --user"
	Supervised  Kind = "built-in supervisor"
)

// kinds are those that can keep this user's agent, the preferred one first. A user does not touch what root has installed.
func (s System) kinds() []Kind {
	if s.UID != 0 {
		return []Kind{UserSystemd, Supervised}
	}
	return []Kind{Systemd, OpenRC, UserSystemd, Supervised}
}

// System is the machine. The zero value of every field except UID means the real machine. Tests set the fields.
type System struct {
	Root   string // stands in front of every path of the system; empty: nothing does
	UID    int
	Getenv func(string) string
	// Command runs a tool of the system and returns what it printed. If it is nil, the real tool runs, without any MUSTER_ variable.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Exec replaces this process by a program, with these arguments and this environment. Nil: the system does that.
	Exec func(program string, args, environ []string) error
	// Detach starts a command that outlives this process, and returns the one line that it prints. Nil: the real command is started.
	Detach func(*exec.Cmd) (string, error)
	Disk   disk.Steps // of the files that are written; nil: nobody is told
}

// Manager keeps one agent on one machine.
type Manager struct {
	System
	Base        string // the agent's state directory
	Settings    string // the settings file, without Root in front of it
	ReloadUnits bool   // systemd may be reloaded where the unit has changed
}

// Outcome is what an installation has done.
type Outcome struct {
	Line   string   // what was done, for a person
	Advice []string // what is left for a person to do
}

func (s System) path(path string) string { return filepath.Join(s.Root, path) }

func (s System) getenv(name string) string {
	if s.Getenv == nil {
		return os.Getenv(name)
	}
	return s.Getenv(name)
}

// SettingsPath returns where the settings of this user's agent are: for root /etc/muster/agent.env, for others below the XDG
// configuration folder. It is empty if that folder is not known.
func (s System) SettingsPath() string {
	if s.UID == 0 {
		return musterFolder + "/agent.env"
	}
	if folder := s.configFolder(); folder != "" {
		return filepath.Join(folder, "muster", "agent.env")
	}
	return ""
}

// OwnerFolder returns the folder in which the owner of a machine says what its agent may do. The agent never writes there.
func (s System) OwnerFolder() string { return s.path(musterFolder) }

func (s System) configFolder() string {
	if base := s.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		return base
	}
	if home := s.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config")
	}
	return ""
}

// Kind finds what can keep the agent running here.
func (s System) Kind() Kind {
	switch {
	case s.UID == 0 && s.runsSystemd():
		return Systemd
	case s.UID == 0 && isDirectory(s.path("/run/openrc")):
		return OpenRC
	case s.UID != 0 && s.runtimeFolder() != "" && s.configFolder() != "":
		return UserSystemd
	}
	return Supervised
}

// runsSystemd reports whether systemd is the init system here, as sd_booted(3) does.
func (s System) runsSystemd() bool { return isDirectory(s.path("/run/systemd/system")) }

// runtimeFolder is the folder in which the user's systemd listens. It is empty if none listens.
func (s System) runtimeFolder() string {
	for _, folder := range []string{s.getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", s.UID)} {
		if !filepath.IsAbs(folder) {
			continue
		}
		if _, err := os.Stat(s.path(filepath.Join(folder, "systemd", "private"))); err == nil {
			return folder
		}
	}
	return ""
}

// run calls a tool. The error holds what the tool printed.
func (s System) run(ctx context.Context, name string, args ...string) (string, error) {
	out, err := s.call(ctx, name, args...)
	text := strings.TrimSpace(string(out))
	if err == nil {
		return text, nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return text, fmt.Errorf("%s is not on this machine: %w", name, err)
	}
	return text, fmt.Errorf("%s %s: %s: %w", name, strings.Join(args, " "), oneLine(text), err)
}

func (s System) call(ctx context.Context, name string, args ...string) ([]byte, error) {
	if s.Command == nil {
		return runCommand(ctx, name, args...)
	}
	return s.Command(ctx, name, args...)
}

func runCommand(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Env = wire.WithoutEnv(os.Environ())
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return out, fmt.Errorf("not done within %s", commandTime)
	}
	return out, err
}

// oneLine makes the text of a tool fit for one line of the screen. It keeps the last 300 bytes, because tools say at the end what failed.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[len(text)-300:], "")
	}
	if text == "" {
		return "it said nothing"
	}
	return text
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// CheckPath refuses a path that has a special meaning in a unit, a crontab or a shell script.
func CheckPath(path string) error {
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+@", r)
	}
	if !filepath.IsAbs(path) || strings.ContainsFunc(path, odd) {
		return fmt.Errorf("%q cannot stand in a unit or a crontab: give --state an absolute path of letters, digits and / . _ - + @", path)
	}
	return nil
}

// same reports whether a file has this content already.
func same(path string, content []byte) bool {
	old, err := os.ReadFile(path)
	return err == nil && bytes.Equal(old, content)
}
