package masterkey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"muster/store"
)

// rotation puts another key in the place of the one that seals the database. After each of its steps one of two files opens the
// database: the key's own file, or the one beside it with oldSuffix. So Source.Open can go on from wherever a crash came.
type rotation struct {
	source   Source
	database string
	file     string
	before   []byte
	key      []byte
}

// step is one step of a rotation. A test ends the rotation after each of them, as a crash would.
type step struct {
	name string
	run  func(context.Context) error
}

func (r *rotation) steps() []step {
	fresh := r.file + ".new"
	old := r.file + oldSuffix
	return []step{
		{"write the new key", func(context.Context) error { return r.source.Write(fresh, r.key) }},
		{"keep the key before", func(context.Context) error {
			if err := r.source.Write(old+".new", r.before); err != nil {
				return err
			}
			return r.source.Disk.Rename(old+".new", old)
		}},
		{"put the new key in place", func(context.Context) error { return r.source.Disk.Rename(fresh, r.file) }},
		{"seal everything under it", func(ctx context.Context) error { return reseal(ctx, r.database, r.before, r.key) }},
		{"drop the key before", func(context.Context) error { return os.Remove(old) }},
	}
}

// Rotate seals the database of a stopped gateway under a new key. It returns the key's file: out if that is set, else the same file as
// before.
func (s Source) Rotate(ctx context.Context, out string) (string, error) {
	file := s.File()
	if file == "" && out == "" {
		return "", errors.New("the master key comes from the environment, which this cannot change: " +
			"have the new one written with --master-key-out FILE, and put it in its place")
	}
	before, err := s.Key()
	if err != nil {
		return "", err
	}
	if out != "" {
		return out, s.rotateInto(ctx, before, out)
	}
	opened, err := s.Open(ctx)
	if err != nil {
		return "", err
	}
	if err := opened.Close(); err != nil {
		return "", err
	}
	if old, err := Read(file + oldSuffix); err == nil && !bytes.Equal(old, before) {
		return file, os.Remove(file + oldSuffix) // a change was cut off, and Open has ended it where it had to
	}
	r := &rotation{source: s, database: s.database(), file: file, before: before, key: random()}
	for _, step := range r.steps() {
		if err := step.run(ctx); err != nil {
			return "", fmt.Errorf("%s: %w (nothing is lost: the same command goes on from here)", step.name, err)
		}
	}
	return file, nil
}

// rotateInto puts the new key into a file of its own.
func (s Source) rotateInto(ctx context.Context, before []byte, out string) error {
	key, err := s.keyIn(out)
	if err != nil || s.Opens(ctx, key) {
		return err
	}
	return reseal(ctx, s.database(), before, key)
}

// keyIn gives the new key in a file of its own. If that file is there, an earlier try wrote it and was cut off. Its key may be the only one
// that opens the database, so it is used and never replaced.
func (s Source) keyIn(out string) ([]byte, error) {
	if !exists(out) {
		if err := s.Disk.Create(out, 0o600, encode(random())); err != nil {
			return nil, err
		}
	}
	return Read(out)
}

// RotateShared seals the store of several gateways under a new key in the file out. Nobody else may use the store meanwhile. If the file
// exists, an earlier try wrote it, and RotateShared goes on from there.
func (s Source) RotateShared(ctx context.Context, out string) error {
	before, err := s.Key()
	if err != nil {
		return err
	}
	key, err := s.keyIn(out)
	if err != nil {
		return err
	}
	open := func(key []byte) (*store.Store, error) {
		return store.Open(ctx, store.Options{Cluster: s.Shared, Reads: true, MasterKey: key})
	}
	db, err := open(before)
	if errors.Is(err, store.ErrWrongMasterKey) {
		if _, err := open(key); err == nil {
			return nil // an earlier try came to its end
		}
		return s.WrongShared()
	}
	if err != nil {
		return err
	}
	return db.Reseal(ctx, key, rotatedEvent())
}

func rotatedEvent() store.Event {
	return store.Event{At: time.Now(), Kind: "master_key.rotated", Actor: "operator:offline", Outcome: store.OutcomeOK, Security: true}
}
