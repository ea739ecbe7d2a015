package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/gateway/internal/cluster"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/masterkey"
	"muster/gateway/internal/datadir/seen"
	"muster/store"
	"muster/store/instance"
)

// asideTime is the form of the time that ends the names of what a restore moves aside.
const asideTime = "20060102T150405.000"

// workPrefix begins the name of the directory in which a restore works.
const workPrefix = "restore-"

// Restore brings the data of a stopped gateway back from a backup. The copy is made ready beside the database, and the registry gets the
// backup's blobs. Then one rename puts the copy in its place. So at every moment there is one database, with all of its blobs. What was
// there before stays in a directory beside it. The backup itself is only read.
func (o Offline) Restore(ctx context.Context, r datadir.Restore) (datadir.Restored, error) {
	if err := o.restorable(r); err != nil {
		return datadir.Restored{}, err
	}
	if r.Shared.Store != "" {
		return o.restoreShared(ctx, r)
	}
	s, err := o.enter(r.Files)
	if err != nil {
		return datadir.Restored{}, err
	}
	done, err := s.restore(ctx, r)
	return done, errors.Join(err, s.leave())
}

// restorable refuses what cannot be restored. It comes before a directory is made for the data, because other commands would take an
// empty one for a gateway's.
func (o Offline) restorable(r datadir.Restore) error {
	backup, err := os.Open(r.File)
	if err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	if err := backup.Close(); err != nil || exists(r.Data) {
		return err
	}
	keys := o.source(r.Files)
	keys.ServiceKey = serviceKey(keys)
	return keyThere(keys)
}

// keyThere refuses if the file of the backup's key is missing.
func keyThere(keys masterkey.Source) error {
	file := keys.File()
	if file == "" || exists(file) {
		return nil
	}
	if keys.Service && keys.Named == "" {
		file = keys.InstalledKey()
	}
	const text = "there is no %s: a backup is of use only with the master key that it was sealed with; " +
		"put that key there, or add --master-key-file FILE: it was beside the old database, or in " + datadir.ServiceKey
	return fmt.Errorf(text, file)
}

// restore works under the lock. The order matters: until the rename of the copy, whatever fails leaves the database that was there.
func (s *site) restore(ctx context.Context, r datadir.Restore) (datadir.Restored, error) {
	data := s.keys.Data
	database := filepath.Join(data, datadir.Database)
	if err := s.free(r.Force, "restore into another --data"); err != nil {
		return datadir.Restored{}, err
	}
	if err := keyThere(s.keys); err != nil {
		return datadir.Restored{}, err
	}
	copied, remove, err := s.work()
	if err != nil {
		return datadir.Restored{}, err
	}
	defer remove()
	b, err := take(s.disk, r.File, copied)
	if err != nil {
		return datadir.Restored{}, fmt.Errorf("the backup %s cannot be used: %w", r.File, err)
	}
	key, err := s.keys.Key()
	if err != nil {
		return datadir.Restored{}, err
	}
	done, err := s.prepare(ctx, copied, key, r, b, database, func(copied *store.Store) error {
		return s.own(ctx, copied)
	})
	if err != nil {
		return done, err
	}
	at, err := s.place(copied, key, func() error { return b.place(s.disk, folderOf(data)) })
	done.Aside, done.KeyFile, done.KeyAside, done.KeyToName = at.aside, at.keyFile, at.keyAside, at.keyToName
	return done, err
}

// free refuses to replace a database without force.
func (s *site) free(force bool, other string) error {
	if force || !exists(filepath.Join(s.keys.Data, datadir.Database)) {
		return nil
	}
	return fmt.Errorf("there is a database in %s already: %s, or add --force, which moves that one aside", s.keys.Data, other)
}

// work makes a folder for a copy of a database in the data directory, after it has removed what was left of those before.
func (s *site) work() (copied string, remove func(), err error) {
	if s.lock != nil { // else it may be that of another command
		removeWork(s.keys.Data)
	}
	folder, err := os.MkdirTemp(s.keys.Data, workPrefix)
	return filepath.Join(folder, datadir.Database), func() { os.RemoveAll(folder) }, err
}

// own makes a copy the database of this directory alone.
func (s *site) own(ctx context.Context, copied *store.Store) error {
	if err := cluster.Strip(ctx, copied.Records()); err != nil {
		return err
	}
	return instance.New(copied.Records()).Fork(ctx, seen.Pulse(s.keys.Data))
}

