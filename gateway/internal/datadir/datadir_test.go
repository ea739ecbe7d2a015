package datadir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muster/gateway/internal/datadir"
)

func TestDefault(t *testing.T) {
	none := t.TempDir()
	usual := t.TempDir()
	other := t.TempDir()
	unread := t.TempDir()
	for root, files := range map[string]map[string]string{
		usual: {"etc/systemd/system/muster.service": "[Service]\nStateDirectory=muster\n", "etc/muster/gateway.env": "# mine\n"},
		other: {"etc/systemd/system/muster.service": "[Service]\nReadWritePaths=/srv/old\n",
			"etc/muster/gateway.env": "MUSTER_DATA=\"/srv/muster\"\n"},
		unread: {"etc/systemd/system/muster.service": "[Service]\nReadWritePaths=/srv/muster\n"},
	} {
		for name, text := range files {
			path := filepath.Join(root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		uid                   int
		xdg, home, root, want string
	}{
		{0, "/x", "/root", none, "/var/lib/muster"}, {0, "", "", usual, "/var/lib/muster"}, {0, "", "", other, "/srv/muster"},
		{0, "", "", unread, "/srv/muster"},
		{1, "/x", "/home/u", other, "/x/muster"}, {1, "relative", "/home/u", none, "/home/u/.local/share/muster"},
		{1, "", "/home/u", none, "/home/u/.local/share/muster"},
		{1, "", "", none, ""}, {1, "relative", "relative", none, ""},
	} {
		env := map[string]string{"XDG_DATA_HOME": c.xdg, "HOME": c.home}
		if got := datadir.Default(func(name string) string { return env[name] }, c.uid, c.root); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
