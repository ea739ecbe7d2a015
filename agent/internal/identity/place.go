package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// MakePrivate closes a state directory to others. An empty one that was there before, such as a mounted volume, is taken over:
// root makes it its own, for the owner of a directory can put another program into it.
func MakePrivate(path string) error { return makePrivate(path, func() {}) }

// makePrivate calls looked when it has looked at the directory and changed nothing yet.
func makePrivate(path string, looked func()) error {
	mend, err := look(path)
	if err != nil || mend == nothing {
		return err
	}
	empty := Empty(path)
	looked()
	if mend == owner {
		err = os.Chown(path, os.Geteuid(), os.Getegid())
	}
	if err == nil {
		err = os.Chmod(path, 0o700)
	}
	if err == nil {
		mend, err = look(path)
	}
	if err == nil && empty && !Empty(path) {
		return fmt.Errorf("somebody else put files into state directory %s while it was taken over, and it is closed to others now: "+
			"see what they are, remove them, and do the same again", path)
	}
	if err == nil && mend == nothing {
		return nil
	}
	return errors.Join(fmt.Errorf("state directory %s cannot be closed to others, who could read the node's key there: give --state a "+
		"directory "+
		"on a file system that keeps owners and modes", path), err)
}

// CheckPrivate says why a directory will not do for a new identity, and changes nothing. One that is not there will be private.
// MakePrivate takes a little more: a closed directory of another user's, in which an agent may have been at work for long.
func CheckPrivate(path string) error {
	_, err := look(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if uid, foreign := foreignOwner(path); err == nil && foreign && !Empty(path) {
		return hasFiles(path, uid)
	}
	return err
}

// mending is what has to be mended of a directory.
type mending int

const (
	nothing mending = iota
	mode            // others may enter it
	owner           // it is somebody else's
)

// look judges a directory. One that holds other things than an agent's is not ours to close.
func look(path string) (mending, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nothing, explain(path, err)
	}
	uid, foreign := foreignOwner(path)
	open := info.Mode().Perm()&0o077 != 0
	if !foreign && !open {
		return nothing, nil
	}
	empty, ours, err := content(path)
	switch {
	case err != nil:
		return nothing, err
	case !empty && !open:
		return nothing, nil
	case !empty && !ours:
		return nothing, fmt.Errorf("state directory %s holds other files and others may enter it: give --state a directory of its own",
			path)
	case foreign && os.Geteuid() != 0:
		return nothing, fmt.Errorf("state directory %s belongs to another user (%d): let its owner give it to this one (chown), "+
			"or give --state a directory of its own", path, uid)
	case foreign && !empty:
		return nothing, hasFiles(path, uid)
	case foreign:
		return owner, nil
	}
	return mode, nil
}

// foreignOwner is who a directory belongs to, where that is not this user.
func foreignOwner(path string) (uid uint32, foreign bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return status.Uid, int(status.Uid) != os.Geteuid()
}

func hasFiles(path string, uid uint32) error {
	return fmt.Errorf("state directory %s belongs to another user (%d) and holds files, which that user can change: "+
		"give --state a directory of its own", path, uid)
}

// content tells a directory that is as good as empty from one that an agent wrote into.
func content(path string) (empty, ours bool, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, false, explain(path, err)
	}
	empty = true
	for _, entry := range entries {
		name := entry.Name()
		ours = ours || name == lockFile || name == identityFile
		empty = empty && passing(name)
	}
	return empty, ours, nil
}

// Empty reports whether a directory holds nothing but what comes with a new volume, and what install.sh runs from.
func Empty(path string) bool {
	empty, _, err := content(path)
	return err == nil && empty
}

func passing(name string) bool {
	return name == "lost+found" || strings.HasPrefix(name, ".muster-install.")
}
