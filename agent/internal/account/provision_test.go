package account

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

// Public keys of the tests.
const (
	keyOne = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB1aUwLCkR8GdA3eNVBOGa1Fhm7vCmmpfLrh1GB2Q3Xo ada@laptop"
	keyTwo = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGTVGBm5bDKXBTbFuN4C6ABcq3V9mIVhCzPdFT3L6k2W ada@desk"
)

func ada(change func(*wire.ProvisionUser)) wire.ProvisionUser {
	p := wire.ProvisionUser{Username: "ada", Keys: []string{keyOne}, Groups: []string{"docker"}, Sudo: true}
	if change != nil {
		change(&p)
	}
	return p
}

func TestProvision(t *testing.T) {
	b := newBox(t)
	done := b.made(ada(nil))
	if !done.Changed || done.UID != 1001 || done.Home != "/home/ada" {
		t.Errorf("%+v", done)
	}
	if at := b.read("etc/passwd"); !strings.Contains(at, "ada:x:1001:1001:made by muster ") ||
		!strings.Contains(at, ":/home/ada:/bin/bash\n") {
		t.Errorf("%s", at)
	}
	if !strings.Contains(b.read("etc/shadow"), "ada:*:") {
		t.Errorf("%s: sshd would take the account for a locked one", b.read("etc/shadow"))
	}
	if b.groups("ada") != "docker" || b.groups("alice") != "docker" {
		t.Errorf("%s", b.read("etc/group"))
	}
	if text := b.read("home/ada/.ssh/authorized_keys"); text != keysHead+keyOne+"\n" {
		t.Errorf("%q", text)
	}
	for name, want := range map[string]string{
		"home/ada/.ssh": "drwx------ 1001", "home/ada/.ssh/authorized_keys": "-rw------- 1001", "etc/sudoers.d/muster-ada": "-r--r----- 0",
		"state/accounts.json": "-rw------- 0",
	} {
		if os.Geteuid() != 0 {
			want, _, _ = strings.Cut(want, " ") // nothing gives away what is made with the rights of the user
		}
		if got := b.tree()["/"+name]; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
	if text := b.read("etc/sudoers.d/muster-ada"); !strings.HasSuffix(text, "\nada ALL=(ALL:ALL) NOPASSWD: ALL\n") {
		t.Errorf("%q", text)
	}
	if names, _ := os.ReadDir(b.path("etc/sudoers.d")); len(names) != 1 {
		t.Errorf("%v", names)
	}
}

// TestTwice: the second run changes nothing, and says so.
func TestTwice(t *testing.T) {
	b := newBox(t)
	b.made(ada(nil))
	before := b.tree()
	b.accounts = b.agent()
	b.out.Reset()
	done := b.made(ada(nil))
	if done.Changed || done.UID != 1001 || done.Home != "/home/ada" || b.out.String() != "ada is as asked already\n" {
		t.Errorf("%+v %s", done, b.out.String())
	}
	b.refused(fmt.Errorf("none"), "none", before)
}

// TestReadDuringAChange: a change may take long, and nobody who asks which accounts there are waits for its end.
func TestReadDuringAChange(t *testing.T) {
	b := newBox(t)
	looked := 0
	b.accounts.step = func(string) {
		read := make(chan struct{})
		go func() {
			defer close(read)
			b.accounts.Names()
			b.accounts.Bound()
		}()
		select {
		case <-read:
			looked++
		case <-time.After(10 * time.Second):
			t.Fatal("it waits for the change")
		}
	}
	b.made(ada(nil))
	if looked == 0 {
		t.Error("nobody has looked")
	}
}

// TestChanges: a later task brings the account to what it says, and leaves alone what others have done.
func TestChanges(t *testing.T) {
	b := newBox(t)
	b.made(ada(nil))
	b.setGroups("ada", []string{"docker", "render"}) // somebody else
	own := "# mine\nssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAAQC7 own@host"
	b.write("home/ada/.ssh/authorized_keys", own+"\ncommand=\"id\" "+keyOne+" copied\n"+b.read("home/ada/.ssh/authorized_keys"), 0o644)
	done := b.made(wire.ProvisionUser{Username: "ada", Keys: []string{keyTwo, keyTwo}, Groups: []string{"video", "video"}, Shell: "/bin/zsh"})
	if !done.Changed {
		t.Errorf("%+v", done)
	}
	if b.groups("ada") != "video render" {
		t.Errorf("its groups are %q", b.groups("ada"))
	}
	if text := b.read("home/ada/.ssh/authorized_keys"); text != own+"\n"+keysHead+keyTwo+"\n" {
		t.Errorf("%q", text)
	}
	if b.has("etc/sudoers.d/muster-ada") || !strings.Contains(b.read("etc/passwd"), ":/home/ada:/bin/zsh\n") {
		t.Error("sudo or shell")
	}
	if done := b.made(wire.ProvisionUser{Username: "ada", Keys: []string{keyTwo}, Groups: []string{"video"}}); done.Changed {
		t.Errorf("a shell that is not asked for stays: %q", b.calls)
	}
	b.made(wire.ProvisionUser{Username: "ada"})
	if b.groups("ada") != "render" || b.read("home/ada/.ssh/authorized_keys") != own+"\n" {
		t.Errorf("%s %s", b.groups("ada"), b.read("home/ada/.ssh/authorized_keys"))
	}
	if !b.made(ada(nil)).Changed || b.groups("ada") != "docker render" {
		t.Errorf("%s", b.groups("ada"))
	}
}

// TestGroupOfOthers: a group that somebody else has put the account into is never left, also if a task has named it since.
func TestGroupOfOthers(t *testing.T) {
	b := newBox(t)
	b.made(wire.ProvisionUser{Username: "ada"})
	b.setGroups("ada", []string{"render"})
	b.made(wire.ProvisionUser{Username: "ada", Groups: []string{"render", "video"}})
	b.made(wire.ProvisionUser{Username: "ada"})
	if b.groups("ada") != "render" {
		t.Errorf("its groups are %q", b.groups("ada"))
	}
}

// TestRefused: what cannot be done is refused before anything is changed.
func TestRefused(t *testing.T) {
	for name, one := range map[string]struct {
		prepare func(*box)
		params  wire.ProvisionUser
		want    string
	}{
		"not root": {func(b *box) { b.accounts.UID = 1000 }, ada(nil), "only root may change accounts"},
		"no useradd": {func(b *box) { b.check(os.Remove(b.path("usr/sbin/useradd"))) }, ada(nil),
			"no useradd, and a task installs nothing: install the package that has it (passwd on Debian"},
		"no sudo": {func(b *box) { b.check(os.Remove(b.path("usr/sbin/visudo"))) }, ada(nil), "install the package that has it (sudo)"},
		"sudo reads no folder": {func(b *box) { b.write("etc/sudoers", "# @includedir /etc/sudoers.d\n", 0o644) }, ada(nil),
			"add the line @includedir /etc/sudoers.d"},
		"no folder of sudo": {func(b *box) { b.check(os.Remove(b.path("etc/sudoers.d"))) }, ada(nil), "no such file"},
		"no sudoers":        {func(b *box) { b.check(os.Remove(b.path("etc/sudoers"))) }, ada(nil), "no such file"},
		"no group": {nil, ada(func(p *wire.ProvisionUser) { p.Groups = []string{"docker", "gpu"} }),
			"no group gpu: make it (groupadd gpu)"},
		"no shell":        {nil, ada(func(p *wire.ProvisionUser) { p.Shell = "/bin/fish" }), "no program /bin/fish"},
		"a person's name": {nil, ada(func(p *wire.ProvisionUser) { p.Username = "alice" }), "an account alice that muster did not make"},
		"a system's name": {nil, ada(func(p *wire.ProvisionUser) { p.Username = "backup" }), "did not make"},
		"root":            {nil, ada(func(p *wire.ProvisionUser) { p.Username = "root" }), "did not make"},
		"of a directory":  {func(b *box) { b.ldap["ada"] = true }, ada(nil), "from a directory such as LDAP"},
		"getent fails":    {func(b *box) { b.fails["getent"] = "timed out" }, ada(nil), "ask this machine for the user ada"},
		"a home is there": {func(b *box) { b.write("home/ada/x", "", 0o644) }, ada(nil), "/home/ada is there already"},
		"a link is there": {func(b *box) { b.check(os.Symlink("/etc", b.path("home/ada"))) }, ada(nil), "/home/ada is there already"},
		"a mark alone": {func(b *box) {
			b.write("etc/passwd", b.read("etc/passwd")+"ada:x:1001:1001:made by muster abc:/home/ada:/bin/sh\n", 0o644)
		}, ada(nil), "did not make"},
		"a damaged record": {func(b *box) { b.write("state/accounts.json", "{", 0o600) }, ada(nil), "is damaged and was left as it is"},
		"a record of others": {func(b *box) { b.write("state/accounts.json", "{}", 0o622) }, ada(nil),
			"could have been written by others"},
		"a foreign record": {func(b *box) { b.write("state/accounts.json", "{}", 0o600); b.give("state/accounts.json", 1000) }, ada(nil),
			"could have been written by others"},
		"no passwd": {func(b *box) { b.check(os.Remove(b.path("etc/passwd"))) }, ada(nil), "no such file"},
		"no groups": {func(b *box) { b.check(os.Remove(b.path("etc/group"))) }, ada(nil), "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			if one.prepare != nil {
				one.prepare(b)
			}
			before := b.tree()
			_, err := b.provision(one.params)
			b.refused(err, one.want, before)
		})
	}
}

