package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"muster/agent/disk"
	"muster/agent/internal/child"
)

// Names below a state directory.
const (
	versionsFolder = "versions"
	currentLink    = "current" // what runs
	goodLink       = "good"    // what was online last
	backLink       = "back"    // made beside current before it changes, so that the way back needs no room on the disk
	beforeLink     = "before"  // what was good before the last commit: the link back, renamed
	arrivalEnd     = ".arriving"
	logName        = "agent.log"
	supervisorLog  = "supervisor.log"

	// ShippingFolder has the lines of logs that were not sent yet.
	ShippingFolder = "shipping"
)

// UpdateFile is the record of package update in a state directory, which leave removes.
const UpdateFile = "update.json"

// FloorsFile is the second copy of the numbers in UpdateFile, which leave removes too.
const FloorsFile = "floors.json"

// OwnProgram is the file of the program that runs, also if that file was deleted or replaced after the start.
const OwnProgram = "/proc/self/exe"

// Layout has the paths of the agent's builds in a state directory: versions/<SHA-256 in hex>/muster-agent, and links to some of them. A
// build is complete or not there. A link changes in one step.
type Layout struct {
	Base  string
	Steps disk.Steps
}

// Program returns the path by which the agent is started. It is the same for all versions.
func (l Layout) Program() string { return filepath.Join(l.Base, currentLink, Name) }

// GoodProgram returns the path of the last good version. The decision about the version that is started is made by this program.
func (l Layout) GoodProgram() string { return filepath.Join(l.Base, goodLink, Name) }

// keeping is the program that keeps the agent: the last good version, or the one that is started if none is good yet.
func (l Layout) keeping() string {
	if l.Good() == "" {
		return l.Program()
	}
	return l.GoodProgram()
}

// Log returns the agent's log file.
func (l Layout) Log() string { return filepath.Join(l.Base, logName) }

// LastWords returns the file with what the agent wrote to its standard error since the built-in supervisor has started it.
func (l Layout) LastWords() string { return filepath.Join(l.Base, lastWords) }

// Arrival returns the path of a file with this digest while it is downloaded. It need not be a program.
func (l Layout) Arrival(digest string) string {
	return filepath.Join(l.Base, versionsFolder, digest+arrivalEnd)
}

// SupervisorLog returns the log file of the built-in supervisor.
func (l Layout) SupervisorLog() string { return filepath.Join(l.Base, supervisorLog) }

// Version returns the path of the build with this digest.
func (l Layout) Version(digest string) string {
	return filepath.Join(l.Base, versionsFolder, digest, Name)
}

// Current returns the digest of the build that is started, empty if there is none.
func (l Layout) Current() string { return l.target(currentLink) }

// Good returns the digest of the build that was online last, empty if there is none.
func (l Layout) Good() string { return l.target(goodLink) }

// Holds reports whether there is a build that can be started, or that can be made the current one.
func (l Layout) Holds() bool { return l.Current() != "" || l.Good() != "" }

// target is the digest that a link names, empty if the link or its build is missing or is not one of ours.
func (l Layout) target(link string) string {
	to, err := os.Readlink(filepath.Join(l.Base, link))
	digest, ok := strings.CutPrefix(to, versionsFolder+"/")
	if err != nil || !ok || !IsDigest(digest) {
		return ""
	}
	if info, err := os.Stat(l.Version(digest)); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return digest
}

// IsDigest reports whether a text is a SHA-256 in lower-case hex, and so names no other place in a path.
func IsDigest(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(text) == text
}

// Digest returns the SHA-256 of a file, in lower-case hex.
func Digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Install copies a build into its place and returns its digest. It leaves a complete copy alone, and replaces a damaged one. It changes
// no link: SetCurrent does, after the build has been tried.
func (l Layout) Install(source string) (string, error) {
	digest, err := Digest(source)
	if err != nil {
		return "", fmt.Errorf("read the program: %w", err)
	}
	target := l.Version(digest)
	if there, err := Digest(target); err == nil && there == digest {
		return digest, explain(target, os.Chmod(target, 0o755))
	}
	if err := l.Steps.MakeFolders(filepath.Dir(target), 0o755); err != nil {
		return "", explain(target, err)
	}
	from, err := os.Open(source)
	if err != nil {
		return "", err
	}
	defer from.Close()
	if err := l.Steps.ReplaceFrom(target, from, 0o755); err != nil {
		return "", explain(target, err)
	}
	if there, err := Digest(target); err != nil || there != digest {
		return "", fmt.Errorf("%s does not read back as it was written: check this disk, or give --state a directory on another one", target)
	}
	return digest, nil
}

