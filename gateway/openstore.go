package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"muster/store"
)

// openStore opens the database. Where a rotation of the master key was cut off, the key before still opens it: then the
// rotation is brought to its end.
func openStore(ctx context.Context, s settings, getenv func(string) string, say io.Writer) (*store.Store, error) {
	key, err := masterKey(s, getenv, say)
	if err != nil {
		return nil, err
	}
	o := store.Options{Path: filepath.Join(s.data, databaseFile), MasterKey: key}
	opened, err := store.Open(ctx, o)
	if !errors.Is(err, store.ErrWrongMasterKey) {
		return opened, err
	}
	before, missing := readMasterKey(masterKeyFile(s, getenv) + oldSuffix)
	if missing != nil {
		return nil, wrongKey(ctx, s, getenv)
	}
	if err := reseal(ctx, o.Path, before, key); err != nil {
		return nil, err
	}
	fmt.Fprintln(say, "ended a rotation of the master key that had been cut off")
	return store.Open(ctx, o)
}

// wrongKey names the key that was tried, and the one that does open the database where it is at hand.
func wrongKey(ctx context.Context, s settings, getenv func(string) string) error {
	database, tried := filepath.Join(s.data, databaseFile), s.keyPlace(getenv)
	next := "name the right key with --master-key-file"
	for _, file := range []string{filepath.Join(s.data, masterKeyName), filepath.Join(s.root, serviceKey)} {
		key, err := readMasterKey(file)
		if err != nil || file == tried.file {
			continue
		}
		if opened, err := store.Open(ctx, store.Options{Path: database, MasterKey: key}); err == nil {
			next = "it was sealed with the one in " + file + ": add --master-key-file " + file
			_ = opened.Close() // it was only looked into
			break
		}
	}
	missing := ""
	if own := filepath.Join(s.data, masterKeyName); tried.file != own && s.masterKey == "" && !exists(own) {
		missing = " (there is no " + own + ")"
	}
	return fmt.Errorf("%w: the key in %s does not open %s%s; %s", store.ErrWrongMasterKey, tried, database, missing, next)
}

// reseal seals the database under another key, and leaves nothing in the file that the one before opens.
func reseal(ctx context.Context, path string, before, key []byte) error {
	s, err := store.Open(ctx, store.Options{Path: path, MasterKey: before})
	if err != nil {
		return err
	}
	event := store.Event{At: time.Now(), Kind: "master_key.rotated", Actor: "operator:offline", Outcome: store.OutcomeOK, Security: true}
	if err := errors.Join(s.Reseal(ctx, key, event), s.Close()); err != nil {
		return err
	}
	if s, err = store.Open(ctx, store.Options{Path: path, MasterKey: key}); err != nil {
		return err
	}
	return errors.Join(s.Scrub(ctx), s.Close())
}

// tidy removes copies of the database that a gateway before this one did not get to remove, and says whether certificates
// are being taken over after a restore.
func (g *gateway) tidy(ctx context.Context) {
	left, _ := filepath.Glob(filepath.Join(g.settings.data, "backup-*", databaseFile))
	for _, path := range left {
		os.RemoveAll(filepath.Dir(path))
	}
	if restored, err := g.store.Restoration(ctx); err == nil && time.Now().Before(restored.AdoptUntil) {
		g.log.Info("restored from a backup: certificates that were issued since are taken over", "backup", restored.BackupAt, "until", restored.AdoptUntil)
	}
}
