package diag

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/logfile"
	"muster/agent/internal/task"
	"muster/agent/sign"
	"muster/agent/wire"
)

// box is a machine whose files lie in a folder, with tools that are played.
type box struct {
	t    *testing.T
	root string
	job  task.Job
	out  bytes.Buffer
	Collector
}

func newBox(t *testing.T) *box {
	b := &box{t: t, root: t.TempDir()}
	b.Collector = Collector{Version: "v1", State: filepath.Join(b.root, "state"), Root: b.root}
	b.Settings = filepath.Join(b.root, "etc/agent.env")
	b.Now = func() time.Time { return time.Date(2026, 11, 22, 15, 4, 5, 0, time.UTC) }
	b.job = task.Job{ID: "t1", Dir: t.TempDir(), Output: &b.out}
	t.Setenv("PATH", filepath.Join(b.root, "bin"))
	b.put("bin/none", "", 0o644)
	return b
}

func (b *box) put(name, text string, mode fs.FileMode) {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

// play puts a tool on the PATH.
func (b *box) play(name, script string) { b.put("bin/"+name, "#!/bin/sh\n"+script+"\n", 0o755) }

// collected does the task, and gives the files of the archive and its manifest.
func (b *box) collected() (map[string]string, Manifest) {
	b.t.Helper()
	o := b.Do(b.t.Context(), b.job)
	if o.Error != "" {
		b.t.Fatalf("%s\n%s", o.Error, b.out.String())
	}
	files := b.unpack(o)
	var m Manifest
	if err := json.Unmarshal([]byte(files["manifest.json"]), &m); err != nil {
		b.t.Fatal(err)
	}
	return files, m
}

func (b *box) unpack(o task.Outcome) map[string]string {
	b.t.Helper()
	path := filepath.Join(b.job.Dir, o.Archive)
	info, err := os.Stat(path)
	if err != nil {
		b.t.Fatal(err)
	}
	if info.Size() > wire.MaxTaskArchive || info.Mode().Perm() != 0o600 {
		b.t.Errorf("%d bytes, %v", info.Size(), info.Mode())
	}
	file, err := os.Open(path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		b.t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(zip); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			b.t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			b.t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(text)
	}
	want, err := json.Marshal(map[string]int64{"files": int64(len(files)), "bytes": info.Size()})
	values, bad := json.Marshal(o.Values)
	if err != nil || bad != nil || string(values) != string(want) {
		b.t.Errorf("%s, not %s", values, want)
	}
	return files
}

// enrol gives the machine an identity. It returns the lines of its key.
func (b *box) enrol() []string {
	b.t.Helper()
	_, key, err := identity.NewKey()
	if err != nil {
		b.t.Fatal(err)
	}
	d, err := identity.Open(b.State)
	if err != nil {
		b.t.Fatal(err)
	}
	defer d.Close()
	if err := d.Save(identity.State{Name: "gpu/1", Pending: key, Gateway: identity.Gateway{URL: "https://gw.example"}}); err != nil {
		b.t.Fatal(err)
	}
	return strings.Fields(identity.State{Pending: key}.Secrets()[0])
}

func TestCollect(t *testing.T) {
	b := newBox(t)
	b.enrol()
	b.put("state/status.json", `{"pid":7,"phase":"online","gateway":"https://gw.example"}`, 0o644)
	b.put("state/agent.log", "level=INFO msg=online\n", 0o600)
	b.put("etc/agent.env", "MUSTER_GATEWAY=https://gw.example\nMUSTER_PROXY=http://ada:hunter2@proxy:3128\n", 0o600)
	b.put("etc/os-release", "ID=debian\n", 0o644)
	b.put("proc/modules", "ext4 1\nnvidia 2\n", 0o644)
	b.play("dmesg", `echo "NVRM: Xid (PCI:0000:01:00): 79"; echo "usb 1-1: new device"`)
	b.play("uname", `echo "Linux $1"`)
	b.play("systemctl", `echo "$@"; exit 3`)
	b.play("journalctl", `echo "$@"`)
	b.play("docker", `echo "$@"`)
	b.Describe = func(context.Context) ([]byte, error) { return []byte("Driver Version : 590\n"), nil }
	b.Reading = func() any { return map[string]int{"gpus": 8} }
	b.Tasks = func() map[string]string { return map[string]string{"b": "started", "a": "reported"} }
	files, m := b.collected()
	for name, want := range map[string]string{
		"agent/status.json":          `"phase": "online"`,
		"agent/identity.json":        `"gateway": "https://gw.example"`,
		"agent/settings.env":         "MUSTER_GATEWAY=https://gw.example\nMUSTER_PROXY=http://***@proxy:3128\n",
		"agent/agent.log":            "level=INFO msg=online\n",
		"agent/tasks.txt":            "a reported\nb started\n",
		"agent/unit.txt":             "status --no-pager --full muster-agent\n",
		"agent/unit-journal.txt":     "--lines=5000 --unit=muster-agent\n",
		"gpu/nvidia-smi-q.txt":       "Driver Version : 590\n",
		"gpu/last-look.json":         `"gpus": 8`,
		"gpu/modules.txt":            "nvidia 2\n",
		"gpu/dmesg.txt":              "NVRM: Xid (PCI:0000:01:00): 79\n",
		"system/uname.txt":           "Linux -a\n",
		"system/os-release.txt":      "ID=debian\n",
		"containers/docker-ours.txt": "ps --all --no-trunc --filter label=muster.workload --format",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s: %q lacks %q", name, files[name], want)
		}
	}
	if files["gpu/dmesg.txt"] != "NVRM: Xid (PCI:0000:01:00): 79\n" || files["gpu/modules.txt"] != "nvidia 2\n" {
		t.Errorf("%q %q: only what concerns GPUs", files["gpu/dmesg.txt"], files["gpu/modules.txt"])
	}
	if m.Task != "t1" || m.Agent != "v1" || len(m.Sources) != len(b.sources()) {
		t.Errorf("%+v", m)
	}
	for i, one := range b.sources() { // each row of the table is used, and told
		entry := m.Sources[i]
		text, packed := files[one.file]
		if entry.File != one.file || packed == entry.Absent || entry.Bytes != len(text) || entry.Error != "" {
			t.Errorf("%+v: %d bytes", entry, len(text))
		}
		if !strings.Contains(b.out.String(), one.file+": ") {
			t.Errorf("nothing is told of %s", one.file)
		}
	}
	entries, err := os.ReadDir(b.job.Dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "muster-diag-gpu-1-20261122T150405Z.tar.gz" {
		t.Errorf("%v %v", entries, err)
	}
	b.User = true
	b.job.Dir = t.TempDir()
	files, _ = b.collected()
	if files["agent/unit.txt"] != "--user status --no-pager --full muster-agent\n" ||
		!strings.Contains(files["agent/unit-journal.txt"], "--user-unit=muster-agent") {
		t.Errorf("%q %q", files["agent/unit.txt"], files["agent/unit-journal.txt"])
	}
}

// TestNoSecrets: whatever the sources give, no secret gets into the archive, and none into what a person reads meanwhile.
func TestNoSecrets(t *testing.T) {
	b := newBox(t)
	key := b.enrol()
	token, err := sign.NewToken(sign.EnrollmentToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Token = "correct horse battery"
	t.Setenv("MUSTER_TOKEN", b.Token)
	t.Setenv("HUNTER", "environment-of-the-agent")
	all := strings.Join(key, "\nx ") + "\n" + token.Reveal() +
		"\nDB_PASSWORD=hunter2hunter2\nAuthorization: Basic aHVudGVyMg==\nit is " + b.Token + "\n"
	b.put("state/agent.log", all, 0o600)
	b.put("etc/agent.env", all, 0o600)
	b.put("state/status.json", `{"last_error":"`+strings.ReplaceAll(all, "\n", `\n`)+`"}`, 0o644)
	b.play("dmesg", "echo oom '"+all+"'; exit 1")
	b.play("uname", "echo '"+all+"'; echo $MUSTER_TOKEN")
	b.Describe = func(context.Context) ([]byte, error) { return []byte(all), errors.New("it failed: " + all) }
	b.Reading = func() any { return all }
	b.Tasks = func() map[string]string { return map[string]string{"a": all} }
	files, _ := b.collected()
	files["what a person reads"] = b.out.String()
	if len(files) < 8 {
		t.Fatalf("%d files", len(files))
	}
	secrets := append(key, token.Secret, "hunter2", "aHVudGVyMg", b.Token, "environment-of-the-agent")
	for name, text := range files {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q", name, secret)
			}
		}
	}
}

