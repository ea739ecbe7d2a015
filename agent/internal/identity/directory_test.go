package identity_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
)

func open(t *testing.T, path string) *identity.Directory {
	t.Helper()
	directory, err := identity.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { directory.Close() })
	return directory
}

func TestSavedStateComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "state")
	directory := open(t, path)
	if got, err := directory.Load(); err != nil || got.Current != nil || got.Pending != "" {
		t.Fatalf("an empty directory gives %+v, %v", got, err)
	}
	want := gatewaytest.New(t).Node(t)
	_, want.Pending, _ = identity.NewKey()
	for range 2 {
		if err := directory.Save(want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := directory.Load()
	want.Version = 1
	var plain bytes.Buffer
	if err := json.Compact(&plain, got.Gateway.Trust); err != nil { // the file is indented; the signature is over the payload in it
		t.Fatal(err)
	}
	got.Gateway.Trust = plain.Bytes()
	want.Current.IssuedAt = got.Current.IssuedAt.UTC()
	got.Current.IssuedAt = got.Current.IssuedAt.UTC()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	checkModes(t, path, map[string]os.FileMode{"identity.json": 0o600, "agent.lock": 0o600})
}

func checkModes(t *testing.T, path string, want map[string]os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != len(want) {
		t.Errorf("%d files, %v, want %d", len(entries), err, len(want))
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Mode().Perm() != want[entry.Name()] {
			t.Errorf("%s has mode %v, want %v", entry.Name(), info.Mode(), want[entry.Name()])
		}
	}
}

func TestOneAgentPerDirectory(t *testing.T) {
	path := t.TempDir()
	first := open(t, path)
	if _, err := identity.Open(path); !errors.Is(err, identity.ErrLocked) {
		t.Errorf("a second agent: %v", err)
	}
	if !identity.Running(path) {
		t.Error("the first one is not seen running")
	}
	first.Close()
	if identity.Running(path) || identity.Running(filepath.Join(path, "nowhere")) {
		t.Error("a stopped one is seen running")
	}
	open(t, path)
}

func TestDamagedStateIsNamedAndKept(t *testing.T) {
	node := gatewaytest.New(t).Node(t)
	_, otherKey, _ := identity.NewKey()
	otherPair := *node.Current
	otherPair.Key = otherKey
	mixed := node
	mixed.Current = &otherPair
	nameless := node
	nameless.NodeID = ""
	rootless := node
	rootless.Gateway.Roots = "none"
	keyless := node
	keyless.Gateway.AnswerKeys = []string{"AAAA"}
	for name, damage := range map[string]func(directory *identity.Directory, file string) error{
		"empty":         func(_ *identity.Directory, file string) error { return os.WriteFile(file, nil, 0o600) },
		"cut off":       func(_ *identity.Directory, file string) error { return os.Truncate(file, 300) },
		"not JSON":      func(_ *identity.Directory, file string) error { return os.WriteFile(file, []byte("hello"), 0o600) },
		"mixed pair":    func(d *identity.Directory, _ string) error { return d.Save(mixed) },
		"no node id":    func(d *identity.Directory, _ string) error { return d.Save(nameless) },
		"no roots":      func(d *identity.Directory, _ string) error { return d.Save(rootless) },
		"no answer key": func(d *identity.Directory, _ string) error { return d.Save(keyless) },
		"bad pending":   func(d *identity.Directory, _ string) error { return d.Save(identity.State{Pending: "x"}) },
	} {
		t.Run(name, func(t *testing.T) {
			directory := open(t, t.TempDir())
			file := filepath.Join(directory.Path(), "identity.json")
			if err := directory.Save(node); err != nil {
				t.Fatal(err)
			}
			if err := damage(directory, file); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(file)
			_, err := directory.Load()
			if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "was left as it is") {
				t.Errorf("error %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE KEY") {
				t.Errorf("error %v shows a key", err)
			}
			if after, _ := os.ReadFile(file); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	directory := open(t, t.TempDir())
	os.WriteFile(filepath.Join(directory.Path(), "identity.json"), []byte(`{"version":2}`), 0o600)
	if _, err := directory.Load(); err == nil || !strings.Contains(err.Error(), "newer agent") {
		t.Errorf("error %v", err)
	}
}

func TestUnusableDirectories(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	shared := filepath.Join(base, "shared")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(shared, 0o755),
		os.WriteFile(filepath.Join(shared, "others"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(file, "state"): "there is a file where a directory should be",
		"/proc/nowhere/state":        "give --state",
		shared:                       "give --state a directory of its own",
	} {
		if _, err := identity.Open(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
	if info, _ := os.Stat(shared); info.Mode().Perm() != 0o755 {
		t.Error("somebody else's directory was closed")
	}
	empty := filepath.Join(base, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, empty)
	if info, _ := os.Stat(empty); info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", info.Mode())
	}
}

// TestTakesAVolumeOver: an existing directory that counts as empty becomes the agent's, whoever owned it.
func TestTakesAVolumeOver(t *testing.T) {
	for _, inside := range []string{"", "lost+found", ".muster-install.aB12cd"} {
		path := filepath.Join(t.TempDir(), "volume")
		if err := errors.Join(os.MkdirAll(filepath.Join(path, inside), 0o755), os.Chmod(path, 0o777)); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(path, 1000, 1000); err != nil {
				t.Fatal(err)
			}
		}
		if err := identity.CheckPrivate(path); err != nil {
			t.Errorf("%q inside: %v", inside, err)
		}
		open(t, path)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			t.Errorf("%q inside: %+v, %v", inside, info, err)
		}
	}
	others := filepath.Join(t.TempDir(), "others")
	if err := errors.Join(os.Mkdir(others, 0o755), os.WriteFile(filepath.Join(others, "thesis"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := identity.CheckPrivate(others); err == nil || !strings.Contains(err.Error(), "a directory of its own") {
		t.Errorf("a directory with something else in it: %v", err)
	}
	if err := identity.CheckPrivate(filepath.Join(others, "none")); err != nil {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestFullDiskIsNamed(t *testing.T) {
	directory := open(t, t.TempDir())
	node := gatewaytest.New(t).Node(t)
	if err := directory.Save(node); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", filepath.Join(directory.Path(), "identity.json.new")); err != nil {
		t.Skip("no symbolic links here")
	}
	if err := directory.Save(identity.State{}); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("error %v", err)
	}
	if got, err := directory.Load(); err != nil || got.NodeID != node.NodeID {
		t.Errorf("the state before is gone: %+v, %v", got, err)
	}
}

func TestKeep(t *testing.T) {
	directory := open(t, t.TempDir())
	node := gatewaytest.New(t).Node(t)
	if _, err := directory.Keep(node.NodeID); err == nil {
		t.Error("there is nothing to keep yet")
	}
	for number := range 2 {
		if err := directory.Save(node); err != nil {
			t.Fatal(err)
		}
		kept, err := directory.Keep(node.NodeID)
		if err != nil {
			t.Fatal(err)
		}
		if err := directory.Save(identity.State{NodeID: "another"}); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(kept)
		if err != nil || !strings.Contains(string(raw), node.NodeID) {
			t.Errorf("number %d, kept in %s: %v, %s", number+1, kept, err, raw)
		}
	}
}

func TestStatus(t *testing.T) {
	directory := open(t, t.TempDir())
	want := identity.Status{PID: 7, Phase: identity.PhaseOnline, NodeID: "n1", Notices: []string{"x"}}
	if err := directory.SaveStatus(want); err != nil {
		t.Fatal(err)
	}
	if got, err := identity.ReadStatus(directory.Path()); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	checkModes(t, directory.Path(), map[string]os.FileMode{"status.json": 0o644, "agent.lock": 0o600})
	if _, err := identity.ReadStatus(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	os.WriteFile(filepath.Join(directory.Path(), "status.json"), []byte("x"), 0o644)
	if _, err := identity.ReadStatus(directory.Path()); err == nil {
		t.Error("garbage was read")
	}
}

func TestDefaultPath(t *testing.T) {
	for _, test := range []struct {
		uid             int
		xdg, home, want string
	}{
		{0, "/x", "/h", "/var/lib/muster-agent"},
		{1, "/x", "/h", "/x/muster-agent"},
		{1, "relative", "/h", "/h/.local/state/muster-agent"},
		{1, "", "", ""},
	} {
		getenv := func(name string) string {
			return map[string]string{"XDG_STATE_HOME": test.xdg, "HOME": test.home}[name]
		}
		if got := identity.DefaultPath(getenv, test.uid); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
