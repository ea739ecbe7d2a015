package service_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/agent/internal/service"
)

// box is a machine in a folder: its tools are scripted, its files are real.
type box struct {
	service.Manager
	t       *testing.T
	env     map[string]string
	calls   []string
	crontab *string // nil: none
	linger  bool
	kill    bool // logind ends what a user leaves behind
	cutOff  bool // lingering ended while the agent's files were there
	// remembers is what systemd would start; empty: it has not read the unit
	remembers string
	fail      map[string]string // what a call that begins so says when it fails
	started   []string          // programs that were detached
}

func newBox(t *testing.T, uid int) *box {
	t.Helper()
	b := &box{t: t, env: map[string]string{"HOME": "/home/u", "USER": "u"}, fail: map[string]string{}}
	b.System = service.System{Root: t.TempDir(), UID: uid, Getenv: func(name string) string { return b.env[name] }, Command: b.command,
		Detach: b.detach}
	b.Base = filepath.Join(t.TempDir(), "base")
	b.Settings = b.SettingsPath()
	return b
}

// prepared is a box with a build in it, as before the last steps of joining.
func prepared(t *testing.T, uid int, folders ...string) *box {
	t.Helper()
	b := newBox(t, uid)
	for _, folder := range folders {
		b.mkdir(folder)
	}
	b.install()
	return b
}

func (b *box) install() {
	b.t.Helper()
	if err := b.MakeBase(); err != nil {
		b.t.Fatal(err)
	}
	path, _ := program(b.t, "build")
	if err := deploy(service.Layout{Base: b.Base}, path); err != nil {
		b.t.Fatal(err)
	}
	if err := b.SaveSettings(service.Settings{"MUSTER_GATEWAY": "https://gw"}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) mkdir(path string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Join(b.Root, path), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) write(path, content string) {
	b.t.Helper()
	b.mkdir(filepath.Dir(path))
	if err := os.WriteFile(filepath.Join(b.Root, path), []byte(content), 0o750); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) read(path string) string {
	raw, err := os.ReadFile(filepath.Join(b.Root, path))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func (b *box) detach(command *exec.Cmd) (string, error) {
	if slices.ContainsFunc(command.Env, func(entry string) bool { return strings.HasPrefix(entry, "MUSTER_") }) {
		b.t.Errorf("the supervisor inherits %v", command.Env)
	}
	b.started = append(b.started, strings.Join(command.Args, " "))
	return "supervisor started", nil
}

// command stands for the tools of the system.
func (b *box) command(_ context.Context, name string, args ...string) ([]byte, error) {
	call := strings.Join(append([]string{name}, args...), " ")
	b.calls = append(b.calls, call)
	for prefix, says := range b.fail {
		if strings.HasPrefix(call, prefix) {
			return []byte(says + "\n"), errors.New("exit status 1")
		}
	}
	switch {
	case call == "crontab -l" && b.crontab == nil:
		return []byte("no crontab for root\n"), errors.New("exit status 1")
	case strings.Contains(call, "--property=ExecStart"):
		return []byte(b.remembers + "\n"), nil
	case call == "crontab -l":
		return []byte(*b.crontab), nil
	case call == "crontab -r":
		b.crontab = nil
	case name == "crontab":
		raw, err := os.ReadFile(args[0])
		text := string(raw)
		b.crontab = &text
		return nil, err
	case strings.Contains(call, "KillUserProcesses"):
		return []byte(map[bool]string{true: "yes\n", false: "no\n"}[b.kill]), nil
	case strings.Contains(call, "show-user"):
		return []byte(map[bool]string{true: "yes\n", false: "no\n"}[b.linger]), nil
	case strings.Contains(call, "enable-linger"):
		b.linger = true
	case strings.Contains(call, "disable-linger"):
		b.linger = false
		_, err := os.Stat(b.Base)
		b.cutOff = err == nil
	}
	return nil, nil
}

// called gives the calls since the last time.
func (b *box) called() string {
	calls := strings.Join(b.calls, "\n")
	b.calls = nil
	return calls
}

// tree lists what is below a folder: path, mode and content.
func tree(t *testing.T, root string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %v", strings.TrimPrefix(path, root), info.Mode())
		if info.Mode().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, " %d %x", len(raw), sha256.Sum256(raw))
		}
		out.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
