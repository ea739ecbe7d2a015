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
// its use leaves out what the kernel drops when memory is needed: file pages, be they in use or not, and caches of its own.
// Where it is not known how much that is, the use is not known.
func (t tree) containerMemory() (limit, used *int64) {
	dir, current, droppable := "sys/fs/cgroup/", "memory.current", []string{"inactive_file", "active_file", "slab_reclaimable"}
	limit = t.number(dir + "memory.max")
	if limit == nil {
		dir, current, droppable = "sys/fs/cgroup/memory/", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}
		limit = t.number(dir + "memory.limit_in_bytes")
	}
	if limit == nil || *limit == 0 {
		return nil, nil
	}
	return limit, without(t.number(dir+current), t.text(dir+"memory.stat"), droppable)
}

// without takes the named figures of a memory.stat off; an older kernel may lack all but the first.
func without(used *int64, stat string, names []string) *int64 {
	if used == nil || field(stat, names[0]) == nil {
		return nil
	}
	left := *used
	for _, name := range names {
		if part := field(stat, name); part != nil {
			left -= min(*part, left)
		}
	}
	return &left
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
