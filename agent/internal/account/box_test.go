package account

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"muster/agent/internal/child"
	"muster/agent/wire"
)

// box is a machine that is played: its files lie in a folder, and its tools are functions. As root the files really belong to their
// users. Without root their owners are remembered here.
type box struct {
	t        *testing.T
	accounts *Accounts
	root     string
	owners   map[string]int    // by inode and kind, without root
	ldap     map[string]bool   // users of a directory
	calls    []string          // of tools that change something
	fails    map[string]string // what a tool says when it fails
	cut      string            // a tool that is cut off in the middle
	out      bytes.Buffer
}

const sudoersText = "Defaults env_reset\n@includedir /etc/sudoers.d\n"

func newBox(t *testing.T) *box {
	b := &box{t: t, root: t.TempDir(), owners: map[string]int{}, ldap: map[string]bool{}, fails: map[string]string{}}
	for path, text := range map[string]string{
		"etc/passwd":          "root:x:0:0:root:/root:/bin/bash\nbackup:x:34:34:backup:/var:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/bash\n",
		"etc/group":           "root:x:0:\ndocker:x:998:alice\nvideo:x:44:\nrender:x:105:\nalice:x:1000:\n",
		"etc/shadow":          "root:*:19000:0:99999:7:::\nalice:$6$x:19000:0:99999:7:::\n",
		"etc/sudoers":         sudoersText,
		"proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
	} {
		b.write(path, text, 0o644)
	}
	for _, tool := range []string{"useradd", "usermod", "userdel", "visudo", "getent", "crontab", "loginctl"} {
		b.write("usr/sbin/"+tool, "", 0o755)
	}
	b.write("bin/bash", "", 0o755)
	b.write("bin/zsh", "", 0o755)
	for _, folder := range []string{"home", "etc/sudoers.d", "state", "proc/self/ns"} {
		b.check(os.MkdirAll(b.path(folder), 0o755))
		b.check(os.Chmod(b.path(folder), 0o755))
	}
	for _, kind := range []string{"pid", "user"} {
		b.check(os.Symlink(kind+":[1]", b.path("proc/self/ns/"+kind)))
	}
	b.accounts = b.agent()
	return b
}

// agent is the agent after a start.
func (b *box) agent() *Accounts {
	a := &Accounts{State: b.path("state"), Root: b.root, exec: b.exec}
	if os.Geteuid() != 0 {
		a.owner = func(info fs.FileInfo) int { return b.owners[inode(info)] }
		a.give = func(file *os.File, uid, _ int) error {
			info, err := file.Stat()
			b.owners[inode(info)] = uid
			return err
		}
		a.become = func(_, _ int, work func() error) error { return work() }
	}
	return a
}

// inode names a file. The number of one that is gone may pass on to one of another kind.
func inode(info fs.FileInfo) string {
	return fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino, info.Mode().Type())
}

func (b *box) path(name string) string { return filepath.Join(b.root, name) }

