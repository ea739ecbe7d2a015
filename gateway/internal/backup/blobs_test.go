package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/disk"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/backup"
	"muster/gateway/internal/backup/archive"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/masterkey"
	"muster/store"
	"muster/store/alerts"
	rentals "muster/store/provider"
	"muster/store/registry"
)

// house is a gateway's data with a registry.
type house struct {
	t    *testing.T
	data string
}

func newHouse(t *testing.T) house {
	t.Helper()
	h := house{t, t.TempDir()}
	o := backup.Offline{Getenv: func(string) string { return "" }, Say: io.Discard, Root: t.TempDir()}
	if _, err := o.InitCA(t.Context(), datadir.Files{Data: h.data}, "", ""); err != nil {
		t.Fatal(err)
	}
	return h
}

// with opens the database and the registry.
func (h house) with(do func(*store.Store, *artifact.Registry)) {
	h.t.Helper()
	s, err := masterkey.Source{Data: h.data, Getenv: func(string) string { return "" }, Say: io.Discard}.Open(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := artifact.Open(h.t.Context(), artifact.Config{Folder: filepath.Join(h.data, datadir.Registry), Records: s.Records()})
	if err != nil {
		h.t.Fatal(err)
	}
	do(s, r)
	if err := s.Close(); err != nil {
		h.t.Fatal(err)
	}
}

func (h house) put(texts ...string) {
	h.t.Helper()
	h.with(func(_ *store.Store, r *artifact.Registry) {
		for _, text := range texts {
			if err := r.Put(h.t.Context(), "muster/agent", digest(text), int64(len(text)), strings.NewReader(text)); err != nil {
				h.t.Fatal(err)
			}
		}
	})
}

func digest(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// backup writes a backup, with its blobs or without them.
func (h house) backup(whole bool) string {
	h.t.Helper()
	dir := h.t.TempDir()
	file := filepath.Join(dir, "backup.db")
	h.with(func(s *store.Store, r *artifact.Registry) {
		if err := s.NoteBackup(h.t.Context(), time.Now()); err != nil {
			h.t.Fatal(err)
		}
		if err := s.Backup(h.t.Context(), file); err != nil {
			h.t.Fatal(err)
		}
		if whole {
			file = h.pack(file, r)
		}
	})
	return file
}

func (h house) pack(database string, r *artifact.Registry) string {
	h.t.Helper()
	content, err := os.ReadFile(database)
	if err != nil {
		h.t.Fatal(err)
	}
	var out bytes.Buffer
	w := archive.NewWriter(&out, time.Now())
	err = w.Database(int64(len(content)), bytes.NewReader(content))
	if err == nil {
		err = r.Each(h.t.Context(), func(b artifact.Info) error {
			blob, err := r.Raw(h.t.Context(), b.Digest)
			if err != nil {
				return err
			}
			defer blob.Close()
			return w.Add(archive.Blob(b), blob)
		})
	}
	if err == nil {
		err = w.Close()
	}
	file := database + ".tar"
	if err == nil {
		err = os.WriteFile(file, out.Bytes(), 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return file
}

// restore brings a backup back into a data directory, under the key of this house.
func (h house) restore(data, file string) (datadir.Restored, error) {
	return restore(h.t.Context(), data, file, filepath.Join(h.data, datadir.MasterKey), nil)
}

func restore(ctx context.Context, data, file, key string, steps disk.Steps) (datadir.Restored, error) {
	o := backup.On(backup.Offline{Getenv: func(string) string { return "" }, Say: io.Discard, Root: data + ".none"}, steps)
	return o.Restore(ctx, datadir.Restore{Files: datadir.Files{Data: data, MasterKeyFile: key}, File: file, Force: true, AdoptFor: time.Hour})
}

// named gives the blobs that the database of a data directory names. Each of them has to be there, and to be what it should be.
func (h house) named(data string) (names []string) {
	h.t.Helper()
	key, err := masterkey.Read(filepath.Join(h.data, datadir.MasterKey))
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := store.Open(h.t.Context(), store.Options{Path: filepath.Join(data, datadir.Database), MasterKey: key})
	if err != nil {
		h.t.Fatal(err)
	}
	defer s.Close()
	blobs, err := registry.On(s.Records()).Blobs(h.t.Context(), "", 100)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, b := range blobs {
		content, err := os.ReadFile(filepath.Join(data, datadir.Registry, "blobs", strings.Replace(b.Digest, ":", "/", 1)))
		if err != nil || digest(string(content)) != b.Digest {
			h.t.Errorf("the database names %s: %q, %v", b.Digest, content, err)
		}
		names = append(names, string(content))
	}
	return names
}

func TestRestoreWithRegistry(t *testing.T) {
	h := newHouse(t)
	h.put("one", "two")
	file := h.backup(true)
	fresh := filepath.Join(t.TempDir(), "fresh")
	done, err := h.restore(fresh, file)
	if err != nil || done.Blobs != 2 || done.LostBlobs != 0 || len(h.named(fresh)) != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	h.put("three") // since the backup
	done, err = h.restore(h.data, file)
	if err != nil || len(h.named(h.data)) != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	if names := h.named(done.Aside); len(names) != 3 {
		t.Errorf("what was there before has %q", names)
	}
}

// TestRestoreWithoutRegistry: a backup of the database alone forgets what is lost, so that it can be pushed again, and keeps what is there.
func TestRestoreWithoutRegistry(t *testing.T) {
	h := newHouse(t)
	h.put("one", "two")
	file := h.backup(false)
	if done, err := h.restore(h.data, file); err != nil || done.LostBlobs != 0 || len(h.named(h.data)) != 2 {
		t.Errorf("into its own data: %+v, %v", done, err)
	}
	gone := filepath.Join(h.data, datadir.Registry, "blobs", strings.Replace(digest("one"), ":", "/", 1))
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if done, err := h.restore(h.data, file); err != nil || done.LostBlobs != 1 || len(h.named(h.data)) != 1 {
		t.Errorf("one is gone: %+v, %v", done, err)
	}
	h.put("one")
	if names := h.named(h.data); len(names) != 2 {
		t.Errorf("pushed again: %q", names)
	}
}

// TestRestoreLacking: a backup that says what it lacks can be brought back. What it lacks is forgotten, so that it can be pushed again.
func TestRestoreLacking(t *testing.T) {
	h := newHouse(t)
	h.put("one", "two")
	file := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(file, h.copied(func(w *archive.Writer, digest string) { w.Lack(digest) }, "two"), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	done, err := h.restore(fresh, file)
	if err != nil || done.Blobs != 1 || done.LostBlobs != 1 || len(h.named(fresh)) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestRestoreAlerts: a restore takes over what receivers were told since the backup, and says so if it cannot read that.
func TestRestoreAlerts(t *testing.T) {
	h := newHouse(t)
	at := time.Now().UTC().Truncate(time.Millisecond)
	file := h.backup(false)
	one := alerts.Alert{ID: "al-1", Cause: "node_stale", Subject: "n", Since: at, FiredAt: at}
	h.with(func(s *store.Store, _ *artifact.Registry) {
		if err := alerts.New(s.Records()).Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{one}}); err != nil {
			t.Fatal(err)
		}
	})
	open := func() (n int) {
		h.with(func(s *store.Store, _ *artifact.Registry) {
			all, err := alerts.New(s.Records()).Alerts(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			n = len(all)
		})
		return n
	}
	if done, err := h.restore(h.data, file); err != nil || done.AlertsAway || open() != 1 {
		t.Errorf("%+v, %v, %d alerts", done, err, open())
	}
	if err := os.WriteFile(filepath.Join(h.data, datadir.Database), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if done, err := h.restore(h.data, file); err != nil || !done.AlertsAway || open() != 0 {
		t.Errorf("beside a damaged database: %+v, %v, %d alerts", done, err, open())
	}
}

// TestRestoreLeases: machines whose leases are over by the backup go on for a day, since what was decided after it is not known.
func TestRestoreLeases(t *testing.T) {
	h := newHouse(t)
	at := time.Now().UTC().Truncate(time.Millisecond)
	with := func(do func(rentals.Records) error) {
		t.Helper()
		h.with(func(s *store.Store, _ *artifact.Registry) {
			if err := do(rentals.New(s.Records())); err != nil {
				t.Fatal(err)
			}
		})
	}
	with(func(r rentals.Records) error {
		return errors.Join(r.AddAccount(t.Context(), rentals.Account{Name: "vast", Kind: "vast_ai", Tenant: "lab", CreatedAt: at}),
			r.PutLease(t.Context(), rentals.Lease{Account: "vast", Instance: "7", State: "live", Act: "destroy", EndsAt: at.Add(-time.Hour)}))
	})
	if _, err := h.restore(h.data, h.backup(false)); err != nil {
		t.Fatal(err)
	}
	with(func(r rentals.Records) error {
		l, err := r.Lease(t.Context(), "vast", "7")
		if l.EndsAt.Before(at.Add(24 * time.Hour)) {
			t.Errorf("it ends at %s", l.EndsAt)
		}
		return err
	})
}

// TestRestoreRefusesAlerts: a copy that takes no alerts is brought back all the same, and the restore says so.
func TestRestoreRefusesAlerts(t *testing.T) {
	h := newHouse(t)
	do := func(text string) {
		t.Helper()
		db, err := sql.Open("sqlite", filepath.Join(h.data, datadir.Database))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE TRIGGER shut BEFORE INSERT ON alerts BEGIN SELECT RAISE(ABORT, 'shut'); END")
	file := h.backup(false)
	do("DROP TRIGGER shut")
	at := time.Now().UTC().Truncate(time.Millisecond)
	one := alerts.Alert{ID: "al-1", Cause: "node_stale", Subject: "n", Since: at, FiredAt: at}
	h.with(func(s *store.Store, _ *artifact.Registry) {
		if err := alerts.New(s.Records()).Write(t.Context(), alerts.Change{Alerts: []alerts.Alert{one}}); err != nil {
			t.Fatal(err)
		}
	})
	if done, err := h.restore(h.data, file); err != nil || !done.AlertsAway {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestRestoreDamaged: a backup that is damaged or cut off changes nothing.
func TestRestoreDamaged(t *testing.T) {
	h := newHouse(t)
	h.put("one", "two")
	whole, err := os.ReadFile(h.backup(true))
	if err != nil {
		t.Fatal(err)
	}
	h.put("three")
	changed := bytes.Clone(whole)
	changed[bytes.LastIndex(changed, []byte("two"))] ^= 1
	lacking := h.without("two")
	for what, c := range map[string]struct {
		content []byte
		want    string
	}{
		"cut off":         {whole[:len(whole)-2000], "cut off"},
		"cut in a blob":   {whole[:bytes.LastIndex(whole, []byte("two"))+1], "cut off"},
		"a changed blob":  {changed, "damaged"},
		"a blob is left":  {lacking, "it lacks 1 blobs"},
		"something else":  {bytes.Repeat([]byte("x"), 4096), "muster backup did not make it"},
		"empty":           {nil, "cut off"},
		"another archive": {bytes.Replace(whole, []byte("muster.db"), []byte("master.db"), 1), "muster backup did not make it"},
	} {
		file := filepath.Join(t.TempDir(), "backup")
		if err := os.WriteFile(file, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.restore(h.data, file); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v, want %q", what, err, c.want)
		}
		if names := h.named(h.data); len(names) != 3 {
			t.Errorf("%s: the data have %q", what, names)
		}
		if left, _ := filepath.Glob(filepath.Join(h.data, "*restore-*")); len(left) > 0 {
			t.Errorf("%s: %q is left", what, left)
		}
	}
}

// without gives a backup that lacks one blob, and says nothing of that.
func (h house) without(text string) []byte {
	h.t.Helper()
	return h.copied(func(*archive.Writer, string) {}, text)
}

// copied gives a backup without one blob; lack is called for that.
func (h house) copied(lack func(*archive.Writer, string), text string) []byte {
	h.t.Helper()
	var out bytes.Buffer
	w := archive.NewWriter(&out, time.Now())
	file, err := os.Open(h.backup(true))
	if err != nil {
		h.t.Fatal(err)
	}
	defer file.Close()
	_, err = archive.Read(file, archive.Visitor{Database: w.Database, Blob: func(b archive.Blob, content io.Reader) error {
		if b.Digest == digest(text) {
			lack(w, b.Digest)
			return nil
		}
		return w.Add(b, content)
	}})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return out.Bytes()
}

const killedAt = "MUSTER_TEST_KILLED_AT"

// TestRestoreKilled kills the process at each step of a restore. Each time there is one database with all of its blobs, the old one or the
// new one, and the restore can be done again.
func TestRestoreKilled(t *testing.T) {
	if given := strings.Split(os.Getenv(killedAt), "\n"); len(given) == 4 {
		step := 0
		_, err := restore(t.Context(), given[0], given[1], given[2], func(disk.Step) error {
			if step++; fmt.Sprint(step) == given[3] {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	h := newHouse(t)
	h.put("one", "two", "both")
	file := h.backup(true)
	killed := 0
	for step := 1; ; step++ {
		data := filepath.Join(t.TempDir(), "data")
		before := newHouse(t)
		before.data = data
		if err := os.CopyFS(data, os.DirFS(h.data)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(data, 0o700); err != nil {
			t.Fatal(err)
		}
		before.put("old")
		run := exec.Command(os.Args[0], "-test.run=^TestRestoreKilled$")
		told := []string{data, file, filepath.Join(h.data, datadir.MasterKey), fmt.Sprint(step)}
		run.Env = append(os.Environ(), killedAt+"="+strings.Join(told, "\n"))
		out, err := run.CombinedOutput()
		names := h.named(data)
		if err == nil {
			if len(names) != 3 {
				t.Errorf("after a restore: %q", names)
			}
			break
		}
		if run.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("step %d: %v\n%s", step, err, out)
		}
		killed++
		if len(names) != 3 && len(names) != 4 {
			t.Errorf("killed at step %d: the database names %q", step, names)
		}
		if _, err := h.restore(data, file); err != nil || len(h.named(data)) != 3 {
			t.Errorf("again after step %d: %v", step, err)
		}
		if left, _ := filepath.Glob(filepath.Join(data, "restore-*")); len(left) > 0 {
			t.Errorf("after step %d, and again: %q is left", step, left)
		}
	}
	if killed < 10 {
		t.Errorf("killed at %d steps", killed)
	}
}
