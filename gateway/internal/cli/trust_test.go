package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/datadir"
)

// newTrustHouse is a house with a CA.
func newTrustHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t)
	var err error
	h.api.Scratch = t.TempDir()
	if h.api.Authority, err = authority.Open(t.Context(),
		authority.Config{Store: h.store, Now: h.api.Now, TrustDomain: "muster"}); err != nil {
		t.Fatal(err)
	}
	h.dir = h.listen()
	return h
}

func TestTrustCommands(t *testing.T) {
	h := newTrustHouse(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"ca", "show"}, []string{"trust domain muster, trust set 1", "root ", "sha256:", "online", "intermediate"}},
		{[]string{"key", "ls"}, []string{"trust", "answer", "task", "release", "yes"}},
		{[]string{"key", "rotate", "--answer"}, []string{"Trust set 2 is published."}},
		{[]string{"key", "ls", "-o", "json"}, []string{`"trust_number":2`, `"in_use":false`}},
		{[]string{"ca", "rotate-root"}, []string{"Trust set 3 is published.", "muster ca intermediate"}},
		{[]string{"ca", "intermediate"}, []string{"Signing with intermediate", "Nodes need not be told."}},
	} {
		out := h.done(c.args...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("muster %s: no %q in\n%s", strings.Join(c.args, " "), want, out)
			}
		}
	}
}

func TestTrustUsage(t *testing.T) {
	h := newTrustHouse(t)
	id := strings.Fields(strings.SplitAfter(h.done("key", "ls"), "answer")[1])[0]
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"key", "rotate"}, "which key?"},
		{[]string{"key", "rotate", "--answer", "--task"}, "which key?"},
		{[]string{"key", "drop", id}, "add --yes"},
		{[]string{"ca", "drop-root", "sha256:00000000"}, "add --yes"},
		{[]string{"key", "export", "file"}, "add --trust"},
		{[]string{"key", "import", "file"}, "add --trust"},
		{[]string{"backup"}, "FILE"},
		{[]string{"backup", "ls"}, "muster doctor says when the newest backup was begun"},
		{[]string{"restore", "file", "--adopt-for", "soon"}, "no duration"},
	} {
		if code, _, errs := h.muster(c.args...); code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("muster %s: exit %d, %s", strings.Join(c.args, " "), code, errs)
		}
	}
	for _, args := range [][]string{{"ca", "init"}, {"restore", "file"}, {"key", "rotate", "--master"},
		{"key", "export", "--trust", "file"}} {
		if code, _, errs := h.run(t.Context(), append(args, "--url", "https://gw")...); code != 2 ||
			!strings.Contains(errs, "not by its URL") {
			t.Errorf("muster %s by URL: exit %d, %s", strings.Join(args, " "), code, errs)
		}
	}
	h.interactive = true
	for _, answer := range []string{"n\n", "\n", ""} {
		h.stdin = answer
		if code, _, errs := h.muster("key", "drop", id); code != 1 || !strings.Contains(errs, "nothing was done") {
			t.Errorf("answer %q: exit %d, %s", answer, code, errs)
		}
	}
	h.stdin = "y\n"
	if code, _, errs := h.muster("key", "drop", id); code != 1 || !strings.Contains(errs, "the only answer key") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestSignedHere: with the trust key elsewhere, nothing is published without it. The person who signs is shown what is signed.
