package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"muster/agent/wire"
	"muster/gateway/internal/paste"
)

// Check refuses a data directory that already belongs to something else. A gateway shuts its directory to all others (mode 0700), and
// a service takes over all files in it. With --data /srv that would hit every site of the machine.
func Check(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	foreign := ""
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == Database:
			return nil
		case !ofGateway(name):
			foreign = name
		}
	}
	if foreign == "" && info.Mode()&fs.ModeSticky == 0 || private(info) {
		return nil
	}
	what := "everybody may write there"
	if foreign != "" {
		what = fmt.Sprintf("%q is in it", foreign)
	}
	return &wire.ErrorDetail{
		Message: fmt.Sprintf("%s is not the gateway's alone: %s", dir, what),
		Hint: "name another directory with --data; if this one is for the gateway alone: chmod 700 " + paste.Quote(Absolute(dir)) +
			", and give the command again",
	}
}

// Exposed returns a warning if other users of the machine can read or change a file with a secret. It returns "" if the file is its owner's
// alone, or is not a plain file. The file is used all the same: it may be too late already.
func Exposed(file string) string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return fmt.Sprintf("others than its owner can read or change %s (mode %04o): make it belong to the user that reads it, with mode 0600, "+
		"and change the secret if somebody may have read it", file, info.Mode().Perm())
}

// WarnExposed logs the warnings of Exposed about files.
func WarnExposed(log *slog.Logger, files ...string) {
	for _, file := range files {
		if said := Exposed(file); said != "" {
			log.Warn(said)
		}
	}
}

// ofGateway tells whether a name is one that a gateway, its operator before the first start, or a file system leaves in a data
// directory.
func ofGateway(name string) bool {
	for _, prefix := range [...]string{"muster.", History, MasterKey, "restore-", "before-restore-", "backup-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == Registry || name == Recordings || name == Logs || name == "lost+found"
}

// Absolute returns a path that leads to the same file from every directory. If that cannot be found out, it returns the path unchanged.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// private tells whether a directory is shut to all but its owner, and its owner is this process's user or the service's.
func private(info fs.FileInfo) bool {
	owner, known := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm()&0o077 != 0 || !known {
		return false
	}
	u, err := user.LookupId(strconv.Itoa(int(owner.Uid)))
	return int(owner.Uid) == os.Geteuid() || err == nil && u.Username == ServiceUser
}