// TestSourcesFail: what fails or is missing is named with its error, and the rest goes on.
func TestSourcesFail(t *testing.T) {
	b := newBox(t)
	b.play("dmesg", "echo dmesg: Operation not permitted >&2; exit 1")
	b.put("state/identity.json", "{", 0o600)
	if err := os.MkdirAll(filepath.Join(b.root, "etc/os-release"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Describe = func(context.Context) ([]byte, error) { return nil, errors.New("the driver is wedged") }
	b.Settings = ""
	files, m := b.collected()
	for name, want := range map[string]string{
		"gpu/dmesg.txt": "dmesg ended with exit code 1", "agent/identity.json": "is damaged", "system/os-release.txt": "is not a file",
		"gpu/nvidia-smi-q.txt": "the driver is wedged", "agent/settings.env": "", "system/uname.txt": "", "agent/agent.log": "",
	} {
		at := slices.IndexFunc(m.Sources, func(e Entry) bool { return e.File == name })
		if entry := m.Sources[at]; !strings.Contains(entry.Error, want) || entry.Absent != (want == "") {
			t.Errorf("%+v: want %q", entry, want)
		}
	}
	if files["gpu/dmesg.txt"] != "dmesg: Operation not permitted\n" {
		t.Errorf("%q", files["gpu/dmesg.txt"])
	}
	if !strings.Contains(b.out.String(), "gpu/nvidia-smi-q.txt: failed: the driver is wedged\n") ||
		!strings.Contains(b.out.String(), "system/uname.txt: not on this machine\n") {
		t.Errorf("%s", b.out.String())
	}
}

// TestHangs: a source that does not end is left behind in time. One that writes without an end is cut.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan bool)
		defer close(never)
		start := time.Now()
		_, err := source{read: func(context.Context) ([]byte, error) { <-never; return nil, nil }}.get(t.Context())
		took := time.Since(start)
		if err == nil || !strings.Contains(err.Error(), "longer than 10s, and it does not end") || took != sourceTime+leaveTime {
			t.Errorf("%v after %v", err, took)
		}
		obeys := func(ctx context.Context) ([]byte, error) { <-ctx.Done(); return []byte("so far"), context.Cause(ctx) }
		text, err := source{time: time.Second, read: obeys}.get(t.Context())
		if string(text) != "so far" || err == nil || err.Error() != "it took longer than 1s" {
			t.Errorf("%q %v", text, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("somebody canceled it"))
		if _, err := (source{read: obeys}).get(ctx); err == nil || err.Error() != "somebody canceled it" {
			t.Errorf("%v", err)
		}
	})
	b := newBox(t)
	b.play("uname", "while :; do echo 0123456789012345678901234567890123456789; done | /usr/bin/head -c 9000000")
	files, m := b.collected()
	at := slices.IndexFunc(m.Sources, func(e Entry) bool { return e.File == "system/uname.txt" })
	text := files["system/uname.txt"]
	if len(text) > 1<<20 || len(text) < 1<<19 || !strings.HasSuffix(text, "789\n") || !m.Sources[at].Truncated {
		t.Errorf("%d bytes, %+v", len(text), m.Sources[at])
	}
}

