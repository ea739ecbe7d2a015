package account

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"muster/agent/internal/child"
)

// ownerOf is the UID of a file's owner.
func (a *Accounts) ownerOf(info fs.FileInfo) int {
	if a.owner != nil {
		return a.owner(info)
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(status.Uid)
}

// openHomes opens the directory of all home directories. Only root may be able to change what is in it.
func (a *Accounts) openHomes() (folder, error) {
	path := a.path(filepath.Dir(home("any")))
	file, err := os.Open(path)
	if err != nil {
		return folder{}, err
	}
	info, err := file.Stat()
	if err == nil && (!info.IsDir() || info.Mode().Perm()&0o022 != 0 || a.ownerOf(info) != a.UID) {
		err = fmt.Errorf("%s can be changed by others than root: make root its owner, and take write permission from others", path)
	}
	if err != nil {
		file.Close()
	}
	return folder{file, a.disk}, err
}

// openHome opens the home directory of an account, and makes sure that it belongs to it.
func (a *Accounts) openHome(mine account) (folder, error) {
	homes, err := a.openHomes()
	if err != nil {
		return folder{}, err
	}
	defer homes.close()
	return a.openHomeIn(homes, mine)
}

func (a *Accounts) openHomeIn(homes folder, mine account) (folder, error) {
	it, err := homes.folder(filepath.Base(mine.Home))
	if errors.Is(err, fs.ErrNotExist) {
		return folder{}, err
	}
	if err != nil {
		return folder{}, fmt.Errorf("%s is not the folder that useradd made: see what it is: %w", mine.Home, err)
	}
	info, err := it.info()
	if err == nil && a.ownerOf(info) != mine.UID {
		err = fmt.Errorf("%s belongs to the UID %d and not to %s (%d): see whose it is", mine.Home, a.ownerOf(info), mine.Name, mine.UID)
	}
	if err != nil {
		it.close()
	}
	return it, err
}

// ensureHome makes the home directory of an account where it is missing. A new account's may still belong to root, because useradd was
// cut off.
func (a *Accounts) ensureHome(mine account, gid int) (made bool, err error) {
	homes, err := a.openHomes()
	if err != nil {
		return false, err
	}
	defer homes.close()
	name := filepath.Base(mine.Home)
	it, err := homes.folder(name)
	if errors.Is(err, fs.ErrNotExist) {
		a.at("home")
		made = true
		err = homes.makeFolder(name)
		if err == nil {
			it, err = homes.folder(name)
		}
	}
	if err == nil {
		err = a.giveHome(it, mine, gid, made)
		it.close()
	}
	if err != nil {
		return made, fmt.Errorf("home directory of %s: %w", mine.Name, err)
	}
	it, err = a.openHomeIn(homes, mine)
	if err == nil {
		it.close()
	}
	return made, err
}

// giveHome gives a directory of root to the account that is being made.
func (a *Accounts) giveHome(it folder, mine account, gid int, made bool) error {
	info, err := it.info()
	if err != nil || a.ownerOf(info) != a.UID || !made && mine.Phase != making {
		return err
	}
	if a.give != nil {
		return a.give(it.file, mine.UID, gid)
	}
	return it.file.Chown(mine.UID, gid)
}

// removeHome removes a home directory with all that is in it. It follows no link, and it does not go into another file system.
func (a *Accounts) removeHome(mine account) (removed bool, err error) {
	it, err := a.openHome(mine)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	it.close()
	if err := a.unmounted(mine.Home); err != nil {
		return false, err
	}
	root, err := os.OpenRoot(a.path(filepath.Dir(mine.Home)))
	if err != nil {
		return false, err
	}
	defer root.Close()
	a.at("remove home")
	if err := root.RemoveAll(filepath.Base(mine.Home)); err != nil {
		return false, fmt.Errorf("%s was not removed as a whole: %w", mine.Home, err)
	}
	return true, nil
}

// unmounted refuses a directory that is a mount point or has one in it.
func (a *Accounts) unmounted(path string) error {
	text, err := os.ReadFile(a.path("/proc/self/mountinfo"))
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(a.path(path))
	if err != nil {
		return err
	}
	for _, point := range mountPoints(text) {
		if point == real || strings.HasPrefix(point, real+"/") {
			return fmt.Errorf("%s is a mount, and what is in it is not removed: unmount it, and run the task again", point)
		}
	}
	return nil
}

// mountPoints reads the fifth field of /proc/self/mountinfo, in which the kernel writes blanks and the like as octal numbers.
func mountPoints(text []byte) []string {
	var points []string
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) > 4 {
			points = append(points, unescape(fields[4]))
		}
	}
	return points
}

func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// as does work on files with the rights of a user.
func (a *Accounts) as(uid, gid int, work func() error) error {
	if a.become != nil {
		return a.become(uid, gid, work)
	}
	return child.As(uid, gid, nil, work)
}
