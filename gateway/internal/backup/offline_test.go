package backup_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/backup"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/masterkey"
	"muster/store"
)

// estate is a machine with the service installed, in a directory of its own.
type estate struct {
	t       *testing.T
	root    string
	service string // the service's data directory
	env     map[string]string
}

func newEstate(t *testing.T) *estate {
	t.Helper()
	e := &estate{t: t, root: t.TempDir(), service: t.TempDir(), env: map[string]string{}}
	e.write("/etc/systemd/system/muster.service", "[Service]\n")
	e.write("/etc/muster/gateway.env", "MUSTER_DATA="+e.service+"\n")
	e.write(datadir.ServiceKey, aKey('s'))
	return e
}

func aKey(b byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) + "\n"
}

func (e *estate) write(path, text string) {
	e.t.Helper()
	path = filepath.Join(e.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		e.t.Fatal(err)
	}
}

func (e *estate) offline() backup.Offline {
	return backup.Offline{Getenv: func(name string) string { return e.env[name] }, Say: &strings.Builder{}, Root: e.root}
}

// init makes the CA in a directory, with a key that is named, or not.
func (e *estate) init(data, key string) error {
	_, err := e.offline().InitCA(e.t.Context(), datadir.Files{Data: data, MasterKeyFile: key}, "", "")
	return err
}

// TestRestoreLog: of a bare database of a gateway that was killed, what is in the log beside it counts, too. A log that lies in the directory
// without its database is not read as that of the one that comes.
func TestRestoreLog(t *testing.T) {
	e := newEstate(t)
	key := filepath.Join(e.root, datadir.ServiceKey)
	from, to, copied := t.TempDir(), t.TempDir(), t.TempDir()
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(data string) *store.Store {
		t.Helper()
		s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(data, datadir.Database), MasterKey: bytes.Repeat([]byte{'s'}, 32)})
		fatal(err)
		return s
	}
	fatal(e.init(from, key))
	s := open(from)
	fatal(s.SetMeta(t.Context(), store.MetaAliveAt, "1767225600000"))
	fatal(s.SetMeta(t.Context(), "newest", "here"))
	for _, end := range []string{"", "-wal"} {
		raw, err := os.ReadFile(filepath.Join(from, datadir.Database+end))
		fatal(err)
		fatal(os.WriteFile(filepath.Join(copied, datadir.Database+end), raw, 0o600))
		if end != "" {
			fatal(os.WriteFile(filepath.Join(to, datadir.Database+end), raw, 0o600))
		}
	}
	fatal(s.SetMeta(t.Context(), "newest", "later"))
	fatal(s.Close())
	_, err := e.offline().Restore(t.Context(), datadir.Restore{File: filepath.Join(copied, datadir.Database),
		Files: datadir.Files{Data: to, MasterKeyFile: key}})
	fatal(err)
	if left, err := os.Stat(filepath.Join(to, datadir.Database+"-wal")); err == nil && left.Size() > 0 {
		t.Error("the log that lay there is there still")
	}
	s = open(to)
	defer s.Close()
	if got, err := s.Meta(t.Context(), "newest"); err != nil || got != "here" {
		t.Errorf("the newest write: %q, %v", got, err)
	}
}

// TestMovedData: the keys of a database that is from before its gateway went to a shared store are not touched.
func TestMovedData(t *testing.T) {
	e := newEstate(t)
	data := t.TempDir()
	key := filepath.Join(e.root, datadir.ServiceKey)
	if err := e.init(data, key); err != nil {
		t.Fatal(err)
	}
	note := `{"instance":"A","pulse":1,"at":"2026-01-01T00:00:00Z","shared":{"instance":"B","fence":3,"pulse":9,"at":"2026-01-02T00:00:00Z"}}`
	if err := os.WriteFile(filepath.Join(data, "muster.seen"), []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	files := datadir.Files{Data: data, MasterKeyFile: key}
	_, rotated := e.offline().RotateMaster(t.Context(), files, datadir.SharedStore{}, "")
	for what, err := range map[string]error{
		"rotate": rotated,
		"export": e.offline().ExportTrust(t.Context(), files, filepath.Join(t.TempDir(), "trust.key")),
	} {
		if err == nil || !strings.Contains(err.Error(), "shares with others until 2026-01-02") {
			t.Errorf("%s: %v", what, err)
		}
	}
	e.opens(data, key)
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(data, datadir.Database), MasterKey: bytes.Repeat([]byte{'s'}, 32)})
	if err == nil {
		err = errors.Join(s.SetMeta(t.Context(), store.MetaAliveAt, "1767225600000"), s.Close())
	}
	if err == nil {
		_, err = e.offline().Restore(t.Context(), datadir.Restore{File: filepath.Join(data, datadir.Database), Files: files, Force: true})
	}
	if err == nil {
		_, err = e.offline().RotateMaster(t.Context(), files, datadir.SharedStore{}, filepath.Join(t.TempDir(), "new.key"))
	}
	if err != nil {
		t.Errorf("after a restore of what is there: %v", err)
	}
}

