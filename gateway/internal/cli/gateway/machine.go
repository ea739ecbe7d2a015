package gateway

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// localURL is where this machine reaches a listener.
func localURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return "https://" + net.JoinHostPort(host, port)
}

func (s *service) at(path string) string { return filepath.Join(s.Root, path) }

func (s *service) exists(path string) bool {
	_, err := os.Lstat(s.at(path))
	return err == nil
}

// read gives nil when there is no such file, and an empty slice for an empty one: an empty key is an error, and a missing one is not.
func (s *service) read(path string) ([]byte, error) {
	raw, err := os.ReadFile(s.at(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if raw == nil && err == nil {
		raw = []byte{}
	}
	return raw, err
}

func (s *service) same(one, other string) bool {
	a, err := os.Stat(s.at(one))
	if err != nil {
		return false
	}
	b, err := os.Stat(s.at(other))
	return err == nil && os.SameFile(a, b)
}

// locked tells whether a gateway holds the lock of a data directory. To find out it takes the lock itself for a moment, where it is free.
func (s *service) locked(path string) bool {
	file, err := os.OpenFile(s.at(path), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

// write replaces a file as a whole, so that neither a reader nor a power cut finds half of it.
func (s *service) write(path string, content []byte, mode fs.FileMode) error {
	place := s.at(path)
	if err := s.Disk.MakeFolders(filepath.Dir(place), 0o755); err != nil {
		return err
	}
	return s.Disk.Replace(place, content, mode)
}

// remove removes a file for good; one that is not there is none to remove.
func (s *service) remove(path string) error {
	name := filepath.Base(path)
	if err := s.Disk.At("remove " + name); err != nil {
		return err
	}
	err := os.Remove(s.at(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Disk.SyncFolder("the folder of "+name, filepath.Dir(s.at(path)))
}
