package account

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/task"
	"muster/agent/wire"
)

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

func TestDeprovision(t *testing.T) {
	b := newBox(t)
	before := b.tree()
	b.made(ada(nil))
	done := b.removed(wire.DeprovisionUser{Username: "ada", RemoveHome: true})
	if !done.Changed || !slices.Equal(done.Removed, []string{"ada"}) || len(done.Kept) != 0 {
		t.Errorf("%+v", done)
	}
	want := []string{"usermod --lock --expiredate 1 ada", "crontab -r -u ada", "loginctl disable-linger ada", "userdel ada"}
	if !slices.Equal(b.calls, want) {
		t.Errorf("%q", b.calls)
	}
	b.check(os.Remove(b.path("state/accounts.json")))
	for name, text := range b.tree() {
		if before[name] != text {
			t.Errorf("%s: %s, not %s", name, text, before[name])
		}
	}
	if b.has("home/ada") || b.has("etc/sudoers.d/muster-ada") {
		t.Error("something is left")
	}
	if done := b.removed(wire.DeprovisionUser{Username: "ada", RemoveHome: true}); done.Changed {
		t.Errorf("%+v", done)
	}
}

func TestKeepHome(t *testing.T) {
	b := newBox(t)
	b.made(ada(nil))
	done := b.removed(wire.DeprovisionUser{Username: "ada"})
	if !slices.Equal(done.Kept, []string{"/home/ada"}) || !b.has("home/ada/.ssh") || strings.Contains(b.read("etc/passwd"), "ada") {
		t.Errorf("%+v", done)
	}
	if done := b.removed(wire.DeprovisionUser{Username: "ada"}); done.Changed {
		t.Errorf("%+v", done)
	}
	if done := b.removed(wire.DeprovisionUser{All: true}); done.Changed || len(b.calls) > 0 {
		t.Errorf("%+v", done)
	}
	if done := b.removed(wire.DeprovisionUser{All: true, RemoveHome: true}); !done.Changed || b.has("home/ada") {
		t.Errorf("%+v", done)
	}
	b.made(ada(nil))
	b.check(os.RemoveAll(b.path("home/ada")))
	if done := b.removed(wire.DeprovisionUser{Username: "ada"}); len(done.Kept) != 0 {
		t.Errorf("%+v", done)
	}
	if r, _ := b.accounts.load(); len(r.Accounts) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestAll: those of muster go, and nobody else. One that cannot be removed does not keep the others.
func TestAll(t *testing.T) {
	b := newBox(t)
	if done := b.removed(wire.DeprovisionUser{All: true}); done.Changed {
		t.Errorf("%+v", done)
	}
	for _, name := range []string{"ada", "bob", "eve"} {
		b.made(ada(func(p *wire.ProvisionUser) { p.Username = name }))
	}
	b.edit("etc/passwd", "bob", field(4, "Robert"))
	done, err := b.deprovision(wire.DeprovisionUser{All: true})
	if err == nil || !strings.HasPrefix(err.Error(), "bob: the account bob is not the one that muster made") {
		t.Errorf("%v", err)
	}
	if !slices.Equal(done.Removed, []string{"ada", "eve"}) || b.has("etc/sudoers.d/muster-bob") {
		t.Errorf("%+v", done)
	}
	if text := b.read("etc/passwd"); !strings.Contains(text, "bob:") || !strings.Contains(text, "alice:") || strings.Contains(text, "eve:") {
		t.Errorf("%s", text)
	}
}

// TestDeprovisionRefused: an account that muster did not make is never touched.
func TestDeprovisionRefused(t *testing.T) {
	for name, one := range map[string]struct {
		prepare func(*box)
		params  wire.DeprovisionUser
		want    string
	}{
		"a person's":      {nil, wire.DeprovisionUser{Username: "alice", RemoveHome: true}, "that muster did not make"},
		"root's":          {nil, wire.DeprovisionUser{Username: "root"}, "that muster did not make"},
		"of a directory":  {func(b *box) { b.ldap["ada"] = true }, wire.DeprovisionUser{Username: "ada"}, "a directory such as LDAP"},
		"not root":        {func(b *box) { b.accounts.UID = 1000 }, wire.DeprovisionUser{Username: "ada"}, "only root may change accounts"},
		"no userdel":      {func(b *box) { b.check(os.Remove(b.path("usr/sbin/userdel"))) }, wire.DeprovisionUser{Username: "ada"}, "no userdel"},
		"no passwd":       {func(b *box) { b.check(os.Remove(b.path("etc/passwd"))) }, wire.DeprovisionUser{Username: "ada"}, "no such file"},
		"damaged record":  {func(b *box) { b.write("state/accounts.json", "[]", 0o600) }, wire.DeprovisionUser{All: true}, "is damaged"},
		"recreated since": {func(b *box) { b.recreated() }, wire.DeprovisionUser{Username: "ada", RemoveHome: true}, "that muster did not make"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			if one.prepare != nil {
				one.prepare(b)
			}
			before := b.tree()
			_, err := b.deprovision(one.params)
			b.refused(err, one.want, before)
		})
	}
}

