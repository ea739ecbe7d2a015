package masterkey

import (
	"context"
	"errors"
	"fmt"

	"muster/gateway/internal/paste"
	"muster/store"
)

// Open opens the database. If a change of the master key was cut off, the previous key still opens it: then Open finishes the change. If
// the key does not fit, the error wraps store.ErrWrongMasterKey; if the file is damaged, store.ErrDamaged.
func (s Source) Open(ctx context.Context) (*store.Store, error) {
	key, err := s.Key()
	if err != nil {
		return nil, err
	}
	o := store.Options{Path: s.database(), Cluster: s.Shared, MasterKey: key}
	opened, err := store.Open(ctx, o)
	if errors.Is(err, store.ErrDamaged) {
		return nil, fmt.Errorf("%w; bring it back from a backup: muster restore FILE --data %s --force, which keeps this file aside; "+
			"muster help lost-gateway says what else there is to know", err, paste.Quote(s.Data))
	}
	if !errors.Is(err, store.ErrWrongMasterKey) {
		return opened, err
	}
	if s.Shared != nil {
		return nil, s.WrongShared()
	}
	before, missing := Read(s.File() + oldSuffix)
	if missing != nil {
		return nil, s.wrongKey(ctx)
	}
	if err := reseal(ctx, o.Path, before, key); err != nil {
		return nil, err
	}
	fmt.Fprintln(s.Say, "finished a rotation of the master key that had been cut off")
	return store.Open(ctx, o)
}

// WrongShared returns the error for a key that does not open the store of several gateways.
func (s Source) WrongShared() error {
	return fmt.Errorf("%w: the key in %s is not that of the gateways that have used this store: name theirs with --master-key-file",
		store.ErrWrongMasterKey, s.place())
}

// wrongKey names the key that was tried, and the one that does open the database where it is at hand.
func (s Source) wrongKey(ctx context.Context) error {
	tried := s.place()
	next := "name the right key with --master-key-file"
	for _, file := range []string{s.own(), s.InstalledKey()} {
		key, err := Read(file)
		if err != nil || file == tried.file {
			continue
		}
		if s.Opens(ctx, key) {
			next = "it was sealed with the one in " + file + ": add --master-key-file " + file
			break
		}
	}
	missing := ""
	if own := s.own(); tried.file != own && s.Named == "" && !exists(own) {
		missing = " (there is no " + own + ")"
	}
	return fmt.Errorf("%w: the key in %s does not open %s%s; %s", store.ErrWrongMasterKey, tried, s.database(), missing, next)
}

// Opens reports whether a key opens the database. It opens the database to find out, so the caller must hold the data directory's lock.
func (s Source) Opens(ctx context.Context, key []byte) bool {
	opened, err := store.Open(ctx, store.Options{Path: s.database(), MasterKey: key})
	return err == nil && opened.Close() == nil
}

// reseal seals the database under another key, and leaves nothing in the file that the one before opens.
func reseal(ctx context.Context, path string, before, key []byte) error {
	s, err := store.Open(ctx, store.Options{Path: path, MasterKey: before})
	if err != nil {
		return err
	}
	if err := errors.Join(s.Reseal(ctx, key, rotatedEvent()), s.Close()); err != nil {
		return err
	}
	if s, err = store.Open(ctx, store.Options{Path: path, MasterKey: key}); err != nil {
		return err
	}
	return errors.Join(s.Scrub(ctx), s.Close())
}
