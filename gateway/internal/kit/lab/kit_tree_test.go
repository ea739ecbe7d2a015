//go:build real

package lab

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// notTree are the directories without installed files: those that the kernel fills, and those in memory.
var notTree = [...]string{"/proc", "/sys", "/dev", "/run"}

// systemKeeps are the places where the system itself writes while it runs.
var systemKeeps = [...]string{"/var/backups", "/var/log", "/var/lib/systemd", "/var/cache", "/var/tmp"}

// Tree describes every file of the box outside the kernel's and the system's own places: mode, owner, size and content by
// path.
func (b *Box) Tree() map[string]string {
	b.lab.T.Helper()
	tree := map[string]string{}
	b.walk(func(path, real string, info fs.FileInfo) error {
		if under(path, systemKeeps[:]) {
			return nil
		}
		text, err := describe(real, info)
		tree[path] = text
		return err
	})
	return tree
}

func describe(real string, info fs.FileInfo) (string, error) {
	owner, _ := info.Sys().(*syscall.Stat_t)
	text := fmt.Sprintf("%s %d:%d", info.Mode(), owner.Uid, owner.Gid)
	switch {
	case info.Mode().IsRegular():
		content, err := os.ReadFile(real)
		return fmt.Sprintf("%s %d %x", text, len(content), sha256.Sum256(content)), err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(real)
		return text + " " + target, err
	}
	return text, nil
}

// Differences lists what is not the same in two trees, sorted.
func Differences(before, after map[string]string) []string {
	var lines []string
	for path, was := range before {
		if now, ok := after[path]; !ok {
			lines = append(lines, path+": gone")
		} else if now != was {
			lines = append(lines, path+": was "+was+", is "+now)
		}
	}
	for path, now := range after {
		if _, ok := before[path]; !ok {
			lines = append(lines, path+": new: "+now)
		}
	}
	slices.Sort(lines)
	return lines
}

// Holding lists the files of the box that match a pattern, with its logs and what is in memory, and the processes whose arguments
// or environment match it.
func (b *Box) Holding(pattern *regexp.Regexp) []string {
	b.lab.T.Helper()
	var found []string
	search := func(path, real string, info fs.FileInfo) error {
		var content []byte
		var err error
		if info.Mode().IsRegular() {
			content, err = os.ReadFile(real)
		}
		if pattern.Match(content) {
			found = append(found, path)
		}
		return err
	}
	b.walk(search)
	for _, dir := range []string{"/run", "/tmp", "/dev/shm"} {
		b.walkAt(fmt.Sprintf("/proc/%d/root%s", b.leader, dir), dir, search)
	}
	return append(found, processes(b.leader, "pid", pattern, "cmdline", "environ")...)
}

// walk visits every file on the box's disk.
func (b *Box) walk(visit func(path, real string, info fs.FileInfo) error) {
	b.lab.T.Helper()
	b.walkAt(strings.TrimSuffix(b.Path("/"), "/"), "", visit)
}

// walkAt visits every file under base, which the box knows as prefix. A file that goes away meanwhile does not count.
func (b *Box) walkAt(base, prefix string, visit func(path, real string, info fs.FileInfo) error) {
	b.lab.T.Helper()
	err := filepath.WalkDir(base, func(real string, d fs.DirEntry, err error) error {
		path := prefix + strings.TrimPrefix(real, base)
		if err == nil && prefix == "" && under(path, notTree[:]) {
			return fs.SkipDir
		}
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if err == nil {
			err = visit(path, real, info)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		b.lab.T.Fatal(err)
	}
}

func under(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}