// TestBounded: whatever the sources give, the archive fits.
func TestBounded(t *testing.T) {
	dir := t.TempDir()
	p, err := newPack(filepath.Join(dir, "a"), "base", time.Now(), logfile.NewMasker())
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x ", 50))
	line[99] = '\n'
	text := bytes.Repeat(line, 90000)
	for i := range 10 {
		kept, cut, err := p.add("f", text, len(text))
		if err != nil || cut != (kept < len(text)) || kept%len(line) != 0 || i < 3 && cut || i > 3 && kept > 0 {
			t.Errorf("%d: %d %t %v", i, kept, cut, err)
		}
	}
	if p.left < 0 || p.left > len(line) {
		t.Errorf("%d bytes are left", p.left)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

// TestNoRoom: an archive that cannot be written fails the task, with the next step.
func TestNoRoom(t *testing.T) {
	b := newBox(t)
	b.job.Dir = filepath.Join(b.root, "missing")
	if o := b.Do(t.Context(), b.job); o.ExitCode != 1 || !strings.Contains(o.Error, "the archive cannot be written") {
		t.Errorf("%+v", o)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this machine has no /dev/full")
	}
	p, err := newPack(filepath.Join(t.TempDir(), "a"), "base", time.Now(), logfile.NewMasker())
	if err != nil {
		t.Fatal(err)
	}
	p.file.Close()
	p.file = full
	p.zip.Reset(full)
	if err := p.addJSON("a", 1); err == nil {
		err = p.close()
		if err == nil || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("%v", err)
		}
	}
}

// TestCanceled: somebody who cancels the task need not wait for all sources.
func TestCanceled(t *testing.T) {
	b := newBox(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	b.Tasks = func() map[string]string { cancel(errors.New("somebody canceled it")); return nil }
	if o := b.Do(ctx, b.job); o.Error != "somebody canceled it" || o.Archive != "" {
		t.Errorf("%+v", o)
	}
}

// TestTail: of a long file the end counts, from the beginning of a line. A pipe does not hold anything up.
func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	line := strings.Repeat("y", 98) + "\n"
	if err := os.WriteFile(path, []byte("first\n"+strings.Repeat(line, 60000)+"last\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := tail(path)(t.Context())
	if err != nil || len(text) > maxRead || len(text) < maxRead-len(line) || !bytes.HasPrefix(text, []byte(line)) ||
		!bytes.HasSuffix(text, []byte("last\n")) {
		t.Errorf("%d %v", len(text), err)
	}
	if _, err := tail(path + ".none")(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestCertificates(t *testing.T) {
	b := newBox(t)
	b.enrol()
	text, err := b.readNode(t.Context())
	if err != nil || bytes.Contains(text, []byte("PRIVATE")) || !bytes.Contains(text, []byte(`"name": "gpu/1"`)) {
		t.Errorf("%s %v", text, err)
	}
}
