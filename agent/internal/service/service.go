// Package service keeps the agent running on a machine when nobody is watching, and takes it away again without a trace.
//
// What restarts it is what the machine has: systemd, OpenRC, a user's systemd, or nothing at all, and then a supervisor of
// its own that cron or a provider's start script starts at boot. Everything that is written is complete and on the disk
// before it is used, and doing the same again is how every interruption is mended. No step reloads systemd unless asked to:
// a daemon-reload can take the GPUs away from running containers.
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
)

// Name is that of the program, its unit, its service and its folders.
const Name = "muster-agent"

// commandTime bounds one call of a system's tool. A start waits until the agent has spoken with its gateway once.
const commandTime = time.Minute

// Kind is what keeps the agent running.
type Kind string

// Kinds, in the order in which a machine is asked for them.
const (
	Systemd     Kind = "systemd"
	OpenRC      Kind = "OpenRC"
	UserSystemd Kind = "systemd --user"
	Supervised  Kind = "built-in supervisor"
)

// kinds are those that this user's agent can be kept by, in that order. What root has installed is not a user's to touch.
func (s System) kinds() []Kind {
	if s.UID != 0 {
		return []Kind{UserSystemd, Supervised}
	}
	return []Kind{Systemd, OpenRC, UserSystemd, Supervised}
}

// System is the machine. Its fields are there for tests: the zero value of each but UID means the real thing.
type System struct {
	Root   string // stands before every path of the system's own; empty: nothing
	UID    int
	Getenv func(string) string
	// Command runs a tool of the system's and gives what it printed; nil runs it, without any MUSTER_ variable.
	Command func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Detach starts a program in a session of its own, with only this environment, and gives the one line it then says.
	Detach func(program string, args, env []string) (string, error)
}

// Manager keeps one agent on one machine.
type Manager struct {
	System
	Base        string // the agent's state directory
	Settings    string // the settings file, as Root has not been put before it
	ReloadUnits bool   // systemd may be reloaded where its unit has changed
}

// Outcome is what keeping the agent came to.
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

// SettingsPath is where the settings of a user's agent are: /etc/muster/agent.env for root, else below the user's XDG
// configuration folder, and empty where that is not known.
func (s System) SettingsPath() string {
	if s.UID == 0 {
		return "/etc/muster/agent.env"
	}
	if folder := s.configFolder(); folder != "" {
		return filepath.Join(folder, "muster", "agent.env")
	}
	return ""
}

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
	case s.UID == 0 && isDirectory(s.path("/run/systemd/system")):
		return Systemd
	case s.UID == 0 && isDirectory(s.path("/run/openrc")):
		return OpenRC
	case s.UID != 0 && s.runtimeFolder() != "" && s.configFolder() != "":
		return UserSystemd
	}
	return Supervised
}

// runtimeFolder is the user's, when a systemd instance of the user's listens in it.
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

// run calls a tool. The error holds what the tool said.
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
	command.Env = withoutMuster(os.Environ())
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return out, fmt.Errorf("not done within %s", commandTime)
	}
	return out, err
}

// withoutMuster leaves out what may hold secrets and settings of this program.
func withoutMuster(env []string) []string {
	out := make([]string, 0, len(env))
	for _, entry := range env {
		if !strings.HasPrefix(entry, "MUSTER_") {
			out = append(out, entry)
		}
	}
	return out
}

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

// CheckPath refuses a path that a unit, a crontab or a shell script would read otherwise than it is meant.
func CheckPath(path string) error {
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+@", r)
	}
	if !filepath.IsAbs(path) || strings.ContainsFunc(path, odd) {
		return fmt.Errorf("%q cannot stand in a unit or a crontab: give --state an absolute path of letters, digits and / . _ - + @", path)
	}
	return nil
}

func same(path string, content []byte) bool {
	old, err := os.ReadFile(path)
	return err == nil && bytes.Equal(old, content)
}
