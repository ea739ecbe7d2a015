package account

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

const (
	keysFolder = ".ssh"
	keysFile   = "authorized_keys"

	olderKeysFile = "authorized_keys2" // sshd reads it too unless it is told otherwise

	// keysHead stands above the keys of muster, for the user.
	keysHead = "# The keys below are muster's. Its task provision_user replaces them.\n"

	maxKeys = 1 << 20 // bytes of an authorized_keys that is read
)

// keyBlob is the key itself in a line of authorized_keys: what stays where type, options and comment are taken away. The params of a task
// have no options.
func keyBlob(line string) string { return strings.Fields(line)[1] }

// mergeKeys gives the content of authorized_keys. Lines with one of the keys that muster has written go, wherever they stand and whatever
// stands around the key. The user's other lines stay as they are, and in front. Then come the keys that were asked for.
func mergeKeys(old []byte, ours, keys []string) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(old) {
		if string(line) == keysHead || holdsAny(line, ours) {
			continue
		}
		out.Write(bytes.TrimSuffix(line, []byte("\n")))
		out.WriteByte('\n')
	}
	seen := map[string]bool{}
	for _, line := range keys {
		if len(seen) == 0 {
			out.WriteString(keysHead)
		}
		if blob := keyBlob(line); !seen[blob] {
			seen[blob] = true
			out.WriteString(strings.TrimSpace(line) + "\n")
		}
	}
	return out.Bytes()
}

func holdsAny(line []byte, blobs []string) bool {
	for _, blob := range blobs {
		if bytes.Contains(line, []byte(blob)) {
			return true
		}
	}
	return false
}

// writeKeys brings authorized_keys in a home directory to what it should be. ours are all keys that muster wrote or is to write. It runs
// with the rights of the home's user, so the system refuses what that user may not do.
func (a *Accounts) writeKeys(home folder, ours, keys []string) (changed bool, err error) {
	ssh, err := a.openKeysFolder(home, len(keys) > 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // there are no keys, and none are wanted
	}
	if err != nil {
		return false, err
	}
	defer ssh.close()
	old, info, err := ssh.read(keysFile, maxKeys)
	if err != nil {
		return false, err
	}
	next := mergeKeys(old, ours, keys)
	if info == nil && len(next) == 0 || info != nil && bytes.Equal(old, next) && info.Mode().Perm() == 0o600 {
		return false, nil
	}
	a.at(keysFile)
	return true, ssh.replace(keysFile, next, 0o600)
}

// openKeysFolder opens .ssh, and closes it to others. It makes the folder where it is missing and wanted.
func (a *Accounts) openKeysFolder(home folder, wanted bool) (folder, error) {
	ssh, err := home.folder(keysFolder)
	if errors.Is(err, fs.ErrNotExist) && wanted {
		a.at(keysFolder)
		if err := home.makeFolder(keysFolder); err != nil {
			return folder{}, err
		}
		ssh, err = home.folder(keysFolder)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return folder{}, err
	}
	if err != nil {
		return folder{}, fmt.Errorf("it is not a folder that can be used; somebody on the machine has to remove it: %w", err)
	}
	info, err := ssh.info()
	if err == nil && info.Mode().Perm() != 0o700 {
		a.at(keysFolder + " mode")
		err = ssh.file.Chmod(0o700)
	}
	if err != nil {
		ssh.close()
	}
	return ssh, err
}

// dropKeys removes what stands in the home directory of a new account and could let somebody in. It belonged to an account of before.
func dropKeys(home folder) error {
	ssh, err := home.folder(keysFolder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return home.remove(keysFolder)
	case err != nil:
		return err
	}
	defer ssh.close()
	return errors.Join(ssh.remove(keysFile), ssh.remove(olderKeysFile))
}
