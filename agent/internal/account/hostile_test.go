package account

import (
	"os"
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestHostileHome: what the user has planted leads nowhere, and the error says what is in the way.
func TestHostileHome(t *testing.T) {
	const secret = "root's own\n"
	for name, one := range map[string]struct {
		plant func(b *box)
		want  string // of the error; empty: it goes well
	}{
		"the file is a link": {func(b *box) { b.check(os.Symlink(b.path("etc/target"), b.path("home/ada/.ssh/authorized_keys"))) }, ""},
		"the file is a hard link": {func(b *box) {
			b.check(os.Link(b.path("etc/target"), b.path("home/ada/.ssh/authorized_keys")))
		}, ""},
		"the file is a folder": {func(b *box) { b.check(os.Mkdir(b.path("home/ada/.ssh/authorized_keys"), 0o755)) }, "is a directory"},
		"the file is too long": {func(b *box) {
			b.write("home/ada/.ssh/authorized_keys", strings.Repeat("#", maxKeys+1), 0o600)
		}, "more than 1048576 bytes"},
		"the new file is a link": {func(b *box) { b.check(os.Symlink(b.path("etc/target"), b.path("home/ada/.ssh/"+temporary))) }, ""},
		"the new file is a folder": {func(b *box) { b.check(os.Mkdir(b.path("home/ada/.ssh/"+temporary), 0o755)) },
			"is a directory"},
		"the folder is a link": {func(b *box) {
			b.check(os.Remove(b.path("home/ada/.ssh")))
			b.check(os.Symlink(b.path("etc"), b.path("home/ada/.ssh")))
		}, "not a folder that can be used"},
		"the folder is a file": {func(b *box) {
			b.check(os.Remove(b.path("home/ada/.ssh")))
			b.write("home/ada/.ssh", "", 0o644)
		}, "not a folder that can be used"},
		"the home is a link": {func(b *box) {
			b.check(os.RemoveAll(b.path("home/ada")))
			b.check(os.Symlink(b.path("etc"), b.path("home/ada")))
		}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			b.made(ada(func(p *wire.ProvisionUser) { p.Keys = nil }))
			b.write("etc/target", secret, 0o600)
			b.check(os.Mkdir(b.path("home/ada/.ssh"), 0o755))
			b.give("home/ada/.ssh", 1001)
			one.plant(b)
			for _, path := range []string{"home/ada/.ssh/authorized_keys", "home/ada/.ssh/" + temporary} {
				if info, err := os.Lstat(b.path(path)); err == nil && name != "the file is a hard link" && info.Mode().Type() != os.ModeSymlink {
					b.give(path, 1001)
				}
			}
			_, err := b.provision(ada(nil))
			if one.want == "" && err != nil || one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
				t.Errorf("%v: want %q", err, one.want)
			}
			if b.read("etc/target") != secret || b.has("etc/authorized_keys") {
				t.Error("root wrote through a link")
			}
			want := keysHead + keyOne + "\n"
			if name == "the file is a hard link" && os.Geteuid() != 0 {
				want = secret + want // here the user may read it
			}
			if one.want == "" && b.read("home/ada/.ssh/authorized_keys") != want {
				t.Errorf("%q", b.read("home/ada/.ssh/authorized_keys"))
			}
		})
	}
}

// TestPipeInTheHome: a pipe must not hold the agent up.
func TestPipeInTheHome(t *testing.T) {
	b := newBox(t)
	b.made(ada(nil))
	b.check(os.Remove(b.path("home/ada/.ssh/authorized_keys")))
	b.check(mkfifo(b.path("home/ada/.ssh/authorized_keys")))
	b.give("home/ada/.ssh/authorized_keys", 1001)
	b.made(ada(nil))
	if b.read("home/ada/.ssh/authorized_keys") != keysHead+keyOne+"\n" {
		t.Error("no keys")
	}
}