func (b *box) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) write(name, text string, mode fs.FileMode) {
	b.t.Helper()
	b.check(os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	b.check(os.WriteFile(b.path(name), []byte(text), mode))
	b.check(os.Chmod(b.path(name), mode))
}

func (b *box) read(name string) string {
	text, err := os.ReadFile(b.path(name))
	if err != nil {
		return ""
	}
	return string(text)
}

func (b *box) has(name string) bool {
	_, err := os.Lstat(b.path(name))
	return err == nil
}

// give makes a file a user's, as root alone can.
func (b *box) give(name string, uid int) {
	b.t.Helper()
	if os.Geteuid() == 0 {
		b.check(os.Lchown(b.path(name), uid, uid))
		return
	}
	info, err := os.Lstat(b.path(name))
	b.check(err)
	b.owners[inode(info)] = uid
}

// edit changes the lines of a table that begin with this name.
func (b *box) edit(table, name string, change func(line string) string) {
	var out strings.Builder
	for line := range strings.Lines(b.read(table)) {
		if strings.HasPrefix(line, name+":") {
			line = change(strings.TrimSuffix(line, "\n"))
			if line != "" {
				line += "\n"
			}
		}
		out.WriteString(line)
	}
	b.write(table, out.String(), 0o644)
}

// field replaces a field of a line.
func field(at int, value string) func(string) string {
	return func(line string) string {
		fields := strings.Split(line, ":")
		fields[at] = value
		return strings.Join(fields, ":")
	}
}

func drop(string) string { return "" }

// crash ends a run in the middle.
type crash struct{}

func (b *box) exec(_ context.Context, out io.Writer, path string, args ...string) error {
	tool := filepath.Base(path)
	if text, bad := b.fails[tool]; bad {
		fmt.Fprintln(out, text)
		return &child.ExitError{Program: tool, Code: 9}
	}
	if tool == "getent" {
		if b.ldap[args[1]] {
			return nil
		}
		return &child.ExitError{Program: tool, Code: 2}
	}
	b.calls = append(b.calls, tool+" "+strings.Join(args, " "))
	switch tool {
	case "useradd":
		b.useradd(args)
	case "usermod":
		b.usermod(args)
	case "userdel":
		name := args[0]
		b.edit("etc/passwd", name, drop)
		b.edit("etc/group", name, drop)
		b.edit("etc/shadow", name, drop)
		b.setGroups(name, nil)
	case "visudo":
		if text, err := os.ReadFile(args[2]); err != nil || !strings.Contains(string(text), "NOPASSWD: ALL\n") {
			return &child.ExitError{Program: tool, Code: 1}
		}
	}
	return nil
}

// option is the value behind a flag.
func option(args []string, flag string) string {
	at := slices.Index(args, flag)
	if at < 0 {
		return ""
	}
	return args[at+1]
}

func (b *box) useradd(args []string) {
	name := args[len(args)-1]
	uid, err := strconv.Atoi(option(args, "--uid"))
	b.check(err)
	folder := strings.TrimPrefix(option(args, "--home-dir"), "/")
	b.write("etc/passwd", b.read("etc/passwd")+fmt.Sprintf("%s:x:%d:%d:%s:/%s:%s\n", name, uid, uid, option(args, "--comment"), folder,
		option(args, "--shell")), 0o644)
	b.crashAt("useradd passwd")
	b.write("etc/shadow", b.read("etc/shadow")+name+":"+option(args, "--password")+":19000:0:99999:7:::\n", 0o644)
	b.write("etc/group", b.read("etc/group")+fmt.Sprintf("%s:x:%d:\n", name, uid), 0o644)
	b.crashAt("useradd tables")
	if err := os.Mkdir(b.path(folder), 0o755); err != nil {
		return
	}
	b.crashAt("useradd home")
	b.give(folder, uid)
}

func (b *box) crashAt(where string) {
	if b.cut == where {
		b.cut = ""
		panic(crash{})
	}
}

func (b *box) usermod(args []string) {
	name := args[len(args)-1]
	switch args[0] {
	case "--shell":
		b.edit("etc/passwd", name, field(6, args[1]))
	case "--groups":
		b.setGroups(name, strings.Split(args[1], ","))
	case "--lock":
		b.edit("etc/shadow", name, func(line string) string { return strings.Replace(line, ":", ":!", 1) })
	}
}

func (b *box) setGroups(name string, groups []string) {
	var out strings.Builder
	for _, g := range parseGroups([]byte(b.read("etc/group"))) {
		g.members = slices.DeleteFunc(g.members, func(member string) bool { return member == name })
		if slices.Contains(groups, g.name) {
			g.members = append(g.members, name)
		}
		fmt.Fprintf(&out, "%s:x:%d:%s\n", g.name, g.gid, strings.Join(g.members, ","))
	}
	b.write("etc/group", out.String(), 0o644)
}

func (b *box) provision(p wire.ProvisionUser) (Provisioned, error) {
	b.t.Helper()
	b.check(p.Check())
	b.calls = nil
	return b.accounts.Provision(b.t.Context(), &p, &b.out)
}

// made expects a run that goes well.
func (b *box) made(p wire.ProvisionUser) Provisioned {
	b.t.Helper()
	done, err := b.provision(p)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.out.String())
	}
	return done
}

func (b *box) deprovision(p wire.DeprovisionUser) (Deprovisioned, error) {
	b.t.Helper()
	b.check(p.Check())
	b.calls = nil
	return b.accounts.Deprovision(b.t.Context(), &p, &b.out)
}

// removed expects a run that goes well.
func (b *box) removed(p wire.DeprovisionUser) Deprovisioned {
	b.t.Helper()
	done, err := b.deprovision(p)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.out.String())
	}
	return done
}

// groups are the groups of a user.
func (b *box) groups(name string) string {
	return strings.Join(tables{groups: parseGroups([]byte(b.read("etc/group")))}.joined(name), " ")
}

// refused expects an error with this text, and that nothing on the machine has changed.
func (b *box) refused(err error, want string, before map[string]string) {
	b.t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		b.t.Errorf("%v: want %q", err, want)
	}
	if len(b.calls) > 0 {
		b.t.Errorf("it ran %q", b.calls)
	}
	after := b.tree()
	for name, was := range before {
		if after[name] != was {
			b.t.Errorf("%s was %q and is %q", name, was, after[name])
		}
	}
	for name, is := range after {
		if _, was := before[name]; !was {
			b.t.Errorf("%s is new: %q", name, is)
		}
	}
}

// tree is everything in the box.
func (b *box) tree() map[string]string {
	all := map[string]string{}
	b.check(filepath.WalkDir(b.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%v %d ", info.Mode(), b.accounts.ownerOf(info))
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			b.check(err)
			text += string(content)
		}
		all[strings.TrimPrefix(path, b.root)] = text
		return nil
	}))
	return all
}