// recreated leaves a kept home directory, and an account of the same name that somebody else has made since.
func (b *box) recreated() {
	b.made(ada(nil))
	b.removed(wire.DeprovisionUser{Username: "ada"})
	b.write("etc/passwd", b.read("etc/passwd")+"ada:x:1001:1001:Ada:/home/ada:/bin/sh\n", 0o644)
}

// TestHomeStays: a home directory that is not only the user's stays, and the error says why. The account is gone all the same.
func TestHomeStays(t *testing.T) {
	for name, one := range map[string]struct {
		change func(*box)
		want   string
	}{
		"a mount": {func(b *box) { b.mount("/home/ada") }, "is a mount"},
		"a mount in it": {func(b *box) { b.mount("/home/ada/my data") },
			"/home/ada/my data is a mount, and what is in it is not removed"},
		"of another": {func(b *box) { b.give("home/ada", 4711) }, "belongs to the UID 4711"},
		"a link": {func(b *box) {
			b.check(os.RemoveAll(b.path("home/ada")))
			b.check(os.Symlink("../etc", b.path("home/ada")))
		}, "not the folder that useradd made"},
		"no list of mounts": {func(b *box) { b.check(os.Remove(b.path("proc/self/mountinfo"))) }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.made(ada(nil))
			b.write("home/ada/data", "", 0o644)
			one.change(b)
			_, err := b.deprovision(wire.DeprovisionUser{Username: "ada", RemoveHome: true})
			if err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("%v: want %q", err, one.want)
			}
			if strings.Contains(b.read("etc/passwd"), "ada:") || !b.has("home/ada") || !b.has("etc/passwd") {
				t.Error("the account is there, or its home directory is not")
			}
		})
	}
	b := newBox(t)
	b.made(ada(nil))
	b.mount("/home/ada2")
	b.removed(wire.DeprovisionUser{Username: "ada", RemoveHome: true})
}

func (b *box) mount(point string) {
	real, err := filepath.EvalSymlinks(b.root)
	b.check(err)
	point = strings.ReplaceAll(filepath.Join(real, point), " ", `\040`)
	b.write("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n99 22 0:5 / "+point+" rw shared:1 - nfs s:/x rw\n", 0o644)
}

// TestLinksInTheHome: what links lead to stays.
func TestLinksInTheHome(t *testing.T) {
	b := newBox(t)
	b.made(ada(nil))
	b.write("srv/data", "precious", 0o644)
	b.check(os.Symlink(b.path("srv"), b.path("home/ada/folder")))
	b.check(os.Symlink(b.path("srv/data"), b.path("home/ada/file")))
	b.removed(wire.DeprovisionUser{Username: "ada", RemoveHome: true})
	if b.has("home/ada") || b.read("srv/data") != "precious" {
		t.Error("the home directory is there, or what its links led to is not")
	}
}

// TestRemovalCutOff: wherever a removal ends, the next one completes it. So does a task that wants the account again.
func TestRemovalCutOff(t *testing.T) {
	for _, home := range []bool{false, true} {
		params := wire.DeprovisionUser{Username: "ada", RemoveHome: home}
		steps := 0
		for n := 1; ; n++ {
			b := newBox(t)
			b.made(ada(nil))
			if !b.cutAt(n, func() { _, _ = b.deprovision(params) }) {
				break
			}
			steps++
			before := b.copyOf()
			b.removed(params)
			if strings.Contains(b.read("etc/passwd"), "ada:") || b.has("etc/sudoers.d/muster-ada") || b.has("home/ada") == home {
				t.Errorf("cut off at step %d: %s", n, b.read("etc/passwd"))
			}
			before.made(ada(nil))
			if done := before.made(ada(nil)); done.Changed || !strings.Contains(before.read("etc/shadow"), "ada:*:") {
				t.Errorf("cut off at step %d, and then wanted again: %s", n, before.read("etc/shadow"))
			}
		}
		if steps < 6 {
			t.Errorf("only %d steps", steps)
		}
	}
}

