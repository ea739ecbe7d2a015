//go:build real

package lab

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Archive gives a directory from which apt can install a Debian package on boxes with that root. It has the package, what the
// package depends on and the root lacks, and an index of both. It is fetched on first use, from the archives that this machine
// installs from, and kept for the next run.
func (l *Lab) Archive(root Root, name string) string {
	l.T.Helper()
	base := root.path(l)
	dir := base + "+" + name
	unlock, err := locked(dir)
	if err != nil {
		l.T.Fatal(err)
	}
	defer unlock()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		err = download(base, name, dir)
		if err != nil {
			l.T.Fatalf("%s and what it needs: %v", name, err)
		}
	}
	return dir
}

// download fills a directory beside the final one and renames it when it is whole.
func download(root, name, dir string) error {
	part := dir + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(filepath.Join(part, "partial"), 0o755)); err != nil {
		return err
	}
	out, err := exec.Command("apt-get", "--quiet", "--yes", "--no-install-recommends", "--download-only", "-o", "Debug::NoLocking=1",
		"-o", "Dir::State::status="+filepath.Join(root, "var/lib/dpkg/status"), "-o", "Dir::Cache::archives="+part,
		"install", name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get: %w\n%s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(part, "partial")); err != nil {
		return err
	}
	if err := Index(part); err != nil {
		return err
	}
	return os.Rename(part, dir)
}

// Index writes the file Packages for the packages in a directory. With the line "deb [trusted=yes] URL ./" apt then takes the
// directory for an archive.
func Index(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	var index strings.Builder
	for _, file := range files {
		control, err := exec.Command("dpkg-deb", "--field", file).Output()
		if err != nil {
			return fmt.Errorf("dpkg-deb: %s: %w", file, err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// The file's name may have the colon of an epoch as %3a, which its URL would turn into a colon again.
		plain := strings.ReplaceAll(filepath.Base(file), "%3a", "_")
		if err := os.Rename(file, filepath.Join(dir, plain)); err != nil {
			return err
		}
		fmt.Fprintf(&index, "%s\nFilename: ./%s\nSize: %d\nSHA256: %x\n\n", strings.TrimSpace(string(control)), plain, len(content),
			sha256.Sum256(content))
	}
	return os.WriteFile(filepath.Join(dir, "Packages"), []byte(index.String()), 0o644)
}

// Bind shows a directory of this machine at a path of the box. The box must not have started yet: it would not see a later mount.
func (b *Box) Bind(dir, path string) {
	b.lab.T.Helper()
	b.Write(path+"/.here", "", 0o600)
	b.lab.Run("mount", "--bind", dir, filepath.Join(b.dir, path))
}
