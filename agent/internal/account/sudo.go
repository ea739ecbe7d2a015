package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	sudoersFolder = "/etc/sudoers.d"
	sudoersPrefix = "muster-"
	sudoersMode   = 0o440
)

// sudoersName is the name of an account's file. sudo skips names with a dot, and no account's name has one.
func sudoersName(name string) string { return sudoersPrefix + name }

// sudoers is the content of that file.
func sudoers(name string) []byte {
	return []byte("# made by muster: a task provision_user without sudo=true removes it\n" + name + " ALL=(ALL:ALL) NOPASSWD: ALL\n")
}

// sudoable checks that sudo is there and would read the file.
func (a *Accounts) sudoable() error {
	if err := a.need("visudo"); err != nil {
		return err
	}
	text, err := readTable(a.path("/etc/sudoers"))
	if err != nil {
		return err
	}
	if !includesFolder(text) {
		return fmt.Errorf("sudo of this machine does not read %s: add the line @includedir %s to /etc/sudoers with visudo",
			sudoersFolder, sudoersFolder)
	}
	_, err = os.Stat(a.path(sudoersFolder))
	return err
}

// includesFolder tells whether /etc/sudoers includes the folder. An # in front of the word is part of it, and begins no comment.
func includesFolder(text []byte) bool {
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) == 2 && (words[0] == "@includedir" || words[0] == "#includedir") &&
			filepath.Clean(strings.Trim(words[1], `"`)) == sudoersFolder {
			return true
		}
	}
	return false
}

// setSudo gives the account all rights of root, or takes them away.
func (p *provisioning) setSudo(ctx context.Context) error {
	name := p.params.Username
	if !p.params.Sudo {
		removed, err := p.removeSudoers(name)
		if removed {
			p.tell("it may no longer use sudo")
		}
		return err
	}
	return p.writeSudoers(ctx, name)
}

// writeSudoers writes the account's file where it is not there as it should be: first under a name that sudo skips, to have it checked. One
// mistake in a file of this folder would keep everybody on this machine from using sudo.
func (p *provisioning) writeSudoers(ctx context.Context, name string) error {
	file, err := os.Open(p.path(sudoersFolder))
	if err != nil {
		return err
	}
	it := folder{file, p.disk}
	defer it.close()
	text, info, err := it.read(sudoersName(name), maxKeys)
	same := info != nil && bytes.Equal(text, sudoers(name)) && info.Mode().Perm() == sudoersMode && p.ownerOf(info) == p.UID
	if same || err != nil {
		return err
	}
	draft := "." + sudoersName(name) + ".new"
	defer it.remove(draft)
	p.at("sudoers draft")
	if err := it.replace(draft, sudoers(name), sudoersMode); err != nil {
		return err
	}
	if err := p.run(ctx, p.out, "visudo", "-c", "-f", p.path(filepath.Join(sudoersFolder, draft))); err != nil {
		return fmt.Errorf("visudo refuses the file that gives %s its rights, so it was not put in place: %w", name, err)
	}
	p.at("sudoers")
	if err := syscall.Renameat(it.fd(), draft, it.fd(), sudoersName(name)); err != nil {
		return err
	}
	if err := it.disk.Sync("the folder of sudoers", it.file); err != nil {
		return err
	}
	p.tell("it may use sudo for everything, without a password")
	return nil
}

// removeSudoers takes sudo from an account, also if the account itself is gone or not muster's any more: the file is.
func (a *Accounts) removeSudoers(name string) (bool, error) {
	path := a.path(filepath.Join(sudoersFolder, sudoersName(name)))
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	a.at("remove sudoers")
	if err := os.Remove(path); err != nil {
		return false, err
	}
	return true, a.disk.SyncFolder("the folder of sudoers", filepath.Dir(path)) // a loss of power must not give the right back
}
