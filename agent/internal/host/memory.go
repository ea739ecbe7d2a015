package host

import (
	"math"
	"strconv"
	"strings"
)

// SystemMemory gives the memory of the machine whose file system begins at root, in MiB: all of it, and what is not
// available to new work. A container's limits do not count. Nil where the kernel does not say.
func SystemMemory(root string) (total, used *int64) {
	all, taken := tree(root).systemMemory()
	return mebibytes(all), mebibytes(taken)
}

// systemMemory reads /proc/meminfo; in bytes.
func (t tree) systemMemory() (total, used *int64) {
	info := t.text("proc/meminfo")
	total, available := field(info, "MemTotal:"), field(info, "MemAvailable:")
	if total == nil || *total == 0 || *total > math.MaxInt64/1024 {
		return nil, nil
	}
	all := *total * 1024
	if available == nil || *available > *total {
		return &all, nil
	}
	taken := all - *available*1024
	return &all, &taken
}

// memory is the system's, or a container's where its limit is lower; in MiB.
func (t tree) memory() (total, used *int64) {
	total, used = t.systemMemory()
	limit, taken := t.containerMemory()
	if limit != nil && (total == nil || *limit < *total) {
		total, used = limit, taken
	}
	return mebibytes(total), mebibytes(used)
}

// containerMemory reads limit and use of the top of the mounted cgroup tree, version 2 or 1, in bytes. Like the system's,
// its use leaves out page cache that can be dropped.
func (t tree) containerMemory() (limit, used *int64) {
	dir, current, inactive := "sys/fs/cgroup/", "memory.current", "inactive_file"
	limit = t.number(dir + "memory.max")
	if limit == nil {
		dir, current, inactive = "sys/fs/cgroup/memory/", "memory.usage_in_bytes", "total_inactive_file"
		limit = t.number(dir + "memory.limit_in_bytes")
	}
	if limit == nil || *limit == 0 {
		return nil, nil
	}
	used = t.number(dir + current)
	cache := field(t.text(dir+"memory.stat"), inactive)
	if used == nil || cache == nil || *cache > *used {
		return limit, used
	}
	taken := *used - *cache
	return limit, &taken
}

// field finds the line of text that begins with the word key and returns the number behind it, nil when there is none.
func field(text, key string) *int64 {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) >= 2 && words[0] == key {
			return parseInt(words[1])
		}
	}
	return nil
}

// parseInt reads a whole number that is not negative.
func parseInt(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

func mebibytes(bytes *int64) *int64 {
	if bytes == nil {
		return nil
	}
	n := *bytes >> 20
	return &n
}