// opens expects that the key in a file is the one of the database.
func (e *estate) opens(data, file string) {
	e.t.Helper()
	key, err := masterkey.Read(file)
	if err != nil {
		e.t.Fatal(err)
	}
	opened, err := store.Open(e.t.Context(), store.Options{Path: filepath.Join(data, datadir.Database), MasterKey: key})
	if err != nil {
		e.t.Fatalf("the key in %s: %v", file, err)
	}
	opened.Close()
}

// refused expects an error that names all of these.
func (e *estate) refused(what string, err error, want ...string) {
	e.t.Helper()
	for _, text := range want {
		if err == nil || !strings.Contains(err.Error(), text) {
			e.t.Errorf("%s: %v, which does not say %q", what, err, text)
		}
	}
}

// TestKeyOfItsOwnData: a data directory is sealed with its own key and never with another gateway's; a key that is missing or wrong is
// named with the place where it was looked for.
func TestKeyOfItsOwnData(t *testing.T) {
	e := newEstate(t)
	other := filepath.Join(t.TempDir(), "other")
	own := filepath.Join(other, datadir.MasterKey)
	installed := filepath.Join(e.root, datadir.ServiceKey)
	if err := errors.Join(e.init(other, ""), e.init(e.service, "")); err != nil {
		t.Fatal(err)
	}
	e.opens(other, own)
	e.opens(e.service, installed)
	if there(filepath.Join(e.service, datadir.MasterKey)) {
		t.Error("the service's data got a second key")
	}
	e.env = map[string]string{"MUSTER_MASTER_KEY": strings.TrimSpace(aKey('x'))}
	e.refused("a variable for another gateway", e.init(other, ""), "in "+"MUSTER_MASTER_KEY"+" does not open "+other, "--master-key-file "+own)
	e.env = nil
	e.write("/away", aKey('a'))
	if err := os.Rename(own, filepath.Join(e.root, "kept")); err != nil {
		t.Fatal(err)
	}
	e.refused("its own key is lost", e.init(other, ""), "in "+installed+" does not open", "there is no "+own)
	e.refused("the wrong file", e.init(other, filepath.Join(e.root, "away")), "in "+filepath.Join(e.root, "away")+" does not open")
	if err := e.init(other, filepath.Join(e.root, "kept")); err != nil {
		t.Errorf("its own key, named: %v", err)
	}
	if err := os.Remove(installed); err != nil {
		t.Fatal(err)
	}
	lost := "looked for " + filepath.Join(e.service, datadir.MasterKey)
	e.refused("the service's key is lost", e.init(e.service, ""), lost, installed, "MUSTER_MASTER_KEY")
	e.env = map[string]string{"CREDENTIALS_DIRECTORY": "/run/credentials/x"}
	e.refused("no credential", e.init(other, ""), own, "/run/credentials/x/master.key")
}

// TestServiceKeyOfNewData: a new database of the service is not sealed with a key that the service will not have.
func TestServiceKeyOfNewData(t *testing.T) {
	e := newEstate(t)
	e.write("/mine", aKey('m'))
	mine := filepath.Join(e.root, "mine")
	e.refused("another key", e.init(e.service, mine), mine, filepath.Join(e.root, datadir.ServiceKey))
	if there(filepath.Join(e.service, datadir.Database)) {
		t.Error("a database was made")
	}
	e.refused("no key at all", e.init(e.service, mine+"x"), "no such file")
	e.write("/mine", aKey('s'))
	if err := e.init(e.service, mine); err != nil {
		t.Errorf("a copy of the same key: %v", err)
	}
}

// TestKeyAfterUninstall: data that the service has left behind are opened by the key that it has left behind.
func TestKeyAfterUninstall(t *testing.T) {
	e := newEstate(t)
	err := e.init(e.service, "")
	for _, path := range []string{"/etc/systemd/system/muster.service", "/etc/muster/gateway.env"} {
		err = errors.Join(err, os.Remove(filepath.Join(e.root, path)))
	}
	if err = errors.Join(err, e.init(e.service, "")); err != nil {
		t.Error(err)
	}
}

// TestServedData: a command that needs a stopped gateway says how to stop it.
func TestServedData(t *testing.T) {
	e := newEstate(t)
	other := t.TempDir()
	for data, want := range map[string]string{e.service: "systemctl stop muster", other: "stop that process"} {
		lock, err := datadir.Lock(data)
		if err != nil {
			t.Fatal(err)
		}
		e.refused(data, e.init(data, ""), "has to be stopped", want)
		lock.Close()
	}
	_, err := datadir.Lock("/sys/muster")
	e.refused("a place for nobody", err, "may not use the data directory /sys/muster")
}