// Try runs the program at a path once, and returns what it wrote. It asks the program for its version.
func Try(ctx context.Context, path string) (said string, err error) {
	out := child.Bounded{Most: 4 << 10}
	err = child.Run(ctx, child.Command{Program: path, Args: []string{"version"}, Dir: "/", Stdout: &out, Stderr: &out, Kill: true})
	return string(out.Kept), err
}

// SetCurrent makes the build with this digest the one that is started from now on.
func (l Layout) SetCurrent(digest string) error { return l.link(currentLink, digest) }

// SetGood notes that the build with this digest was online.
func (l Layout) SetGood(digest string) error { return l.link(goodLink, digest) }

// PrepareBack makes the link by which GoBack returns to the build with this digest.
func (l Layout) PrepareBack(digest string) error { return l.link(backLink, digest) }

// KeepBefore keeps the build of PrepareBack on the disk after another build has become good, until KeepBefore is called again.
func (l Layout) KeepBefore() error {
	if l.target(backLink) == "" || l.target(backLink) == l.Good() {
		return nil
	}
	return l.rename(backLink, beforeLink)
}

// GoBack makes the build with this digest current. After PrepareBack or KeepBefore it takes no room on the disk.
func (l Layout) GoBack(digest string) error {
	for _, way := range []string{backLink, beforeLink} {
		if l.target(way) == digest {
			return l.rename(way, currentLink)
		}
	}
	return l.SetCurrent(digest)
}

// rename gives a link another name. It takes no room on the disk.
func (l Layout) rename(from, to string) error {
	if err := l.Steps.At("rename " + from); err != nil {
		return err
	}
	path := filepath.Join(l.Base, to)
	if err := os.Rename(filepath.Join(l.Base, from), path); err != nil {
		return explain(path, err)
	}
	return explain(l.Base, l.Steps.SyncFolder(from, l.Base))
}

// link points a link at a build. It makes the new link beside the old one and renames it, so that there is always one.
func (l Layout) link(name, digest string) error {
	if _, err := os.Stat(l.Version(digest)); err != nil {
		return fmt.Errorf("no build %.12s... to point %s at: join again, which copies it: %w", digest, name, err)
	}
	if l.target(name) == digest {
		return nil
	}
	path := filepath.Join(l.Base, name)
	if err := l.Steps.At("clear " + name); err != nil {
		return err
	}
	if err := (System{Disk: l.Steps}).remove(path + ".new"); err != nil {
		return err
	}
	if err := l.Steps.At("make " + name); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(versionsFolder, digest), path+".new"); err != nil {
		return explain(path, err)
	}
	err := l.Steps.At("rename " + name)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		os.Remove(path + ".new")
		return explain(path, err)
	}
	return explain(l.Base, l.Steps.SyncFolder(name, l.Base))
}

// Prune removes the builds that no link points at, and what an interrupted copy left. If no build is good yet, it removes nothing. It
// never removes the program of this process, whatever the links say. While another process has the SettleLock, it removes nothing: that one
// may have copied a build which no link points at yet.
func (l Layout) Prune() error {
	once, cancel := context.WithCancel(context.Background())
	cancel()
	free, err := SettleLock(once, l.Base)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil
	case err == nil:
		defer free()
	} // else nobody can have it: on a full disk, say, where this makes room
	needed := []string{l.Current(), l.Good(), l.target(backLink), l.target(beforeLink)}
	if needed[0] == "" || needed[1] == "" {
		return nil
	}
	return l.sweep("remove a build", func(name string) bool {
		return IsDigest(name) && !slices.Contains(needed, name) && !l.isOwn(name)
	})
}

// PruneArrivals removes downloaded files, except the file with this digest.
func (l Layout) PruneArrivals(but string) error {
	return l.sweep("remove an arrival", func(name string) bool {
		digest, found := strings.CutSuffix(name, arrivalEnd)
		return found && digest != but
	})
}

// sweep removes what goes from the folder of the builds.
func (l Layout) sweep(step string, goes func(name string) bool) error {
	entries, err := os.ReadDir(filepath.Join(l.Base, versionsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	failed := []error{err}
	for _, entry := range entries {
		if !goes(entry.Name()) {
			continue
		}
		if err := l.Steps.At(step); err != nil {
			return err
		}
		failed = append(failed, os.RemoveAll(filepath.Join(l.Base, versionsFolder, entry.Name())))
	}
	return errors.Join(failed...)
}

// isOwn reports whether this process runs the build with this digest.
func (l Layout) isOwn(digest string) bool {
	own, err := os.Stat(OwnProgram)
	if err != nil {
		return false
	}
	build, err := os.Stat(l.Version(digest))
	return err == nil && os.SameFile(own, build)
}
