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
		return nil, fmt.Errorf("%w (if a rotation of the key was cut off, muster key rotate --master ends it)", err)
	}
	if err := reseal(ctx, o.Path, before, key); err != nil {
		return nil, err
	}
	fmt.Fprintln(say, "ended a rotation of the master key that had been cut off")
	return store.Open(ctx, o)
}

// reseal seals the database under another key, and leaves nothing in the file that the one before opens.
func reseal(ctx context.Context, path string, before, key []byte) error {
	s, err := store.Open(ctx, store.Options{Path: path, MasterKey: before})
	if err != nil {
		return err
	}
	event := store.Event{At: time.Now(), Kind: "master_key.rotated", Actor: "operator:offline", Outcome: "ok", Security: true}
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