// placed says where things are after place, as datadir.Restored does.
type placed struct{ aside, keyFile, keyAside, keyToName string }

// place puts a database that is complete, and its key, in the place of what is there. first does what must come before.
func (s *site) place(copied string, key []byte, first func() error) (at placed, err error) {
	if err := s.disk.SyncFolder("the database", copied); err != nil {
		return at, err
	}
	placeKey, err := s.prepareKey(key)
	if err != nil {
		return at, err
	}
	if err := first(); err != nil {
		return at, fmt.Errorf("the blobs of the registry: %w", err)
	}
	if at.aside, err = s.setAside(); err != nil {
		return at, err
	}
	if err := s.disk.Rename(copied, filepath.Join(s.keys.Data, datadir.Database)); err != nil {
		return at, err
	}
	if err := seen.Own(s.keys.Data); err != nil {
		return at, err
	}
	at.keyFile, at.keyAside, err = placeKey()
	at.keyToName = s.keyToName(key)
	return at, err
}

// removeWork removes what restores left that were killed: folders with nothing but a database, or with nothing.
func removeWork(data string) {
	left, _ := filepath.Glob(filepath.Join(data, workPrefix+"*"))
	for _, dir := range left {
		entries, err := os.ReadDir(dir)
		other := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), datadir.Database) })
		if err == nil && !other {
			os.RemoveAll(dir)
		}
	}
}

// prepareKey writes the key into a new file beside the one that the installed service reads, where the two keys differ. place then
// renames the new file over the old one. place comes last, after the database: where anything fails before it, the service still has
// its old database with the key that opens it.
func (s *site) prepareKey(key []byte) (place func() (file, aside string, err error), err error) {
	file := s.keys.InstalledKey()
	before, err := masterkey.Read(file)
	if !s.keys.Service || err == nil && bytes.Equal(before, key) {
		return func() (string, string, error) { return "", "", nil }, nil
	}
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	fresh := file + ".new"
	if err := s.keys.Write(fresh, key); err != nil {
		return nil, fmt.Errorf("the master key goes where the installed service reads it: %w", err)
	}
	return func() (string, string, error) {
		aside := ""
		if there {
			aside = file + ".before-restore-" + time.Now().UTC().Format(asideTime)
			if err := os.Link(file, aside); err != nil {
				return "", "", err
			}
		}
		return file, aside, s.disk.Rename(fresh, file)
	}, nil
}

// keyToName is the key's file where the gateway would not find it by itself.
func (s *site) keyToName(key []byte) string {
	own, err := masterkey.Read(filepath.Join(s.keys.Data, datadir.MasterKey))
	if s.keys.Service || s.keys.Named == "" && s.keys.ServiceKey == "" || err == nil && bytes.Equal(own, key) {
		return ""
	}
	return cmp.Or(s.keys.Named, s.keys.ServiceKey)
}

// setAside links the database, its log and the registry's blobs into a directory beside them. Then it removes the log from the data
// directory: it must not be read as the log of the database that comes. The old database stays in its place until the rename replaces it.
func (s *site) setAside() (string, error) {
	data := s.keys.Data
	log := [...]string{datadir.Database + logEnd, datadir.Database + "-shm"}
	all := append(log[:], datadir.Database)
	if !slices.ContainsFunc(all, func(name string) bool { return exists(filepath.Join(data, name)) }) {
		return "", nil
	}
	aside := filepath.Join(data, "before-restore-"+time.Now().UTC().Format(asideTime))
	if err := s.disk.MakeFolders(aside, 0o700); err != nil {
		return "", err
	}
	if err := keepBlobs(s.disk, folderOf(data), folderOf(aside)); err != nil {
		return "", err
	}
	for _, name := range all {
		if err := s.disk.At("link " + name); err != nil {
			return "", err
		}
		if err := os.Link(filepath.Join(data, name), filepath.Join(aside, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	if err := s.disk.SyncFolder("the old database", aside); err != nil {
		return "", err
	}
	for _, name := range log {
		if err := s.disk.At("remove " + name); err != nil {
			return "", err
		}
		if err := os.Remove(filepath.Join(data, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return aside, s.disk.SyncFolder("the data directory", data)
}