// TestNotOursAnyMore: the account of the record was replaced by another one of that name, or moved.
func TestNotOursAnyMore(t *testing.T) {
	for name, one := range map[string]struct {
		change func(*box)
		want   string
	}{
		"another UID":     {func(b *box) { b.edit("etc/passwd", "ada", field(2, "1005")) }, "is not the one that muster made"},
		"a system's UID":  {func(b *box) { b.edit("etc/passwd", "ada", field(2, "998")) }, "belongs to the system"},
		"root's UID":      {func(b *box) { b.edit("etc/passwd", "ada", field(2, "0")) }, "belongs to the system"},
		"another comment": {func(b *box) { b.edit("etc/passwd", "ada", field(4, "Ada")) }, "is not the one that muster made"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.made(ada(func(p *wire.ProvisionUser) { p.Sudo = false }))
			one.change(b)
			before := b.tree()
			_, err := b.provision(ada(nil))
			b.refused(err, one.want, before)
			_, err = b.deprovision(wire.DeprovisionUser{Username: "ada", RemoveHome: true})
			b.refused(err, one.want, before)
			_, err = b.deprovision(wire.DeprovisionUser{All: true, RemoveHome: true})
			b.refused(err, one.want, before)
		})
	}
	b := newBox(t)
	b.made(ada(nil))
	b.edit("etc/passwd", "ada", field(5, "/srv/ada"))
	before := b.tree()
	_, err := b.provision(ada(nil))
	b.refused(err, "was moved from /home/ada to /srv/ada", before)
}

