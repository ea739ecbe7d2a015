package workload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"muster/agent/wire"
)

// resolveMounts follows the links in the paths on the node, and refuses what does not end below one of the roots. The links are followed
// before the engine sees the path, so a link inside a root cannot lead out of it.
func resolveMounts(wanted, roots []string) ([]wire.Mount, error) {
	var all []wire.Mount
	for _, text := range wanted {
		m, err := wire.ParseMount(text)
		if err == nil {
			m.Host, err = resolveMount(m.Host, roots)
		}
		if err == nil {
			_, err = wire.ParseMount(m.Host + ":" + m.Container) // a link may lead to a name that the engine's client reads in another way
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func resolveMount(path string, roots []string) (string, error) {
	forbidden := wire.Refuse(wire.CodeTaskForbidden, fmt.Sprintf("the policy of this node does not allow to mount %s", path),
		"its owner names the folders below which a workload may mount, as mount_roots in policy.json there")
	if !below(path, roots) { // nothing is told about paths that no workload may have
		return "", forbidden
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the folder %s is not on this node: make it there first", path)
	}
	if err != nil {
		return "", err
	}
	var ends []string
	for _, root := range roots {
		if end, err := filepath.EvalSymlinks(root); err == nil && below(real, []string{end}) {
			ends = append(ends, end)
		}
	}
	if len(ends) == 0 {
		return "", forbidden
	}
	info, err := os.Stat(real)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder: name the folder that it is in", path)
	}
	if err == nil {
		err = steady(real, ends)
	}
	return real, err
}

// steady refuses a path that another user can change between this look and the engine's: a link could stand there by then, which leads
// out of the root. What stands above the root is for the node's owner to look after.
func steady(real string, ends []string) error {
	for child := real; !slices.Contains(ends, child); child = filepath.Dir(child) {
		parent := filepath.Dir(child)
		above, err := os.Lstat(parent)
		if err != nil {
			return err
		}
		it, err := os.Lstat(child)
		if err != nil {
			return err
		}
		free := above.Mode().Perm()&0o022 != 0 && (above.Mode()&fs.ModeSticky == 0 || !trusted(it))
		if free || !trusted(above) {
			return wire.Refuse(wire.CodeTaskForbidden, fmt.Sprintf("other users than root can put something else in the place of %s", child),
				"mount "+parent+" as a whole, or take the right to write there from others")
		}
	}
	return nil
}

// trusted tells whether root or this user owns something.
func trusted(info fs.FileInfo) bool {
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && (status.Uid == 0 || int(status.Uid) == os.Geteuid())
}

// below tells whether a path is one of the roots or inside of one.
func below(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/")
	})
}
