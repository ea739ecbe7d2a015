//go:build real

package lab

import (
	"os"
	"path/filepath"
	"slices"
)

// joinGroup is a shell script that moves itself into the control group $0, in the hierarchies that systemd uses, and then runs
// its other arguments as a command. Without it, machines would share the groups of systemd.
const joinGroup = `for at in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
	if [ -e "$at/cgroup.procs" ]; then mkdir -p "$at/$0" && echo $$ >"$at/$0/cgroup.procs"; fi
done
exec "$@"`

// leaveGroup removes a group's directories and tells whether they are gone. They go when the group's last process has ended.
func leaveGroup(group string) bool {
	gone := true
	for _, at := range []string{"", "systemd", "unified"} {
		var dirs []string
		_ = filepath.WalkDir(filepath.Join("/sys/fs/cgroup", at, group), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			gone = os.Remove(dir) == nil && gone
		}
	}
	return gone
}