// copyOf is a second machine in the same state.
func (b *box) copyOf() *box {
	next := newBox(b.t)
	b.check(os.RemoveAll(next.root))
	if out, err := exec.Command("cp", "-a", b.root, next.root).CombinedOutput(); err != nil {
		b.t.Fatalf("%v %s", err, out)
	}
	for name := range b.tree() {
		was, err := os.Lstat(b.path(name))
		b.check(err)
		is, err := os.Lstat(next.path(name))
		b.check(err)
		if uid, given := b.owners[inode(was)]; given {
			next.owners[inode(is)] = uid
		}
	}
	return next
}

// TestCanceled: a task that is canceled stops between two steps, and the next one goes on.
func TestCanceled(t *testing.T) {
	b := newBox(t)
	b.made(ada(nil))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("somebody canceled it")
	b.accounts.step = func(step string) {
		if step == "crontab" {
			cancel(why)
		}
	}
	_, err := b.accounts.Deprovision(ctx, &wire.DeprovisionUser{Username: "ada"}, &b.out)
	if !errors.Is(err, why) || !strings.Contains(b.read("etc/passwd"), "ada:") {
		t.Errorf("%v", err)
	}
	b.accounts = b.agent()
	b.removed(wire.DeprovisionUser{Username: "ada"})
}

// TestWhoseProcess: a process in a container that root has started has nothing to do with the user of that number.
func TestWhoseProcess(t *testing.T) {
	b := newBox(t)
	for pid, one := range map[string]struct{ status, pid, user string }{
		"11": {"Name:\tsh\nState:\tS (sleeping)\nUid:\t1001\t1001\t1001\t1001\n", "pid:[1]", "user:[1]"},
		"12": {"State:\tR (running)\nUid:\t0\t0\t1001\t0\n", "pid:[1]", "user:[1]"},
		"13": {"State:\tS (sleeping)\nUid:\t10010\t10010\t10010\t10010\n", "pid:[1]", "user:[1]"},
		"14": {"State:\tZ (zombie)\nUid:\t1001\t1001\t1001\t1001\n", "pid:[1]", "user:[1]"},
		"15": {"State:\tS (sleeping)\nUid:\t1001\t1001\t1001\t1001\n", "pid:[2]", "user:[1]"}, // docker run --user 1001
		"16": {"State:\tS (sleeping)\nUid:\t1001\t1001\t1001\t1001\n", "pid:[3]", "user:[3]"}, // podman of the user
		"1":  {"State:\tS (sleeping)\nUid:\t1001\t1001\t1001\t1001\n", "pid:[1]", "user:[1]"},
		"x9": {"State:\tS (sleeping)\nUid:\t1001\t1001\t1001\t1001\n", "pid:[1]", "user:[1]"},
	} {
		b.write("proc/"+pid+"/status", one.status, 0o644)
		b.check(os.Mkdir(b.path("proc/"+pid+"/ns"), 0o755))
		b.check(os.Symlink(one.pid, b.path("proc/"+pid+"/ns/pid")))
		b.check(os.Symlink(one.user, b.path("proc/"+pid+"/ns/user")))
	}
	if got := b.accounts.signal(1001, 0); !slices.Equal(got, []int{11, 12, 16}) {
		t.Errorf("%v", got)
	}
}

