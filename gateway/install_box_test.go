package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// shell runs the installer. A standalone one finds its own tools before those of the PATH.
type shell struct {
	name       string
	argv       []string
	standalone bool
}

var dash = shell{"sh", []string{"sh"}, false}

// shells are those on this machine, and says which are not.
func shells(t *testing.T) []shell {
	t.Helper()
	var found []shell
	for _, s := range []shell{dash, {"dash", []string{"dash"}, false}, {"bash", []string{"bash"}, false},
		{"busybox sh", []string{"busybox", "sh"}, true}} {
		if _, err := exec.LookPath(s.argv[0]); err != nil {
			t.Run(s.name, func(t *testing.T) {
				lab.Lacking(t, "not run: "+s.name+" is not installed here; make tools as root installs it")
			})
			continue
		}
		found = append(found, s)
	}
	return found
}

// box is a machine's share that the installer touches: a home, a state directory, and a PATH of chosen tools.
type box struct {
	t                         *testing.T
	home, state, records, bin string
	env                       []string
	user                      *syscall.Credential // nil: the test's own
}

// newBox has all tools of this machine, or, where some are named, the usual ones and those.
func newBox(t *testing.T, tools ...string) *box {
	t.Helper()
	b := &box{t: t, home: t.TempDir(), records: t.TempDir(), bin: t.TempDir()}
	b.state = filepath.Join(b.home, "state", "muster-agent")
	if len(tools) == 0 {
		b.bin += ":" + os.Getenv("PATH")
		return b
	}
	for _, name := range []string{"sh", "uname", "id", "mktemp", "mv", "rm", "df", "sed", "tr", "head", "chmod", "sleep", "sha256sum",
		"openssl", "env", "cat", "busybox"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(b.bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range tools {
		path, err := exec.LookPath(name)
		if err != nil {
			lab.Lacking(t, "not run: "+name+" is not installed here; make tools as root installs it")
		}
		b.tool(name, `printf '%s\n' "$@" >>"$RECORD/fetch-argv"; env >>"$RECORD/fetch-env"; exec `+path+` "$@"`)
	}
	return b
}

// tool puts a script of the test's own first in the PATH.
func (b *box) tool(name, script string) {
	b.t.Helper()
	dir, _, _ := strings.Cut(b.bin, ":")
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

// script runs the installer as `curl ... | sh -s -- ARGS` does.
func (b *box) script(s shell, text string, args ...string) (code int, output string) {
	b.t.Helper()
	return b.do(text, s.argv[0], append(append(s.argv[1:len(s.argv):len(s.argv)], "-s", "--"), args...)...)
}

func (b *box) do(stdin, program string, args ...string) (code int, output string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	path, err := exec.LookPath(program)
	if err != nil {
		b.t.Fatal(err)
	}
	command := exec.CommandContext(ctx, path, args...)
	command.Args[0] = program
	command.Dir = b.home
	command.WaitDelay = time.Second // what outlives it may hold its output
	command.SysProcAttr = &syscall.SysProcAttr{Credential: b.user}
	command.Stdin = strings.NewReader(stdin)
	command.Env = append([]string{"HOME=" + b.home, "PATH=" + b.bin, "RECORD=" + b.records, "GORACE=" + os.Getenv("GORACE")}, b.env...)
	var out bytes.Buffer
	command.Stdout = &out
	command.Stderr = &out
	if err := command.Run(); command.ProcessState == nil || ctx.Err() != nil {
		b.t.Fatalf("%s: %v\n%s", program, err, out.String())
	}
	return command.ProcessState.ExitCode(), out.String()
}

// record is what the stand-ins wrote down; nothing where they were not called.
func (b *box) record(name string) string {
	raw, err := os.ReadFile(filepath.Join(b.records, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	return string(raw)
}

// joined is how the agent was called. What it was called from must be gone, and the token nowhere but in its environment.
func (b *box) joined(token string) []string {
	b.t.Helper()
	argv := b.record("argv")
	if argv == "" {
		b.t.Fatal("the agent was not called")
	}
	if path := strings.TrimSpace(b.record("path")); !strings.HasPrefix(path, "/") {
		b.t.Errorf("ran as %s", path)
	} else if _, err := os.Stat(filepath.Dir(path)); err == nil {
		b.t.Errorf("%s is left", filepath.Dir(path))
	}
	if token != "" && strings.Contains(argv, token) {
		b.t.Errorf("the token is in the agent's arguments: %s", argv)
	}
	b.clean(token)
	return strings.Split(strings.TrimSuffix(argv, "\n"), "\n")
}

// token is the MUSTER_TOKEN that the agent was given.
func (b *box) token() string {
	for line := range strings.Lines(b.record("env")) {
		if value, ok := strings.CutPrefix(line, "MUSTER_TOKEN="); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// clean fails the test where the script left something in the home, above all the token.
func (b *box) clean(token string) {
	b.t.Helper()
	err := filepath.WalkDir(b.home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".muster-install") {
			b.t.Errorf("left: %s", path)
		}
		if !entry.Type().IsRegular() || token == "" {
			return nil
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(token)) {
			b.t.Errorf("the token is in %s", path)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
