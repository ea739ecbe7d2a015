package host

import (
	"math"
	"strconv"
	"strings"
)

// SystemMemory returns the memory of the machine whose file system begins at root, in MiB. total is all of it, and used is the part that
// new work cannot have. The limits of a container do not count. A value that the kernel does not tell is nil.
func SystemMemory(root string) (total, used *int64) {
	all, taken := Tree(root).systemMemory()
	return mebibytes(all), mebibytes(taken)
}

// systemMemory reads /proc/meminfo. It gives bytes.
func (t Tree) systemMemory() (total, used *int64) {
	info := t.Text("proc/meminfo")
	total = field(info, "MemTotal:")
	available := field(info, "MemAvailable:")
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

// memory is that of the system, or of the container where its limit is lower. It gives MiB.
func (t Tree) memory() (total, used *int64) {
	total, used = t.systemMemory()
	limit, taken := t.containerMemory()
	if limit != nil && (total == nil || *limit < *total) {
		return mebibytes(limit), mebibytes(taken)
	}
	return mebibytes(total), mebibytes(used)
}

// containerMemory reads limit and use at the top of the mounted cgroup tree, version 2 or 1, in bytes. As for the system, the use
// leaves out what the kernel drops when memory is needed: file pages, active ones too, and caches of its own. If that is not
// known, the use is not known.
func (t Tree) containerMemory() (limit, used *int64) {
	for _, group := range []struct {
		folder, limit, use string
		droppable          []string
	}{
		{"sys/fs/cgroup/", "memory.max", "memory.current", []string{"inactive_file", "active_file", "slab_reclaimable"}},
		{"sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}},
	} {
		limit := t.number(group.folder + group.limit)
		if limit == nil {
			continue
		}
		if *limit == 0 {
			return nil, nil
		}
		return limit, without(t.number(group.folder+group.use), t.Text(group.folder+"memory.stat"), group.droppable)
	}
	return nil, nil
}

// without subtracts the named figures of a memory.stat from used. An older kernel may have only the first of them.
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

// field finds the line that begins with the word key, and returns the number behind it. It is nil if there is none.
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
	return new(*bytes >> 20)
}
