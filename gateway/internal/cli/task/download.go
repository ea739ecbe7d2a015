package task

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
)

// taskDownload gets the file that a task made. It is whole under its name, or not there.
func taskDownload(ctx context.Context, s *cli.Session, o struct{ Force bool }) error {
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	task, err := cli.Get[api.Task](ctx, s, api.At(api.PathTask, s.Words[0]), nil)
	if err != nil {
		return err
	}
	if task.Archive == nil {
		return cli.Hinted("task "+task.ID+" has made no file", "muster task show "+task.ID+" says what it did")
	}
	if len(s.Words) == 2 && s.Words[1] == "-" {
		return c.TaskArchive(ctx, task, s.Stdout)
	}
	name := fileName(task)
	if len(s.Words) == 2 {
		name = s.Words[1]
	}
	if err := saveArchive(ctx, c, task, name, o.Force); err != nil {
		return err
	}
	s.Printf("%s: %s, sha256 %s\n", name, screen.Plural(int(task.Archive.Size), "byte"), task.Archive.SHA256)
	return nil
}

// fileName is the name that the node gave the file, as long as it is a plain name: a node chooses no folder on this machine.
func fileName(task api.Task) string {
	name := task.Archive.Name
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." || name[0] == '.' || screen.Printable(name) != name {
		return "task-" + task.ID
	}
	return name
}

// saveArchive writes beside the file first. Without force it replaces nothing.
func saveArchive(ctx context.Context, c *client.Client, task api.Task, name string, force bool) error {
	if _, err := os.Lstat(name); err == nil && !force {
		return cli.Hinted(name+" is there already", "name another file, or add --force to replace it")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".muster-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = c.TaskArchive(ctx, task, f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