// TestDataOfOthers: a directory with other things in it stays as it is, with its mode.
func TestDataOfOthers(t *testing.T) {
	e := newEstate(t)
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "www"), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	e.refused("ca init", e.init(dir, ""), dir+" is not the gateway's alone", "chmod 700 "+dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 || there(filepath.Join(dir, "muster.lock")) {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := errors.Join(os.Chmod(dir, 0o700), e.init(dir, "")); err != nil {
		t.Errorf("shut to others: %v", err)
	}
}

// TestMistypedData: a command for an existing gateway makes nothing if there is none. Otherwise a mistyped path would become a
// gateway's directory, with a trust key that no node knows.
func TestMistypedData(t *testing.T) {
	e := newEstate(t)
	settings := filepath.Join(e.root, "etc/muster/gateway.env")
	for name, c := range map[string]struct {
		run  func(backup.Offline, datadir.Files) error
		want string
	}{
		"key export": {func(o backup.Offline, d datadir.Files) error {
			return o.ExportTrust(t.Context(), d, filepath.Join(e.root, "trust.key"))
		}, "no database in "},
		"key import": {func(o backup.Offline, d datadir.Files) error { return o.ImportTrust(t.Context(), d, settings) }, "no database in "},
		"key rotate": {func(o backup.Offline, d datadir.Files) error {
			_, err := o.RotateMaster(t.Context(), d, datadir.SharedStore{}, "")
			return err
		}, "no database in "},
		"restore":          {func(o backup.Offline, d datadir.Files) error { return e.restore(d.Data, settings, "").err }, "there is no "},
		"restore, no file": {func(o backup.Offline, d datadir.Files) error { return e.restore(d.Data, "none", settings).err }, "the backup: "},
	} {
		data := filepath.Join(t.TempDir(), "mistyped")
		e.refused(name, c.run(e.offline(), datadir.Files{Data: data}), c.want)
		if there(data) {
			t.Errorf("%s: it made %s", name, data)
		}
	}
	if there(filepath.Join(e.root, "trust.key")) {
		t.Error("a trust key of no gateway was written")
	}
	_, err := datadir.Lock(filepath.Join(settings, "below"))
	e.refused("below a file", err, "the data directory: ")
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("it is said twice: %v", err)
	}
}

// TestRestoreKey: after a restore the service finds the key of the backup; without a service it is said which key has to be named.
func TestRestoreKey(t *testing.T) {
	file, kept := newBackup(t)
	e := newEstate(t)
	installed := filepath.Join(e.root, datadir.ServiceKey)
	wrong := "another master key than the one in " + installed
	e.refused("the key of another time", e.restore(e.service, file, "").err, wrong, "--master-key-file")
	done := e.restore(e.service, file, kept)
	if done.err != nil || done.KeyFile != installed || done.KeyToName != "" ||
		!strings.HasPrefix(done.KeyAside, installed+".before-restore-") {
		t.Fatalf("%+v", done)
	}
	e.opens(e.service, installed)
	if before, err := os.ReadFile(done.KeyAside); err != nil || string(before) != aKey('s') {
		t.Errorf("the key of before: %q, %v", before, err)
	}
	again := e.restore(e.service, file, "")
	if again.err != nil || again.KeyFile != "" || again.KeyAside != "" {
		t.Errorf("with the right key in its place: %+v", again)
	}
	if err := os.Remove(installed); err != nil {
		t.Fatal(err)
	}
	e.refused("no key", e.restore(e.service, file, "").err, "there is no "+installed)
	if fresh := e.restore(e.service, file, kept); fresh.err != nil || fresh.KeyFile != installed || fresh.KeyAside != "" {
		t.Errorf("with none in its place: %+v", fresh)
	}
	other := t.TempDir()
	if elsewhere := e.restore(other, file, kept); elsewhere.err != nil || elsewhere.KeyFile != "" || elsewhere.KeyToName != kept {
		t.Errorf("not the service's: %+v", elsewhere)
	}
}

type restored struct {
	datadir.Restored
	err error
}

func (e *estate) restore(data, file, key string) restored {
	files := datadir.Files{Data: data, MasterKeyFile: key}
	done, err := e.offline().Restore(e.t.Context(), datadir.Restore{Files: files, File: file, Force: true, AdoptFor: time.Hour})
	return restored{done, err}
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// backup makes a gateway's data, and gives a backup of them with the file of the master key.
func newBackup(t *testing.T) (file, key string) {
	t.Helper()
	data := t.TempDir()
	none := func(string) string { return "" }
	machine := backup.Offline{Getenv: none, Say: io.Discard, Root: t.TempDir()}
	if _, err := machine.InitCA(t.Context(), datadir.Files{Data: data}, "", ""); err != nil {
		t.Fatal(err)
	}
	opened, err := masterkey.Source{Data: data, Getenv: none, Say: io.Discard}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "backup.db")
	event := store.Event{At: time.Now(), Kind: "backup.made", Actor: "test", Outcome: store.OutcomeOK}
	if err := errors.Join(opened.NoteBackup(t.Context(), time.Now(), event), opened.Backup(t.Context(), file), opened.Close()); err != nil {
		t.Fatal(err)
	}
	return file, filepath.Join(data, datadir.MasterKey)
}