func TestSignedHere(t *testing.T) {
	h := newTrustHouse(t)
	file := filepath.Join(t.TempDir(), "trust.key")
	if err := h.api.Authority.ExportTrustKey(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	h.local.SignSet = func(file string, payload []byte) (sign.Envelope, error) {
		key, err := authority.ReadTrustKey(file)
		if err != nil {
			return sign.Envelope{}, err
		}
		return sign.Seal(key, sign.RoleTrust, payload), nil
	}
	if code, _, errs := h.muster("key", "rotate", "--answer"); code != 2 || !strings.Contains(errs, "--trust-key FILE") {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, _, errs := h.muster("key", "rotate", "--answer", "--trust-key", file+"x"); code != 1 || h.api.Authority.TrustNumber() != 1 {
		t.Errorf("exit %d, %s", code, errs)
	}
	code, out, errs := h.muster("key", "rotate", "--answer", "--trust-key", file)
	if code != 0 || !strings.Contains(errs, `"root_pins"`) || !strings.Contains(errs, h.api.Authority.RootPin()) ||
		!strings.Contains(out, "Trust set 2 is published.") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}

func TestBackupCommand(t *testing.T) {
	h := newTrustHouse(t)
	file := filepath.Join(t.TempDir(), "copy.db")
	if out := h.done("backup", file); !strings.Contains(out, "master key is not in it") || !strings.Contains(out, "and 0 blobs of") {
		t.Errorf("said %s", out)
	}
	small := filepath.Join(t.TempDir(), "small.db")
	if out := h.done("backup", small, "--without-registry"); !strings.Contains(out, "without the registry") {
		t.Errorf("said %s", out)
	}
	if head, err := os.ReadFile(small); err != nil || !bytes.HasPrefix(head, []byte("SQLite format 3\x00")) {
		t.Errorf("it is not the database alone: %v", err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if code, _, errs := h.muster("backup", file); code != 1 || !strings.Contains(errs, "already") {
		t.Errorf("exit %d, %s", code, errs)
	}
	nowhere := filepath.Join(t.TempDir(), "no", "copy.db")
	if code, _, errs := h.muster("backup", nowhere); code != 1 || !strings.Contains(errs, "there is no folder "+filepath.Dir(nowhere)) {
		t.Errorf("into a folder that is not there: exit %d, %s", code, errs)
	}
	if again, err := os.Stat(file); err != nil || again.Size() != info.Size() {
		t.Error("the file that was there changed")
	}
	h.store.Close()
	other := filepath.Join(t.TempDir(), "copy.db")
	if code, _, _ := h.muster("backup", other); code != 1 {
		t.Errorf("of a broken store: exit %d", code)
	}
	if _, err := os.Stat(other); !errors.Is(err, os.ErrNotExist) {
		t.Error("half a copy was left")
	}
}

// TestLocalCommands: what the command line hands on, and what it says.
func TestLocalCommands(t *testing.T) {
	h := newHouse(t)
	var got []string
	h.local = cli.Local{
		InitCA: func(_ context.Context, data datadir.Files, domain, out string) (string, error) {
			got = append(got, data.MasterKeyFile, domain, out)
			return "sha256:77", nil
		},
		RotateMaster: func(_ context.Context, _ datadir.Files, _ datadir.SharedStore, out string) (string, error) {
			got = append(got, out)
			return "K", nil
		},
		ExportTrust: func(_ context.Context, _ datadir.Files, file string) error { got = append(got, file); return nil },
		Restore: func(_ context.Context, r datadir.Restore) (datadir.Restored, error) {
			if r.File == "bad" {
				return datadir.Restored{}, errors.New("no good")
			}
			got = append(got, r.File, r.AdoptFor.String(), r.TrustKeyFile)
			return datadir.Restored{BackupAt: h.now, AdoptUntil: h.now.Add(time.Hour), Aside: "ASIDE", TrustKeyAway: true}, nil
		},
	}
	for _, c := range []struct {
		args []string
		got  string
		says []string
	}{
		{[]string{"ca", "init", "--root-out", "R", "--trust-domain", "d", "--master-key-file", "M"}, "M d R",
			[]string{"sha256:77", "muster ca intermediate --root /"}},
		{[]string{"key", "rotate", "--master", "--master-key-out", "O"}, "O", []string{"new master key in K", "Older backups"}},
		{[]string{"key", "export", "--trust", "F"}, "F", []string{"in F and nowhere else"}},
		{[]string{"restore", "B", "--trust-key", "T"}, "B 72h0m0s T", []string{"ASIDE", "Open tokens have ended", "--trust-key FILE"}},
	} {
		got = nil
		out := h.done(c.args...)
		if strings.Join(got, " ") != c.got {
			t.Errorf("muster %s hands on %q", strings.Join(c.args, " "), got)
		}
		for _, want := range c.says {
			if !strings.Contains(out, want) {
				t.Errorf("muster %s: no %q in\n%s", strings.Join(c.args, " "), want, out)
			}
		}
	}
	if code, _, errs := h.muster("restore", "bad"); code != 1 || !strings.Contains(errs, "no good") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestKeyForService: after a rotation into another file, the command says where the installed service reads its key.
func TestKeyForService(t *testing.T) {
	root := t.TempDir()
	data := t.TempDir()
	unit := filepath.Join(root, "etc/systemd/system/muster.service")
	key := filepath.Join(root, "etc/muster/master.key")
	err := errors.Join(os.MkdirAll(filepath.Dir(unit), 0o755), os.MkdirAll(filepath.Dir(key), 0o755),
		os.WriteFile(unit, []byte("ReadWritePaths="+data+"\n"), 0o600), os.WriteFile(key, nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		data, file string
		said       bool
	}{{data, "/root/new.key", true}, {data, key, false}, {t.TempDir(), "/root/new.key", false}} {
		var out, errs strings.Builder
		local := cli.Local{RotateMaster: func(context.Context, datadir.Files, datadir.SharedStore, string) (string, error) { return c.file, nil }}
		code := cli.Run(t.Context(), cli.Env{Args: []string{"key", "rotate", "--master", "--data", c.data},
			Getenv: func(string) string { return "" },
			Stdout: &out, Stderr: &errs, Local: local, Machine: cli.Machine{Root: root}}, commands.All())
		if said := strings.Contains(out.String(), "install -m 600 /root/new.key /etc/muster/master.key"); code != 0 || said != c.said {
			t.Errorf("%+v: exit %d\n%s%s", c, code, out.String(), errs.String())
		}
	}
}
