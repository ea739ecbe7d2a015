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

// missing are the folders of a path that are not there, the outermost first.
func missing(path string) (folders []string) {
	for ; !isDirectory(path); path = filepath.Dir(path) {
		folders = append([]string{path}, folders...)
	}
	return folders
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
