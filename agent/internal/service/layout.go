package service

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Names below a state directory.
const (
	versionsFolder = "versions"
	currentLink    = "current" // what runs
	goodLink       = "good"    // what was online last
	logName        = "agent.log"
	supervisorLog  = "supervisor.log"
)

// OwnProgram is the file of the program that runs, also where that file was deleted or replaced after the start.
const OwnProgram = "/proc/self/exe"

// Layout is where the builds of the agent are in a state directory: versions/<SHA-256 in hex>/muster-agent, and links to two of
// them. A build is complete or not there. A link changes in one step.
type Layout struct {
	Base string

	step func(string) // called before every change, so that a test can end the process there
}

// Program is the path by which the agent is started. It is the same for all versions.
func (l Layout) Program() string { return filepath.Join(l.Base, currentLink, Name) }

// Log is the agent's log file.
func (l Layout) Log() string { return filepath.Join(l.Base, logName) }

// SupervisorLog is the log file of the built-in supervisor.
func (l Layout) SupervisorLog() string { return filepath.Join(l.Base, supervisorLog) }

// Version is the path of the build with this digest.
func (l Layout) Version(digest string) string {
	return filepath.Join(l.Base, versionsFolder, digest, Name)
}

// Current is the digest of the build that is started, empty where there is none.
func (l Layout) Current() string { return l.target(currentLink) }

// Good is the digest of the build that was online last, empty where there is none.
func (l Layout) Good() string { return l.target(goodLink) }

// target is the digest that a link names, empty where the link or its build is missing or is not one of ours.
func (l Layout) target(link string) string {
	to, err := os.Readlink(filepath.Join(l.Base, link))
	digest, ok := strings.CutPrefix(to, versionsFolder+"/")
	if err != nil || !ok || !isDigest(digest) {
		return ""
	}
	if info, err := os.Stat(l.Version(digest)); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return digest
}

func isDigest(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(text) == text
}

// Digest is the SHA-256 of a file, in lower-case hex.
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
	l.at("folder")
	if _, err := makeDirectories(filepath.Dir(target), 0o755); err != nil {
		return "", err
	}
	if err := l.copy(source, target); err != nil {
		return "", err
	}
	l.at("verify")
	if there, err := Digest(target); err != nil || there != digest {
		return "", fmt.Errorf("%s does not read back as it was written: check this disk, or give --state a directory on another one", target)
	}
	return digest, nil
}

// copy writes beside the target and renames at the end, so that the target is complete or not there. The folder is synced last:
// without that the name could be lost with the power.
func (l Layout) copy(source, target string) (err error) {
	temporary := target + ".new"
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	l.at("open")
	to, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return explain(target, err)
	}
	defer func() {
		if err != nil {
			os.Remove(temporary)
			err = explain(target, err)
		}
	}()
	l.at("write")
	_, err = io.Copy(to, from)
	l.at("sync")
	if err == nil {
		err = errors.Join(to.Chmod(0o755), to.Sync())
	}
	if closed := to.Close(); err == nil {
		err = closed
	}
	l.at("rename")
	if err == nil {
		err = os.Rename(temporary, target)
	}
	l.at("sync folder")
	if err == nil {
		err = syncDirectory(filepath.Dir(target))
	}
	return err
}

// SetCurrent makes the build with this digest the one that is started from now on.
func (l Layout) SetCurrent(digest string) error { return l.link(currentLink, digest) }

// SetGood notes that the build with this digest was online.
func (l Layout) SetGood(digest string) error { return l.link(goodLink, digest) }

// link points a link at a build. It makes the new link beside the old one and renames it, so that there is always one.
func (l Layout) link(name, digest string) error {
	if _, err := os.Stat(l.Version(digest)); err != nil {
		return fmt.Errorf("no build %.12s... to point %s at: join again, which copies it: %w", digest, name, err)
	}
	if l.target(name) == digest {
		return nil
	}
	path := filepath.Join(l.Base, name)
	l.at(name + ": clear")
	if err := remove(path + ".new"); err != nil {
		return err
	}
	l.at(name + ": link")
	if err := os.Symlink(filepath.Join(versionsFolder, digest), path+".new"); err != nil {
		return explain(path, err)
	}
	l.at(name + ": rename")
	if err := os.Rename(path+".new", path); err != nil {
		os.Remove(path + ".new")
		return explain(path, err)
	}
	l.at(name + ": sync")
	return syncDirectory(l.Base)
}

// Prune removes the builds that no link points at, and what an interrupted copy left. Where no build is good yet, it removes
// nothing.
func (l Layout) Prune() error {
	current := l.Current()
	good := l.Good()
	if current == "" || good == "" {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(l.Base, versionsFolder))
	if err != nil {
		return err
	}
	var failed []error
	for _, entry := range entries {
		if name := entry.Name(); isDigest(name) && name != current && name != good {
			l.at("prune")
			failed = append(failed, os.RemoveAll(filepath.Join(l.Base, versionsFolder, name)))
		}
	}
	return errors.Join(failed...)
}

func (l Layout) at(step string) {
	if l.step != nil {
		l.step(step)
	}
}
