// Package account makes accounts on this machine, and removes them again. It does so with the machine's own tools (useradd, usermod,
// userdel), as root alone.
//
// An account may be made for an allocation. Then only tasks of that allocation change it, and its end removes it.
//
// It never touches an account that it did not make. Two things say that it made one: an entry in a record in the agent's state
// directory, and a mark in the account's comment. Both must be there, and the UID must be the one of the record. The record is written
// before the machine is changed, so that a run which was cut off is completed by the next one.
//
// A home directory belongs to its user, who may have put anything there. So the agent works in it with the user's rights and not with
// those of root, and opens nothing there through a link.
package account

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/child"
)

// Accounts are the accounts of this machine. Its methods are safe for concurrent use. Its exported fields must not change after the
// first call.
type Accounts struct {
	State string // the agent's state directory: the record lies there
	Root  string // where the machine's files are; empty: /
	UID   int    // who the agent is; it must be 0

	// For tests. An ordinary user may not give files away, nor take another user's rights.
	exec   func(ctx context.Context, out io.Writer, path string, args ...string) error
	owner  func(fs.FileInfo) int
	give   func(file *os.File, uid, gid int) error
	become func(uid, gid int, work func() error) error
	step   func(string) // called before every change: a test can end the run there
	disk   disk.Steps
	grace  time.Duration // instead of termGrace

	mu sync.Mutex // one change at a time
}

// UIDs of the accounts that people use. Those below belong to the system.
const (
	leastUID = 1000
	mostUID  = 59999
)

// toolTime bounds one run of one of the machine's tools.
const toolTime = 2 * time.Minute

// path is where a file of the machine lies.
func (a *Accounts) path(name string) string { return filepath.Join("/", a.Root, name) }

// tool is the path of one of the machine's programs, empty if it is missing. The agent's PATH does not count: a unit may have any.
func (a *Accounts) tool(name string) string {
	for _, folder := range []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"} {
		path := a.path(filepath.Join(folder, name))
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// need checks that the agent may make accounts, and that the tools for it are there.
func (a *Accounts) need(tools ...string) error {
	if a.UID != 0 {
		return fmt.Errorf("the agent runs as an ordinary user (UID %d), and only root may change accounts: "+
			"remove it there, and join as root", a.UID)
	}
	for _, name := range tools {
		if a.tool(name) == "" {
			return fmt.Errorf("this machine has no %s, and a task installs nothing: install the package that has it "+
				"(%s), and run the task again", name, packageOf(name))
		}
	}
	return nil
}

// packageOf names the package that brings a tool.
func packageOf(tool string) string {
	if tool == "visudo" {
		return "sudo"
	}
	return "passwd on Debian, shadow-utils on Fedora, shadow on Alpine"
}

// run runs one of the machine's programs. What it writes goes to out. An error repeats the end of it.
func (a *Accounts) run(ctx context.Context, out io.Writer, name string, args ...string) error {
	path := a.tool(name)
	if path == "" {
		return a.need(name)
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%s was not run: %w", name, err)
	}
	a.at(name)
	said := child.Tail{Most: 1 << 10}
	err := a.execute(ctx, io.MultiWriter(&said, out), path, args...)
	if err == nil {
		return nil
	}
	if text := lastLine(said.Bytes()); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// execute lets a tool come to its end where the task is canceled meanwhile: one that is killed in the middle leaves its locks behind.
func (a *Accounts) execute(ctx context.Context, out io.Writer, path string, args ...string) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), toolTime)
	defer cancel()
	if a.exec != nil {
		return a.exec(limited, out, path, args...)
	}
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	return child.Run(limited, child.Command{Program: path, Args: args, Env: env, Stdout: out, Stderr: out})
}

// known asks the machine whether it knows a user, also if directories such as LDAP do. Without getent only /etc/passwd counts.
func (a *Accounts) known(ctx context.Context, key string) (bool, error) {
	if a.tool("getent") == "" {
		return false, nil
	}
	err := a.execute(ctx, io.Discard, a.tool("getent"), "passwd", key)
	var exit *child.ExitError
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &exit) && exit.Code == 2: // as getent(1) says: not found
		return false, nil
	}
	return false, fmt.Errorf("ask this machine for the user %s: getent: %w", key, err)
}

func (a *Accounts) at(step string) {
	if a.step != nil {
		a.step(step)
	}
}

func lastLine(said []byte) string {
	text := strings.TrimSpace(string(said))
	return strings.ToValidUTF8(text[strings.LastIndexByte(text, '\n')+1:], "?")
}
