package main

import (
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

// restore brings the data of a stopped gateway back from a backup. The copy is made ready beside the database and put in
// its place by one rename; what was there before stays in a directory beside it.
func (o offline) restore(ctx context.Context, r cli.Restore) (cli.Restored, error) {
	s, err := o.enter(r.DataFiles)
	if err != nil {
		return cli.Restored{}, err
	}
	done, err := o.restoreInto(ctx, s, r)
	return done, errors.Join(err, s.leave())
}

func (o offline) restoreInto(ctx context.Context, s *site, r cli.Restore) (cli.Restored, error) {
	database := filepath.Join(s.settings.data, databaseFile)
	if exists(database) && !r.Force {
		return cli.Restored{}, fmt.Errorf("there is a database in %s already: restore into another --data, or add --force, which moves that one aside", s.settings.data)
	}
	if file := masterKeyFile(s.settings, o.getenv); file != "" && !exists(file) {
		return cli.Restored{}, fmt.Errorf("a backup is of use only with the master key that it was sealed with: put that key into %s, or name its place with --master-key-file", file)
	}
	work, err := os.MkdirTemp(s.settings.data, "restore-")
	if err != nil {
		return cli.Restored{}, err
	}
	defer os.RemoveAll(work)
	if err := copySynced(r.File, filepath.Join(work, databaseFile)); err != nil {
		return cli.Restored{}, err
	}
	done, err := o.prepare(ctx, s, work, r)
	if err != nil {
		return done, err
	}
	if done.Aside, err = setAside(s.settings.data); err != nil {
		return done, err
	}
	return done, renameSynced(filepath.Join(work, databaseFile), database)
}

// prepare does on the copy what a restore has to: tokens end, the window opens, the sets' number grows.
func (o offline) prepare(ctx context.Context, s *site, work string, r cli.Restore) (cli.Restored, error) {
	key, err := masterKey(s.settings, o.getenv, o.say)
	if err != nil {
		return cli.Restored{}, err
	}
	copied, err := store.Open(ctx, store.Options{Path: filepath.Join(work, databaseFile), MasterKey: key})
	if errors.Is(err, store.ErrWrongMasterKey) {
		err = errors.New("the backup was sealed with another master key: name the one of that time with --master-key-file")
	}
	if err != nil {
		return cli.Restored{}, fmt.Errorf("the backup %s cannot be used: %w", r.File, err)
	}
	done, err := note(ctx, copied, r)
	err = errors.Join(err, copied.Close())
	if err == nil && exists(filepath.Join(work, databaseFile+"-wal")) {
		err = errors.New("the copy was not closed whole: try again")
	}
	return done, err
}

func note(ctx context.Context, s *store.Store, r cli.Restore) (cli.Restored, error) {
	at := now().UTC()
	made, err := s.BackupAt(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return cli.Restored{}, errors.New("this is not a copy that muster backup made: it does not say of when it is")
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
	event := store.Event{At: at, Kind: "gateway.restored", Actor: by.Name, Outcome: "ok", Security: true,
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
	aside := filepath.Join(data, "before-restore-"+now().UTC().Format("20060102T150405"))
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
