package account

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"muster/agent/disk"
)

// temporary is the name of a file that is being written. It lies beside the one that it will replace.
const temporary = ".muster.new"

// folder is an open directory. Its methods take names of entries and no paths, and follow no link.
type folder struct {
	file *os.File
	disk disk.Steps
}

func (f folder) close() { f.file.Close() }

func (f folder) fd() int { return int(f.file.Fd()) }

// folder opens a directory in this one.
func (f folder) folder(name string) (folder, error) {
	file, err := disk.OpenIn(f.file, name, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	return folder{file, f.disk}, err
}

// info says what the directory itself is.
func (f folder) info() (fs.FileInfo, error) { return f.file.Stat() }

// makeFolder makes a directory that only its owner may enter.
func (f folder) makeFolder(name string) error {
	if err := syscall.Mkdirat(f.fd(), name, 0o700); err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

// read gives a regular file. Anything else under the name counts as no file, and so does one that may not be read.
func (f folder) read(name string, most int) (text []byte, info fs.FileInfo, err error) {
	file, err := disk.OpenIn(f.file, name, syscall.O_RDONLY, 0)
	for _, none := range []error{fs.ErrNotExist, fs.ErrPermission, syscall.ELOOP, syscall.ENXIO} {
		if errors.Is(err, none) {
			return nil, nil, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err = file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil, err
	}
	text, err = io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s has more than %d bytes: shorten it", name, most)
	}
	return text, info, err
}

// replace writes a file beside the one of this name, and renames it. Who looks sees the old content or the new one.
func (f folder) replace(name string, content []byte, mode fs.FileMode) error {
	if err := f.remove(temporary); err != nil {
		return err
	}
	file, err := disk.OpenIn(f.file, temporary, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = errors.Join(file.Chmod(mode), f.disk.Sync(name, file))
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = syscall.Renameat(f.fd(), temporary, f.fd(), name)
	}
	if err != nil {
		return errors.Join(err, f.remove(temporary))
	}
	return f.disk.Sync("the folder of "+name, f.file)
}

// remove removes a file. It is no error if there is none.
func (f folder) remove(name string) error {
	err := syscall.Unlinkat(f.fd(), name)
	if err == nil || errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return &fs.PathError{Op: "remove", Path: name, Err: err}
}
