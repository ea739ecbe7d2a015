package service

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"muster/agent/disk"
)

// replace is Replace of package disk with the next step in its error.
func (s System) replace(path string, content []byte, mode fs.FileMode) error {
	return explain(path, s.Disk.Replace(path, content, mode))
}

func (s System) syncDirectory(path string) error {
	return explain(path, s.Disk.SyncFolder("the folder "+filepath.Base(path), path))
}

// settlePaths puts on the disk what a tool of the system wrote.
func (s System) settlePaths(patterns ...string) {
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			_ = s.Disk.SyncFolder(filepath.Base(path), path) // a user may not open what another user owns
		}
	}
}

// makeDirectories makes a folder and the missing ones above it. It gives the folders that it made, the outermost first.
func (s System) makeDirectories(path string, mode fs.FileMode) (made []string, err error) {
	if isDirectory(path) {
		return nil, nil
	}
	if parent := filepath.Dir(path); parent != path {
		if made, err = s.makeDirectories(parent, mode); err != nil {
			return made, err
		}
	}
	if err := os.Mkdir(path, mode); err != nil {
		return made, explain(path, err)
	}
	return append(made, path), s.syncDirectory(filepath.Dir(path))
}

// remove deletes a file. It is no error where the file is gone already.
func (s System) remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explain(path, err)
	}
	return s.syncDirectory(filepath.Dir(path))
}

// explain adds to an error of the system's what a person can do about it.
func explain(path string, err error) error {
	if err == nil {
		return nil
	}
	step := cmp.Or(disk.NextStep(err), "see what is there")
	return fmt.Errorf("%s: %s: %w", path, step, err)
}
