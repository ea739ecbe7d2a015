// Package durable changes files so that a crash leaves either the state before or the one after. What a function has done is on the
// disk when it returns.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Create writes a file that must not be there yet.
func Create(path string, mode fs.FileMode, text []byte) error {
	return create(path, mode, func(file io.Writer) error {
		_, err := file.Write(text)
		return err
	})
}

// Copy makes a file that must not be there yet, for its owner alone.
func Copy(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return Fill(to, source)
}

// Fill makes a file that must not be there yet, for its owner alone, of what comes.
func Fill(path string, content io.Reader) error {
	return create(path, 0o600, func(file io.Writer) error {
		_, err := io.Copy(file, content)
		return err
	})
}

// create brings the content to the disk before the name: after a crash no name leads to half a file. It refuses a file that is there
// (O_EXCL), so that nobody's link is followed and no key is written over.
func create(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = fill(file)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(path))
}

// Rename moves a file within a directory, in the place of what has that name.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDirectory(filepath.Dir(to))
}

// SyncDirectory brings the names in a directory to the disk, as after links and removals.
func SyncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
