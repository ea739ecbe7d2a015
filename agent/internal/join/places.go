package join

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
)

// leastDisk is enough for two builds and the logs, in bytes.
const leastDisk = 64 << 20

// noExec is ST_NOEXEC, the kernel's flag of a file system that is mounted noexec (statfs(2)).
const noExec = 8

// finding is the result of one check.
type finding struct {
	ok         bool
	what, text string
}

// places checks every place that join will write to: the state directory, where the agent must also be able to run, and the files that
// keep it running. join and join --check use the same list, so that a check that passes promises the join.
func (j *joining) places(kind service.Kind) []finding {
	list := stateFindings(j.State)
	for i := range list {
		if !list[i].ok {
			list[i].text += ": " + j.elsewhere()
		}
	}
	for _, file := range j.manager.Files(kind) {
		there, err := writable(filepath.Dir(file))
		found := finding{err == nil, "writable", there + ", for " + file}
		if err != nil {
			found.text = fmt.Sprintf("%s cannot be written: %s: %v: %s; or copy the agent to a directory of its own, and have it "+
				"started by what starts this machine (muster-agent run --help)", file, there, err, j.placeForSettings())
		}
		list = append(list, found)
	}
	return list
}

// fit is the error where join cannot write to one of its places, or cannot run there.
func (j *joining) fit() error {
	var wrong []error
	for _, found := range j.places(j.kind) {
		if !found.ok {
			wrong = append(wrong, errors.New(found.text))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.Join(append(wrong, errors.New("nothing was done yet, and the token is not spent: the same command can be run again"))...)
}

// stateFindings checks a state directory, or the folder in which it would be made.
func stateFindings(state string) []finding {
	there, err := writable(state)
	var mount syscall.Statfs_t
	if failed := syscall.Statfs(there, &mount); failed != nil {
		return []finding{{false, "disk", fmt.Sprintf("%s: %v", there, failed)}}
	}
	free := int64(mount.Bavail) * int64(mount.Bsize)
	disk := finding{free >= leastDisk, "disk", fmt.Sprintf("%d MiB free for %s, of which %d are needed", free>>20, state, leastDisk>>20)}
	if !disk.ok {
		disk.text = fmt.Sprintf("only %d MiB are free for %s, and %d are needed", free>>20, state, leastDisk>>20)
	}
	if err == nil && there == state { // an existing directory must also be fit for a key
		err = identity.CheckPrivate(state)
	}
	write := finding{err == nil, "writable", fmt.Sprintf("%s, for %s", there, state)}
	if err != nil {
		write.text = fmt.Sprintf("%s cannot be written: %s: %v", state, there, err)
	}
	run := finding{int64(mount.Flags)&noExec == 0, "executable", "programs on the file system of " + there}
	if !run.ok {
		run.text = fmt.Sprintf("no program may run from %s: %s is mounted noexec", state, there)
	}
	return []finding{disk, write, run}
}

// writable finds the nearest folder of a path that exists. The error says why nothing can be made there.
func writable(path string) (there string, err error) {
	for there = path; there != "/"; there = filepath.Dir(there) {
		if _, err := os.Lstat(there); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	info, err := os.Stat(there)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return filepath.Dir(there), fmt.Errorf("%s is a link to something that is not there", there)
	case err != nil:
		return there, err
	case !info.IsDir():
		return filepath.Dir(there), fmt.Errorf("%s is no directory", there)
	}
	const toWriteAndEnter = 2 | 1
	return there, syscall.Access(there, toWriteAndEnter)
}

// elsewhere is the advice for a state directory that cannot be used. It names one that can, if one is found.
func (j *joining) elsewhere() string {
	for _, state := range j.otherStates() {
		good := true
		for _, found := range stateFindings(state) {
			good = good && found.ok
		}
		if good {
			return "give --state " + state + " (or set MUSTER_STATE to it), where all is well"
		}
	}
	return fmt.Sprintf("give --state DIR (or set MUSTER_STATE) on a file system that is writable, not mounted noexec, and has %d MiB free",
		leastDisk>>20)
}

// placeForSettings is the advice for a folder outside of the state directory that cannot be written.
func (j *joining) placeForSettings() string {
	if j.System.UID == 0 {
		return "make it writable"
	}
	return "make it writable, or set HOME to a directory that this user may write, for this and every later call of muster-agent"
}

// otherStates are folders that are often on another file system than the usual place.
func (j *joining) otherStates() []string {
	if j.System.UID == 0 {
		return []string{"/opt/muster-agent", "/usr/local/lib/muster-agent", "/srv/muster-agent", "/root/.muster-agent"}
	}
	if home := j.Getenv("HOME"); filepath.IsAbs(home) {
		return []string{filepath.Join(home, ".muster-agent"), filepath.Join(home, "muster-agent")}
	}
	return nil
}
