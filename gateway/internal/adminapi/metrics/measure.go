package metrics

import (
	"os"
	"syscall"

	"muster/gateway/api"
)

// Standing names the counts of a channel. A node counts once, but for those that are committed: they run the release too.
func Standing(c api.RolloutCounts) map[string]int {
	return map[string]int{
		"running": c.Running, "waiting": c.Waiting, "admitted": c.Admitted, "failed": c.Failed, "silent": c.Silent, "late": c.Late,
		"unwell": c.Unwell, "held": c.Held, "pinned": c.Pinned, "unable": c.Unable, "offline": c.Offline,
	}
}

// SizeOf returns the size of a database, with the log beside it; nil: it cannot be told.
func SizeOf(path string) *int64 {
	file, err := os.Stat(path)
	if err != nil {
		return nil
	}
	size := file.Size()
	if log, err := os.Stat(path + "-wal"); err == nil {
		size += log.Size()
	}
	return &size
}

// DiskOf returns the room on the disk of a folder, for this user, and the disk's size.
func DiskOf(path string) (free, size *int64) {
	var s syscall.Statfs_t
	if syscall.Statfs(path, &s) != nil {
		return nil, nil
	}
	left := int64(s.Bavail) * int64(s.Bsize)
	all := int64(s.Blocks) * int64(s.Bsize)
	return &left, &all
}