// TestEndProcesses: those who obey and those who do not end, and nobody else does.
func TestEndProcesses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of another user")
	}
	const uid = 54871
	b := newBox(t)
	b.accounts.grace = 100 * time.Millisecond
	b.check(os.RemoveAll(b.path("proc")))
	b.check(os.Symlink("/proc", b.path("proc")))
	if there := b.accounts.signal(uid, 0); len(there) > 0 {
		t.Skipf("this machine has processes of the UID %d: %v", uid, there)
	}
	start := func(uid uint32, script string) *exec.Cmd {
		c := exec.Command("sh", "-c", script)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		c.Dir = "/"
		out, err := c.StdoutPipe()
		b.check(err)
		b.check(c.Start())
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
			t.Fatalf("%q %v", line, err)
		}
		return c
	}
	obeys := start(uid, "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done")
	ignores := start(uid, "trap '' TERM; echo up; while :; do sleep 0.01; done")
	other := start(uid+1, "echo up; exec sleep 1000")
	go func() { _ = obeys.Wait() }()
	go func() { _ = ignores.Wait() }()
	ended, err := b.accounts.endProcesses(t.Context(), uid)
	if err != nil || ended < 2 || len(b.accounts.signal(uid, 0)) != 0 {
		t.Errorf("%d %v", ended, err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another user's process: %v", err)
	}
	_ = other.Process.Kill()
	_ = other.Wait()
}

func TestOutcomes(t *testing.T) {
	b := newBox(t)
	job := task.Job{Output: &b.out}
	p := ada(nil)
	o := b.accounts.DoProvision(t.Context(), job, &p)
	if o.Error != "" || o.ExitCode != 0 || string(o.Values["changed"]) != "true" || string(o.Values["uid"]) != "1001" {
		t.Errorf("%+v", o)
	}
	p.Groups = []string{"gpu"}
	o = b.accounts.DoProvision(t.Context(), job, &p)
	if o.ExitCode != 1 || !strings.Contains(o.Error, "groupadd gpu") || string(o.Values["changed"]) != "false" || o.Values["uid"] != nil {
		t.Errorf("%+v", o)
	}
	o = b.accounts.DoDeprovision(t.Context(), job, &wire.DeprovisionUser{Username: "ada"})
	want := `{"changed":true,"kept":["/home/ada"],"removed":["ada"]}`
	if raw, err := json.Marshal(o.Values); err != nil || string(raw) != want {
		t.Errorf("%s, not %s", raw, want)
	}
	o = b.accounts.DoDeprovision(t.Context(), job, &wire.DeprovisionUser{Username: "alice"})
	if o.ExitCode != 1 || string(o.Values["removed"]) != "[]" {
		t.Errorf("%+v", o)
	}
}

func FuzzTables(f *testing.F) {
	f.Add([]byte("root:x:0:0:root:/root:/bin/bash\nbad\n+::::::\n"), "root")
	f.Add([]byte("docker:x:998:a,b\n:x::\n"), "a")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		all := tables{parsePasswd(text), parseGroups(text)}
		if e, found := all.user(name); found && e.name != name {
			t.Errorf("%+v", e)
		}
		for _, group := range all.joined(name) {
			if all.missing([]string{group}) != "" {
				t.Errorf("%q is joined and missing", group)
			}
		}
		if runsAs(string(text), 1001) && !bytes.Contains(text, []byte("1001")) {
			t.Error("a process of 1001 without that number")
		}
		mountPoints(text)
		includesFolder(text)
	})
}

func FuzzMergeKeys(f *testing.F) {
	f.Add([]byte("# mine\n"+keyTwo+"\n"), true)
	f.Add([]byte("no end"), false)
	f.Fuzz(func(t *testing.T, old []byte, second bool) {
		keys := []string{keyOne}
		if second {
			keys = []string{keyTwo, keyOne}
		}
		ours := []string{keyBlob(keyOne), keyBlob(keyTwo)}
		merged := mergeKeys(old, ours, keys)
		if again := mergeKeys(merged, ours, keys); !bytes.Equal(merged, again) {
			t.Errorf("%q, and then %q", merged, again)
		}
		if bytes.Count(merged, []byte(keyBlob(keyOne))) != 1 || bytes.Contains(merged, []byte(keyBlob(keyTwo))) != second {
			t.Errorf("%q", merged)
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"accounts":[{"name":"ada","uid":1001,"home":"/home/ada","mark":"m","phase":"present"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRecord(text)
		if err != nil {
			return
		}
		for _, one := range r.Accounts {
			if one.UID < leastUID || filepath.Dir(one.Home) != "/home" {
				t.Errorf("%+v", one)
			}
		}
	})
}
