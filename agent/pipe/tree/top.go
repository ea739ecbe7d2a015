package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Owner says who owns the files that are written.
type Owner struct {
	UID int
	// Lock keeps every other copy away from a file or a folder until release.
	Lock func(*os.File) (release func(), err error)
}

// lock is Lock, with a release in any case.
func (o Owner) lock(file *os.File) (func(), error) {
	release, err := o.Lock(file)
	if err != nil {
		return func() {}, err
	}
	return release, nil
}

// Top is the folder that is written. A new folder is filled under another name beside its own, and gets its name when everything is there.
// So the same copy can continue in it, and does not take it for a folder that was there before.
type Top struct {
	Path  string // where it is, or will be
	owner Owner
	root  *os.Root
	fresh bool // it is a new one

	parent     *os.Root // of a new one
	part, name string   // in parent
	held       *os.File // the folder of a new one, locked
	ours       bool     // it is
	release    func()
}

// Open opens the folder that a copy goes to, as cp -r finds it: a path that is a folder gets the new folder in it, under this name. Without
// a name, what is in the new folder goes into the one that is there. A path that does not exist yet becomes the new folder. origin says
// where the copy comes from: what an earlier copy from elsewhere left does not come into a new folder.
func Open(path, name, origin string, owner Owner) (*Top, error) {
	t := &Top{Path: path, owner: owner, release: func() {}}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() && name != "" {
		t.Path = filepath.Join(path, name)
		info, err = os.Lstat(t.Path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.fresh = true
		err = t.begin(origin)
	case err != nil:
	case !info.IsDir():
		err = fmt.Errorf("%s is there and is no folder: %s", t.Path, place(info))
	default:
		err = t.enter(info)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// enter opens a folder that is there. Its path may have become a link since it was looked at.
func (t *Top) enter(seen fs.FileInfo) (err error) {
	if t.root, err = os.OpenRoot(t.Path); err != nil {
		return err
	}
	inside, err := t.root.Stat(".")
	if err == nil && !os.SameFile(inside, seen) {
		err = fmt.Errorf("%s has just become another folder: look at what is there, and copy again", t.Path)
	}
	return err
}

// begin opens the folder in which a new one gathers. While it waits for another copy, that one may end, and the folder have its name.
func (t *Top) begin(origin string) (err error) {
	folder, name := filepath.Split(strings.TrimRight(t.Path, "/"))
	if folder == "" {
		folder = "."
	}
	t.name, t.part = name, partName(name, origin)
	if t.parent, err = os.OpenRoot(folder); err != nil {
		return err
	}
	for {
		if t.ours, err = t.gather(); t.ours || err != nil {
			return err
		}
		t.let()
	}
}

// gather opens the folder, and makes sure that it belongs to this user and to no other copy.
func (t *Top) gather() (ours bool, err error) {
	if err := t.parent.Mkdir(t.part, ownerMay); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	if t.held, err = t.parent.OpenFile(t.part, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0); err != nil {
		return false, err
	}
	if t.root, err = t.parent.OpenRoot(t.part); err != nil {
		return false, err
	}
	held, err := t.held.Stat()
	if err != nil {
		return false, err
	}
	if status, known := held.Sys().(*syscall.Stat_t); !known || int(status.Uid) != t.owner.UID || !t.is(held) {
		return false, fmt.Errorf("%s is in the way, and is not a folder of this user: remove it", filepath.Join(filepath.Dir(t.Path), t.part))
	}
	if t.release, err = t.owner.lock(t.held); err != nil {
		return false, err
	}
	return t.is(held), nil
}

// is tells whether a folder is the one that is open, and has the name, which is no link.
func (t *Top) is(held fs.FileInfo) bool {
	named, missing := t.parent.Lstat(t.part)
	inside, err := t.root.Stat(".")
	return missing == nil && err == nil && os.SameFile(named, held) && os.SameFile(inside, held)
}

// finish gives a new folder its name.
func (t *Top) finish() error {
	if !t.fresh {
		return nil
	}
	err := t.parent.Rename(t.part, t.name)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("another copy, or another program, has made %s meanwhile: remove or rename that, and copy again", t.Path)
	}
	return err
}

// Close closes the folder. It removes a new folder that holds nothing.
func (t *Top) Close() {
	if t.ours {
		_ = t.parent.Remove(t.part) // it fails for one that holds something, or has its name
	}
	t.let()
	if t.parent != nil {
		t.parent.Close()
	}
}

func (t *Top) let() {
	t.release()
	t.release = func() {}
	if t.root != nil {
		t.root.Close()
	}
	if t.held != nil {
		t.held.Close()
	}
}
