package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/cli"
	"muster/store"
)

// restoreSets is how often the newest trust set is published again after a restore: more than a gateway is likely to have
// published since the backup, and nodes take no lower number than they know.
const restoreSets = 8

// asideTime ends the names of what a restore moves aside.
const asideTime = "20060102T150405.000"

// restore brings the data of a stopped gateway back from a backup. The copy is made ready beside the database and put in
// its place by one rename; what was there before stays in a directory beside it.
func (o offline) restore(ctx context.Context, r cli.Restore) (cli.Restored, error) {
	if err := o.restorable(r); err != nil {
		return cli.Restored{}, err
	}
	s, err := o.enter(r.DataFiles)
	if err != nil {
		return cli.Restored{}, err
	}
	done, err := o.restoreInto(ctx, s, r)
	return done, errors.Join(err, s.leave())
}

// restorable refuses what cannot be restored before a directory is made for it, which others would take for a gateway's.
func (o offline) restorable(r cli.Restore) error {
	backup, err := os.Open(r.File)
	if err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	if err := backup.Close(); err != nil || exists(r.Data) {
		return err
	}
	s := o.settings(r.DataFiles)
	s.findServiceKey()
	return o.keyThere(s)
}

// keyThere refuses where the file of the backup's key is missing.
func (o offline) keyThere(s settings) error {
	file := masterKeyFile(s, o.getenv)
	if file == "" || exists(file) {
		return nil
	}
	if s.service && s.masterKey == "" {
		file = filepath.Join(o.root, serviceKey)
	}
	const text = "there is no %s: a backup is of use only with the master key that it was sealed with; " +
		"put that key there, or name its file with --master-key-file"
	return fmt.Errorf(text, file)
}

func (o offline) restoreInto(ctx context.Context, s *site, r cli.Restore) (cli.Restored, error) {
	database := filepath.Join(s.settings.data, databaseFile)
	if exists(database) && !r.Force {
		return cli.Restored{}, fmt.Errorf("there is a database in %s already: restore into another --data, or add --force, which moves that one aside", s.settings.data)
	}
	if err := o.keyThere(s.settings); err != nil {
		return cli.Restored{}, err
	}
	work, err := os.MkdirTemp(s.settings.data, "restore-")
	if err != nil {
		return cli.Restored{}, err
	}
	defer os.RemoveAll(work)
	if err := copySynced(r.File, filepath.Join(work, databaseFile)); err != nil {
		return cli.Restored{}, err
	}
	key, err := masterKey(s.settings, o.getenv, o.say)
	if err != nil {
		return cli.Restored{}, err
	}
	done, err := o.prepare(ctx, s, work, key, r)
	if err != nil {
		return done, err
	}
	place, err := s.settings.prepareKey(key)
	if err != nil {
		return done, err
	}
	if done.Aside, err = setAside(s.settings.data); err != nil {
		return done, err
	}
	if err := renameSynced(filepath.Join(work, databaseFile), database); err != nil {
		return done, err
	}
	done.KeyFile, done.KeyAside, err = place()
	done.KeyToName = s.settings.keyToName(key)
	return done, err
}

// prepareKey writes the key beside the one that the installed service reads, where that is another one, and gives what puts it into
// its place: both have their time when the database has changed.
func (s *settings) prepareKey(key []byte) (place func() (file, aside string, err error), err error) {
	file := filepath.Join(s.root, serviceKey)
	before, err := readMasterKey(file)
	if !s.service || err == nil && bytes.Equal(before, key) {
		return func() (string, string, error) { return "", "", nil }, nil
	}
	there := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := writeKey(file+".new", key); err != nil {
		return nil, fmt.Errorf("the master key goes where the installed service reads it: %w", err)
	}
	return func() (string, string, error) {
		aside := ""
		if there {
			aside = file + ".before-restore-" + now().UTC().Format(asideTime)
			if err := os.Link(file, aside); err != nil {
				return "", "", err
			}
		}
		return file, aside, renameSynced(file+".new", file)
	}, nil
}

