// Package backup works on the data of a gateway that is stopped: it makes the CA, moves keys in and out, changes the master key, and
// brings a database back from a backup. Each piece of work holds the data directory's lock, so no gateway can run meanwhile.
package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/masterkey"
	"muster/gateway/internal/datadir/seen"
	"muster/store"
)

// actor stands in the events of what is done here.
const actor = "operator:offline"

// Offline is what the work needs from its process.
type Offline struct {
	Getenv func(string) string
	Say    io.Writer // is told of a master key that was made
	Root   string    // stands before the service's paths; a test's machine

	disk disk.Steps        // nil: nobody is told; for tests
	way  http.RoundTripper // to a shared store; nil: the network; for tests
}

// site is a data directory that no gateway serves now.
type site struct {
	keys  masterkey.Source
	lock  *os.File
	store *store.Store // nil until open
	disk  disk.Steps
	way   http.RoundTripper
}

// source says where the master key of a data directory can be.
func (o Offline) source(files datadir.Files) masterkey.Source {
	s := masterkey.Source{Data: files.Data, Named: files.MasterKeyFile, Root: o.Root, Getenv: o.Getenv, Say: o.Say, Disk: o.disk}
	installed := datadir.Installed(o.Root)
	s.Service = installed != "" && datadir.Same(installed, files.Data)
	return s
}

// there refuses a directory without a database, or whose gateway has used a shared store since, before anything is made in it.
func there(data string) error {
	if err := hasDatabase(data); err != nil {
		return err
	}
	return seen.Moved(data)
}

// hasDatabase refuses a directory without a database: a mistyped path must not become a new gateway.
func hasDatabase(data string) error {
	if _, err := os.Lstat(filepath.Join(data, datadir.Database)); !errors.Is(err, fs.ErrNotExist) {
		return nil // another error is for whoever opens it
	}
	return fmt.Errorf("there is no database in %s: name the gateway's directory with --data", data)
}

// enter takes the data directory's lock, and makes the directory if there is none.
func (o Offline) enter(files datadir.Files) (*site, error) {
	s := &site{keys: o.source(files), disk: o.disk, way: o.way}
	fresh := !exists(files.Data)
	var err error
	if s.lock, err = datadir.Lock(files.Data); err != nil {
		return nil, s.entering(err)
	}
	if fresh && s.keys.Service {
		if err := ownByService(files.Data); err != nil {
			return nil, errors.Join(err, s.lock.Close())
		}
	}
	s.keys.ServiceKey = serviceKey(s.keys)
	return s, nil
}

// runsError says that the directory's gateway runs.
type runsError struct{ text string }

func (e *runsError) Error() string { return e.text }

// entering says how to stop a gateway that runs.
func (s *site) entering(err error) error {
	var served *datadir.ServedError
	switch {
	case !errors.As(err, &served):
		return err
	case s.keys.Service:
		return &runsError{fmt.Sprintf("the gateway has to be stopped for this, and it serves %s: systemctl stop muster", s.keys.Data)}
	}
	return &runsError{fmt.Sprintf("the gateway has to be stopped for this, and it serves %s: stop that process", s.keys.Data)}
}

// serviceKey is the file of the service's key, where that may be the key of these data; else empty. For data that are not the service's
// it may be the key only if their own is gone, as after service uninstall. That does no harm: a key that does not open the database
// is refused. A new database never gets another gateway's key.
func serviceKey(s masterkey.Source) string {
	lost := exists(filepath.Join(s.Data, datadir.Database)) && !exists(filepath.Join(s.Data, datadir.MasterKey))
	if exists(s.InstalledKey()) && (s.Service || lost) {
		return s.InstalledKey()
	}
	return ""
}

// ownByService gives a directory to the service's user.
func ownByService(dir string) error {
	u, err := user.Lookup(datadir.ServiceUser)
	if err != nil {
		return err
	}
	uid, errUser := strconv.Atoi(u.Uid)
	gid, errGroup := strconv.Atoi(u.Gid)
	if err := errors.Join(errUser, errGroup); err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// leave closes the database, hands what was written to the data directory's owner, and gives the lock back.
func (s *site) leave() error {
	var err error
	if s.store != nil {
		err = s.store.Close()
	}
	if s.lock != nil {
		defer s.lock.Close()
	}
	return errors.Join(err, ownAll(s.keys.Data))
}

// ownAll gives the files of a directory, and the registry in it, to the directory's owner. Root may have made new ones, which the
// service's user has to read.
func ownAll(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == dir:
			return nil
		case entry.Type().IsRegular(), path == folderOf(dir), strings.HasPrefix(path, folderOf(dir)+"/") && entry.IsDir():
			return os.Lchown(path, int(owner.Uid), int(owner.Gid))
		case entry.IsDir():
			return fs.SkipDir
		}
		return nil
	})
}

// open opens the database and the keys in it, which are made if there are none yet.
func (s *site) open(ctx context.Context, domain string) (*authority.Authority, error) {
	if err := s.sameKey(); err != nil {
		return nil, err
	}
	var err error
	if s.store, err = s.keys.Open(ctx); err != nil {
		return nil, err
	}
	return authority.Open(ctx, authority.Config{Store: s.store, TrustDomain: domain})
}

// sameKey refuses to make the service's database under a key that the service will not have.
func (s *site) sameKey() error {
	service := s.keys.InstalledKey()
	if !s.keys.Service || !exists(service) || exists(filepath.Join(s.keys.Data, datadir.Database)) {
		return nil
	}
	want, err := masterkey.Read(service)
	if err != nil {
		return err
	}
	quiet := s.keys
	quiet.Say = io.Discard
	got, err := quiet.Key()
	if err != nil || bytes.Equal(got, want) {
		return err
	}
	return fmt.Errorf("the key in %s is not the one in %s, which the installed service uses for %s: leave the first one out",
		s.keys.Where(), service, s.keys.Data)
}

// with runs something on the keys of a stopped gateway. The lock is held until the database is closed again.
func (o Offline) with(ctx context.Context, files datadir.Files, domain string, run func(*site, *authority.Authority) error) error {
	s, err := o.enter(files)
	if err != nil {
		return err
	}
	a, err := s.open(ctx, domain)
	if err == nil {
		err = run(s, a)
	}
	return errors.Join(err, s.leave())
}

// record notes what was done, and leaves nothing of a key that went in the database file.
func (s *site) record(ctx context.Context, kind string) error {
	event := store.Event{At: time.Now(), Kind: kind, Actor: actor, Outcome: store.OutcomeOK, Security: true}
	return errors.Join(s.store.AddEvents(ctx, event), s.store.Scrub(ctx))
}
