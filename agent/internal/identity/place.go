package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// MakePrivate closes a state directory to other users. It takes over an empty directory that existed before, such as a mounted volume.
// Root becomes its owner then, because the owner of a directory can put another program into it.
func MakePrivate(path string) error { return makePrivate(path, func() {}) }

// makePrivate calls looked after it has looked at the directory and before it changes anything. A test changes the directory there.
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
	// The directory is closed now. What was put into it between the first look and the close cannot be trusted.
	if err == nil && empty && !Empty(path) {
		return fmt.Errorf("somebody else put files into state directory %s while it was taken over, and it is closed to others now: "+
			"see what they are, remove them, and do the same again", path)
	}
	if err == nil && mend == nothing {
		return nil
	}
	return errors.Join(fmt.Errorf("state directory %s cannot be closed to others, who could read the node's key there: "+
		"give --state a directory on a file system that keeps owners and modes", path), err)
}

// CheckPrivate says why a directory cannot hold a new identity, and changes nothing. A directory that does not exist is fine, because
// Open makes it private. MakePrivate accepts one thing more: a closed directory of another user that holds files. An agent may have
// been at work in it for long.
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

// mending is what has to be changed about a directory before it is private.
type mending int

const (
	nothing mending = iota
	mode            // others may enter it
	owner           // it belongs to another user
)

// look decides what has to be mended about a directory. It refuses to close one in which no agent was at work and which holds files:
// others may need them.
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

// foreignOwner is the owner of a directory, and whether that is another user than this one.
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

// hasFiles is the error for a directory whose files another user can change.
func hasFiles(path string, uid uint32) error {
	return fmt.Errorf("state directory %s belongs to another user (%d) and holds files, which that user can change: "+
		"give --state a directory of its own", path, uid)
}

// content reports whether a directory counts as empty (see Empty), and whether an agent has written into it.
func content(path string) (empty, ours bool, err error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return false, false, explain(path, err)
	}
	empty = true
	for _, entry := range entries {
		name := entry.Name()
		ours = ours || name == LockFile || name == identityFile
		empty = empty && ignored(name)
	}
	return empty, ours, nil
}

// Empty reports whether a directory holds nothing, or only what a new volume has and the folder that install.sh runs from.
func Empty(path string) bool {
	empty, _, err := content(path)
	return err == nil && empty
}

func ignored(name string) bool {
	return name == "lost+found" || strings.HasPrefix(name, InstallPrefix)
}
