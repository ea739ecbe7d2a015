package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/gateway/internal/cli"
	"muster/store"
)

func now() time.Time { return time.Now() }

// masterRotation puts another key in the place of the one that seals the database. Between any two of its steps the file or
// the one beside it with oldSuffix opens the database, and openStore goes on from there.
type masterRotation struct {
	database string
	file     string
	before   []byte
	key      []byte
}

// step is one that a crash may come before or after.
type step struct {
	name string
	run  func(context.Context) error
}

func (m *masterRotation) steps() []step {
	return []step{
		{"write the new key", func(context.Context) error { return writeKey(m.file+".new", m.key) }},
		{"keep the key before", func(context.Context) error {
			if err := writeKey(m.file+oldSuffix+".new", m.before); err != nil {
				return err
			}
			return renameSynced(m.file+oldSuffix+".new", m.file+oldSuffix)
		}},
		{"put the new key in place", func(context.Context) error { return renameSynced(m.file+".new", m.file) }},
		{"seal everything under it", func(ctx context.Context) error { return reseal(ctx, m.database, m.before, m.key) }},
		{"drop the key before", func(context.Context) error { return os.Remove(m.file + oldSuffix) }},
	}
}

// writeKey replaces what an earlier try may have left.
func writeKey(path string, key []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return writeSynced(path, base64.StdEncoding.EncodeToString(key)+"\n")
}

func renameSynced(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(to))
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// rotateMaster seals the database of a stopped gateway under a new master key, in the place of the one before or, where
// that is not a file of ours to replace, in a new file.
func (o offline) rotateMaster(ctx context.Context, data cli.DataFiles, out string) (string, error) {
	if err := there(data); err != nil {
		return "", err
	}
	s, err := o.enter(data)
	if err != nil {
		return "", err
	}
	file, err := o.rotate(ctx, s, out)
	return file, errors.Join(err, s.leave())
}

func (o offline) rotate(ctx context.Context, s *site, out string) (string, error) {
	database := filepath.Join(s.settings.data, databaseFile)
	file := masterKeyFile(s.settings, o.getenv)
	if file == "" && out == "" {
		return "", errors.New("the master key comes from the environment, which this cannot change: have the new one written with --master-key-out FILE, and put it in its place")
	}
	key := make([]byte, masterKeySize)
	rand.Read(key)
	before, err := masterKey(s.settings, o.getenv, o.say)
	if err != nil {
		return "", err
	}
	if out != "" {
		return out, rotateInto(ctx, database, before, key, out)
	}
	opened, err := openStore(ctx, s.settings, o.getenv, o.say)
	if err != nil {
		return "", err
	}
	if err := opened.Close(); err != nil {
		return "", err
	}
	if old, err := readMasterKey(file + oldSuffix); err == nil && !bytes.Equal(old, before) {
		return file, os.Remove(file + oldSuffix) // a rotation was cut off, and openStore has ended it if need was
	}
	m := &masterRotation{database: database, file: file, before: before, key: key}
	for _, step := range m.steps() {
		if err := step.run(ctx); err != nil {
			return "", fmt.Errorf("%s: %w (nothing is lost: the same command goes on from here)", step.name, err)
		}
	}
	return file, nil
}

// rotateInto has the new key in a file of its own. One that is there was written by a try that was cut off: it may be the
// only one that opens the database.
func rotateInto(ctx context.Context, database string, before, key []byte, out string) error {
	if exists(out) {
		var err error
		if key, err = readMasterKey(out); err != nil {
			return err
		}
		if opened, err := store.Open(ctx, store.Options{Path: database, MasterKey: key}); err == nil {
			return opened.Close()
		}
	} else if err := errors.Join(writeSynced(out, base64.StdEncoding.EncodeToString(key)+"\n"), syncDirectory(filepath.Dir(out))); err != nil {
		return err
	}
	return reseal(ctx, database, before, key)
}
