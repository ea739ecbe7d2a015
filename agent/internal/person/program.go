package person

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"muster/agent/pipe"
)

// Program looks for a program as a shell does, on the path of its user. The exit codes are those of shells: 127 if it is not found, 126 if
// it cannot be run.
func Program(name, path, folder string) (file string, exit *pipe.Exit) {
	if strings.Contains(name, "/") {
		full := name
		if !filepath.IsAbs(name) {
			full = filepath.Join(folder, name)
		}
		if err := runnable(full); err != nil {
			return "", notFound(name, err)
		}
		return full, nil
	}
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, name)
		if filepath.IsAbs(dir) && runnable(full) == nil {
			return full, nil
		}
	}
	return "", notFound(name, fmt.Errorf("it is not on the path %s: %w", path, fs.ErrNotExist))
}

func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no file")
	case info.Mode()&0o111 == 0:
		return errors.New("it is no program: it lacks the permission to be run")
	}
	return nil
}

func notFound(name string, err error) *pipe.Exit {
	if errors.Is(err, fs.ErrNotExist) {
		return &pipe.Exit{Code: 127, Error: fmt.Sprintf("the node has no program %.200q: %v", name, err)}
	}
	return NotStarted(name, err)
}

// NotStarted returns the Exit of a program that exists, but that the kernel does not start.
func NotStarted(name string, err error) *pipe.Exit {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("what it needs to run is not there: the program that its first line names, or its loader")
	}
	return &pipe.Exit{Code: 126, Error: fmt.Sprintf("%.200q cannot be run on the node: %v", name, err)}
}