// TestUIDs: a number is never given twice, also if its account is gone and its home directory is not.
func TestUIDs(t *testing.T) {
	b := newBox(t)
	b.ldap["1001"] = true
	if done := b.made(wire.ProvisionUser{Username: "ada"}); done.UID != 1002 {
		t.Errorf("%+v: LDAP has 1001", done)
	}
	b.removed(wire.DeprovisionUser{Username: "ada"})
	if done := b.made(wire.ProvisionUser{Username: "bob"}); done.UID != 1003 {
		t.Errorf("%+v: the home directory of ada belongs to 1002", done)
	}
	if done := b.made(wire.ProvisionUser{Username: "ada"}); done.UID != 1002 {
		t.Errorf("%+v: her home directory belongs to 1002", done)
	}
	b.write("etc/group", b.read("etc/group")+"high:x:59999:\n", 0o644)
	if done := b.made(wire.ProvisionUser{Username: "eve"}); done.UID != 1004 {
		t.Errorf("%+v: no number above the highest is free", done)
	}
}

// TestKeptHome: who comes back gets the home directory, and nobody gets in by a key of before.
func TestKeptHome(t *testing.T) {
	for name, spoil := range map[string]func(*box){
		"keys":       func(b *box) { b.write("home/ada/.ssh/authorized_keys", "ssh-rsa AAAA old\n"+keyTwo+"\n", 0o600) },
		"older keys": func(b *box) { b.write("home/ada/.ssh/authorized_keys2", keyTwo+"\n", 0o600) },
		"a link to keys": func(b *box) {
			b.check(os.Rename(b.path("home/ada/.ssh"), b.path("home/ada/dot")))
			b.check(os.Symlink("dot", b.path("home/ada/.ssh")))
			b.write("home/ada/dot/authorized_keys", "ssh-rsa AAAA old\n", 0o600)
		},
		"no folder": func(b *box) { b.check(os.RemoveAll(b.path("home/ada/.ssh"))) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.made(ada(nil))
			b.write("home/ada/thesis", "", 0o644)
			spoil(b)
			b.removed(wire.DeprovisionUser{Username: "ada"})
			if !b.has("home/ada/thesis") {
				t.Error("the home directory is gone")
			}
			done := b.made(ada(nil))
			if text := b.read("home/ada/.ssh/authorized_keys"); text != keysHead+keyOne+"\n" || done.UID != 1001 || !b.has("home/ada/thesis") ||
				b.has("home/ada/.ssh/authorized_keys2") {
				t.Errorf("%+v %q", done, text)
			}
		})
	}
}

