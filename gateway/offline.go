package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"muster/agent/sign"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/datadir"
	"muster/store"
)

// serviceKey is where the service's master key is: root reads it there, the gateway itself is handed it by systemd.
const serviceKey = "/etc/muster/master.key"

// local is what the command line does on files of this machine, without a gateway.
func local(getenv func(string) string, say io.Writer) cli.Local {
	o := offline{getenv: getenv, say: say}
	return cli.Local{
		InitCA: o.initCA, RotateMaster: o.rotateMaster, ExportTrust: o.exportTrust, ImportTrust: o.importTrust, Restore: o.restore,
		NewRoot: func(dir, domain string) (string, error) { return authority.NewRootDir(dir, domain, nil) },
		SignIntermediate: func(dir, request, domain string) (string, error) {
			return authority.SignIntermediate(dir, request, domain, nil)
		},
		SignSet: func(file string, payload []byte) (sign.Envelope, error) {
			key, err := authority.ReadTrustKey(file)
			if err != nil {
				return sign.Envelope{}, err
			}
			return sign.Seal(key, sign.RoleTrust, payload), nil
		},
	}
}

// offline works on the data of a gateway that is stopped.
type offline struct {
	getenv func(string) string
	say    io.Writer
	root   string // stands before the service's paths; a test's machine
}

// site is a data directory that no gateway serves now.
type site struct {
	settings settings
	lock     *os.File
	store    *store.Store // nil until open
}

// settings are those of a data directory.
func (o offline) settings(data cli.DataFiles) settings {
	installed := datadir.Installed(o.root)
	s := settings{data: data.Data, masterKey: data.MasterKeyFile, root: o.root}
	s.service = installed != "" && datadir.Same(installed, data.Data)
	return s
}

// there refuses a directory without a database, before anything is made in it: a path that was mistyped is no new gateway.
func there(data cli.DataFiles) error {
	if _, err := os.Lstat(filepath.Join(data.Data, databaseFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil // another error is for whoever opens it
	}
	return fmt.Errorf("there is no database in %s: name the gateway's directory with --data", data.Data)
}

// enter takes the data directory's lock, and makes the directory where there is none.
func (o offline) enter(data cli.DataFiles) (*site, error) {
	s := &site{settings: o.settings(data)}
	fresh := !exists(data.Data)
	var err error
	if s.lock, err = datadir.Lock(data.Data); err != nil {
		return nil, s.settings.entering(err)
	}
	if fresh && s.settings.service {
		if err := ownByService(data.Data); err != nil {
			return nil, errors.Join(err, s.lock.Close())
		}
	}
	s.settings.findServiceKey()
	return s, nil
}

// entering says how to stop a gateway that runs.
func (s *settings) entering(err error) error {
	var served *datadir.ServedError
	switch {
	case !errors.As(err, &served):
		return err
	case s.service:
		return fmt.Errorf("the gateway has to be stopped for this, and it serves %s: systemctl stop muster", s.data)
	}
	return fmt.Errorf("the gateway has to be stopped for this, and it serves %s: stop that process", s.data)
}

// findServiceKey takes the service's key for the service's data. For other data it is tried only where they have lost their own, as
// after service uninstall: a key that does not open the database is refused. A new database never gets another gateway's key.
func (s *settings) findServiceKey() {
	key := filepath.Join(s.root, serviceKey)
	lost := exists(filepath.Join(s.data, databaseFile)) && !exists(filepath.Join(s.data, masterKeyName))
	if exists(key) && (s.service || lost) {
		s.serviceKey = key
	}
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
	return errors.Join(err, ownAll(s.settings.data), s.lock.Close())
}

// ownAll gives the files of a directory to its owner, where root has worked on what another user's service serves.
func ownAll(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			err = errors.Join(err, os.Lchown(filepath.Join(dir, entry.Name()), int(owner.Uid), int(owner.Gid)))
		}
	}
	return err
}

// open opens the database and the keys in it, which are made where there are none yet.
func (o offline) open(ctx context.Context, s *site, domain string) (*authority.Authority, error) {
	if err := s.settings.sameKey(o.getenv); err != nil {
		return nil, err
	}
	var err error
	if s.store, err = openStore(ctx, s.settings, o.getenv, o.say); err != nil {
		return nil, err
	}
	return authority.Open(ctx, authority.Config{Store: s.store, TrustDomain: domain})
}

// sameKey refuses to make the service's database under a key that the service will not have.
func (s *settings) sameKey(getenv func(string) string) error {
	service := filepath.Join(s.root, serviceKey)
	if !s.service || !exists(service) || exists(filepath.Join(s.data, databaseFile)) {
		return nil
	}
	want, err := readMasterKey(service)
	if err != nil {
		return err
	}
	place := s.keyPlace(getenv)
	got, err := masterKey(*s, getenv, io.Discard)
	if err != nil || bytes.Equal(got, want) {
		return err
	}
	return fmt.Errorf("the key in %s is not the one in %s, which the installed service uses for %s: leave the first one out",
		place, service, s.data)
}

// with runs something on the keys of a stopped gateway.
func (o offline) with(ctx context.Context, data cli.DataFiles, domain string, run func(*site, *authority.Authority) error) error {
	s, err := o.enter(data)
	if err != nil {
		return err
	}
	a, err := o.open(ctx, s, domain)
	if err == nil {
		err = run(s, a)
	}
	return errors.Join(err, s.leave())
}

// record notes what was done, and leaves nothing of a key that went in the database file.
func (s *site) record(ctx context.Context, kind string) error {
	event := store.Event{At: now(), Kind: kind, Actor: "operator:offline", Outcome: store.OutcomeOK, Security: true}
	return errors.Join(s.store.AddEvents(ctx, event), s.store.Scrub(ctx))
}

func (o offline) initCA(ctx context.Context, data cli.DataFiles, domain, rootOut string) (string, error) {
	var pin string
	err := o.with(ctx, data, domain, func(s *site, a *authority.Authority) error {
		roots := a.Roots()
		pin = authority.Pin(roots[len(roots)-1])
		if rootOut == "" {
			return nil
		}
		if err := a.ExportRoot(ctx, rootOut); err != nil {
			return err
		}
		return s.record(ctx, "ca.root_exported")
	})
	return pin, err
}

func (o offline) exportTrust(ctx context.Context, data cli.DataFiles, file string) error {
	if err := there(data); err != nil {
		return err
	}
	return o.with(ctx, data, "", func(s *site, a *authority.Authority) error {
		if err := a.ExportTrustKey(ctx, file); err != nil {
			return err
		}
		return s.record(ctx, "trust_key.exported")
	})
}

func (o offline) importTrust(ctx context.Context, data cli.DataFiles, file string) error {
	if err := there(data); err != nil {
		return err
	}
	return o.with(ctx, data, "", func(s *site, a *authority.Authority) error {
		if err := a.ImportTrustKey(ctx, file); err != nil {
			return err
		}
		return s.record(ctx, "trust_key.imported")
	})
}
