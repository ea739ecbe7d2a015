// Package disk is the one way to the disk of what promises to outlive a loss of power. Both programs use it.
//
// A promise of that kind rests on two things: the bytes of a file are synced before its name is, and the name's folder is synced before
// anybody is told. Code that makes the promise holds Steps, so that a test can cut the power before each change and take away what was not
// synced (package disktest). Files without the promise (a status, a cache) need not be written by this package.
package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// temporary ends the name of a file that is being written. It lies beside the one that it will replace.
const temporary = ".new"

// Step is a change of the disk that is about to be made.
type Step struct {
	Name   string // such as "rename update.json"
	Synced string // the path of the file or folder that is synced now; empty: another change
}

// Steps is called before each step is made. An error from it ends the work there, as an error of the system would. nil: nobody is told.
type Steps func(Step) error

// At calls Steps for a step that syncs nothing.
func (s Steps) At(name string) error { return s.tell(Step{Name: name}) }

func (s Steps) tell(step Step) error {
	if s == nil {
		return nil
	}
	return s(step)
}

// Sync puts the content of an open file on the disk. Its name in the folder may still be lost. name is the step's name for Steps.
func (s Steps) Sync(name string, file *os.File) error {
	step := Step{Name: "sync " + name}
	if s != nil {
		// The file may have been opened within a folder that is held open, or renamed since: only the system knows its path.
		step.Synced, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
	}
	if err := s.tell(step); err != nil {
		return err
	}
	return file.Sync()
}

// SyncFolder puts the names in a folder on the disk, for example after a new file, a rename or a removal. name is the step's name for
// Steps.
func (s Steps) SyncFolder(name, path string) error {
	if err := s.tell(Step{Name: "sync " + name, Synced: path}); err != nil {
		return err
	}
	return Sync(path)
}

// Sync puts the content of a file, or the names in a folder, on the disk.
func Sync(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Replace writes a file. Readers see the old content or the new one, also after a crash. When Replace returns, the new content is on the
// disk. The file has exactly this mode, whatever the umask is. One caller at a time may replace a file.
func Replace(path string, content []byte, mode fs.FileMode) error {
	return Steps(nil).Replace(path, content, mode)
}

// Replace does what the function Replace does, and calls Steps before each step.
func (s Steps) Replace(path string, content []byte, mode fs.FileMode) error {
	return s.ReplaceFrom(path, bytes.NewReader(content), mode)
}

// ReplaceFrom does what Replace does, with the bytes of a reader.
func (s Steps) ReplaceFrom(path string, content io.Reader, mode fs.FileMode) error {
	name := filepath.Base(path)
	err := s.swap(path, content, mode, func(file *os.File) error {
		return errors.Join(file.Chmod(mode), s.Sync(name, file))
	})
	if err != nil {
		return err
	}
	return s.SyncFolder("the folder of "+name, filepath.Dir(path))
}

// ReplaceSoon does what Replace does, for a file that may be lost with the power. It does not wait for the disk, and the umask counts.
func ReplaceSoon(path string, content []byte, mode fs.FileMode) error {
	return Steps(nil).swap(path, bytes.NewReader(content), mode, func(*os.File) error { return nil })
}

// swap writes beside the file and renames. settle is called with all content written and before the rename. After a failure the old file
// stays, and nothing lies beside it.
func (s Steps) swap(path string, content io.Reader, mode fs.FileMode, settle func(*os.File) error) error {
	name := filepath.Base(path)
	if err := s.At("open " + name); err != nil {
		return err
	}
	file, err := os.OpenFile(path+temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if err = s.At("write " + name); err == nil {
		_, err = io.Copy(file, content)
	}
	if err == nil {
		err = settle(file)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = s.At("rename " + name)
	}
	if err == nil {
		err = os.Rename(path+temporary, path)
	}
	if err != nil {
		os.Remove(path + temporary)
	}
	return err
}

// Create writes a file that must not be there yet. When it returns, the file is on the disk.
func (s Steps) Create(path string, mode fs.FileMode, content []byte) error {
	return s.create(path, mode, func(file io.Writer) error {
		_, err := file.Write(content)
		return err
	})
}

// Copy makes a file that must not be there yet, for its owner alone. When it returns, the file is on the disk.
func (s Steps) Copy(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return s.Fill(to, source)
}

// Fill makes a file from the bytes of a reader. The file must not be there yet, and is for its owner alone. When Fill returns, the file is
// on the disk.
func (s Steps) Fill(path string, content io.Reader) error {
	return s.create(path, 0o600, func(file io.Writer) error {
		_, err := io.Copy(file, content)
		return err
	})
}

// create writes beside the name and links: the name is there with all of the content, or not at all. It refuses a file that is there, so
// that nobody's link is followed and no key is written over.
func (s Steps) create(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	beside := path + temporary
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) { // a try that was cut off left it
		return err
	}
	name := filepath.Base(path)
	if err := s.At("create " + name); err != nil {
		return err
	}
	file, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer os.Remove(beside)
	if err = s.At("write " + name); err == nil {
		err = fill(file)
	}
	if err == nil {
		err = s.Sync(name, file)
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = s.At("link " + name)
	}
	if err == nil {
		err = os.Link(beside, path)
	}
	if err == nil {
		err = os.Remove(beside)
	}
	if err != nil {
		return err
	}
	return s.SyncFolder("the folder of "+name, filepath.Dir(path))
}

// Rename gives a file another name in its folder, and replaces a file that has that name. When it returns, the new name is on the disk.
func (s Steps) Rename(from, to string) error {
	name := filepath.Base(to)
	if err := s.At("rename " + name); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return s.SyncFolder("the folder of "+name, filepath.Dir(to))
}

// MakeFolders makes a folder and the missing ones above it. When it returns, their names are on the disk.
func (s Steps) MakeFolders(path string, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := s.MakeFolders(parent, mode); err != nil {
			return err
		}
	}
	name := filepath.Base(path)
	if err := s.At("make " + name); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return s.SyncFolder("the folder of "+name, parent)
}

// OpenIn opens an entry of a folder that is held open. It follows no link, and no pipe or device holds it up.
func OpenIn(folder *os.File, name string, flags int, mode uint32) (*os.File, error) {
	const always = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	for {
		fd, err := syscall.Openat(int(folder.Fd()), name, flags|always, mode)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: filepath.Join(folder.Name(), name), Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}