// TestHomeOfAnother: a home directory that was kept has another owner now.
func TestHomeOfAnother(t *testing.T) {
	b := newBox(t)
	b.made(ada(nil))
	b.give("home/ada", 4711)
	if _, err := b.provision(ada(nil)); err == nil || !strings.Contains(err.Error(), "belongs to the UID 4711 and not to ada (1001)") {
		t.Errorf("%v", err)
	}
	b.give("home/ada", 1001)
	b.check(os.RemoveAll(b.path("home/ada")))
	if done := b.made(ada(nil)); !done.Changed || !b.has("home/ada/.ssh/authorized_keys") {
		t.Errorf("a home directory that is gone is made again: %+v", done)
	}
	b.check(os.Chmod(b.path("home"), 0o777))
	if _, err := b.provision(ada(nil)); err == nil || !strings.Contains(err.Error(), "can be changed by others than root") {
		t.Errorf("%v", err)
	}
}

// TestToolsFail: what the machine's tool says is in the error.
func TestToolsFail(t *testing.T) {
	for tool, want := range map[string]string{
		"useradd": "useradd ended with exit code 9: group ada exists", "usermod": "usermod ended with exit code 9: group ada exists",
		"visudo": "visudo refuses the file that gives ada its rights",
	} {
		b := newBox(t)
		b.fails[tool] = "configuration: odd\ngroup ada exists"
		if _, err := b.provision(ada(nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
		if names, _ := os.ReadDir(b.path("etc/sudoers.d")); len(names) != 0 {
			t.Errorf("%s: %v", tool, names)
		}
		delete(b.fails, tool)
		b.made(ada(nil))
	}
	b := newBox(t)
	b.accounts.exec = nil // useradd is an empty file here: it cannot be run
	if _, err := b.provision(ada(nil)); err == nil {
		t.Error("no tool, and no error")
	}
}

func TestRecord(t *testing.T) {
	good := `{"version":1,"accounts":[{"name":"ada","uid":1001,"home":"/home/ada","mark":"m","phase":"present"}]}`
	if r, err := parseRecord([]byte(good)); err != nil || len(r.Accounts) != 1 {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		`"version":1`: `"version":2`, `"uid":1001`: `"uid":999`, `"/home/ada"`: `"/etc"`, `"mark":"m"`: `"mark":""`,
		`"present"`: `"gone"`, `"ada"`: `"../ada"`, `"accounts":[`: `"accounts":[[`,
	} {
		if _, err := parseRecord([]byte(strings.Replace(good, from, to, 1))); err == nil {
			t.Errorf("%s: taken", to)
		}
	}
	b := newBox(t)
	b.check(os.RemoveAll(b.path("state")))
	_, err := b.provision(ada(nil))
	if err == nil || !strings.Contains(err.Error(), "the record of accounts cannot be written") || len(b.calls) > 0 {
		t.Errorf("%v %q", err, b.calls)
	}
	b.check(os.Symlink(filepath.Join(b.root, "etc"), b.path("state")))
	b.write("etc/accounts.json", good, 0o600)
	b.check(os.Remove(b.path("state")))
	b.check(os.Mkdir(b.path("state"), 0o755))
	b.check(os.Symlink(b.path("etc/accounts.json"), b.path("state/accounts.json")))
	if _, err := b.provision(ada(nil)); err == nil || !strings.Contains(err.Error(), "could have been written by others") {
		t.Errorf("%v", err)
	}
}