// keyToName is the key's file where the gateway would not find it by itself.
func (s *settings) keyToName(key []byte) string {
	own, err := readMasterKey(filepath.Join(s.data, masterKeyName))
	if s.service || s.masterKey == "" && s.serviceKey == "" || err == nil && bytes.Equal(own, key) {
		return ""
	}
	return cmp.Or(s.masterKey, s.serviceKey)
}

// prepare does on the copy what a restore has to: tokens end, the window opens, the sets' number grows.
func (o offline) prepare(ctx context.Context, s *site, work string, key []byte, r cli.Restore) (cli.Restored, error) {
	copied, err := store.Open(ctx, store.Options{Path: filepath.Join(work, databaseFile), MasterKey: key})
	if errors.Is(err, store.ErrWrongMasterKey) {
		err = fmt.Errorf("it was sealed with another master key than the one in %s: name the file of the right key with --master-key-file", s.settings.keyPlace(o.getenv))
	}
	if err != nil {
		return cli.Restored{}, fmt.Errorf("the backup %s cannot be used: %w", r.File, err)
	}
	done, err := note(ctx, copied, r)
	err = errors.Join(err, copied.Close())
	if err == nil && exists(filepath.Join(work, databaseFile+"-wal")) {
		err = errors.New("the copy could not be completed: try again")
	}
	return done, err
}

func note(ctx context.Context, s *store.Store, r cli.Restore) (cli.Restored, error) {
	at := now().UTC()
	made, err := s.BackupAt(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return cli.Restored{}, errors.New("muster backup did not make this file: it has no date in it")
	}
	if err != nil {
		return cli.Restored{}, err
	}
	var key ed25519.PrivateKey
	if r.TrustKeyFile != "" {
		if key, err = authority.ReadTrustKey(r.TrustKeyFile); err != nil {
			return cli.Restored{}, err
		}
	}
	a, err := authority.Open(ctx, authority.Config{Store: s})
	if err != nil {
		return cli.Restored{}, err
	}
	by := store.Actor{Name: "operator:offline"}
	done := cli.Restored{BackupAt: made, AdoptUntil: at.Add(r.AdoptFor)}
	err = a.Repeat(ctx, restoreSets, key, by)
	if done.TrustKeyAway = errors.Is(err, authority.ErrTrustKey); err != nil && !done.TrustKeyAway {
		return done, err
	}
	event := store.Event{At: at, Kind: "gateway.restored", Actor: by.Name, Outcome: store.OutcomeOK, Security: true,
		Detail: map[string]string{"backup": made.Format(time.RFC3339), "adopt_until": done.AdoptUntil.Format(time.RFC3339)}}
	return done, s.NoteRestore(ctx, store.Restoration{At: at, BackupAt: made, AdoptUntil: done.AdoptUntil}, event)
}

// copySynced makes a file that is on the disk when it returns.
func copySynced(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("the backup: %w", err)
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Sync(), target.Close())
}

// setAside links the database with its log into a directory beside it, and takes the log away, which belongs to no other
// database. The database itself stays in its place until another one takes it.
func setAside(data string) (string, error) {
	if !exists(filepath.Join(data, databaseFile)) {
		return "", nil
	}
	aside := filepath.Join(data, "before-restore-"+now().UTC().Format(asideTime))
	if err := os.Mkdir(aside, 0o700); err != nil {
		return "", err
	}
	for _, name := range [...]string{databaseFile, databaseFile + "-wal", databaseFile + "-shm"} {
		if err := os.Link(filepath.Join(data, name), filepath.Join(aside, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	if err := syncDirectory(aside); err != nil {
		return "", err
	}
	for _, name := range [...]string{databaseFile + "-wal", databaseFile + "-shm"} {
		if err := os.Remove(filepath.Join(data, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return aside, syncDirectory(data)
}
