package amd

import (
	"muster/agent/internal/host"
	"path/filepath"
	"strconv"
	"strings"
)

// folder is a folder of /sys. A GPU that is being reset refuses to be read.
type folder struct{ host.Tree }

func folderAt(path string) folder { return folder{host.Tree(path)} }

// within gives the folders and files whose names fit the pattern.
func (f folder) within(pattern string) []string {
	found, _ := filepath.Glob(f.Path(pattern))
	return found
}

// number reads a file that holds a number which is at most limit. Everything else is not known.
func (f folder) number(name string, limit uint64) (uint64, bool) {
	return parseNumber(f.Text(name), limit)
}

// parseNumber reads a whole number. The driver writes the largest one of some size where it does not know a value.
func parseNumber(text string, limit uint64) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > limit || n == 0xffff || n == 0xffffffff {
		return 0, false
	}
	return n, true
}

// scaled reads a number and divides it by what makes it the unit of a report.
func (f folder) scaled(name string, unit, limit float64) *float64 {
	n, ok := f.number(name, 1<<53)
	value := float64(n) / unit
	if !ok || value > limit {
		return nil
	}
	return &value
}

// mebibytes reads a number of bytes.
func (f folder) mebibytes(name string) *int64 {
	n, ok := f.number(name, 1<<53)
	if !ok {
		return nil
	}
	return new(int64(n >> 20))
}

// entry finds a line KEY=value of a file such as uevent.
func (f folder) entry(name, key string) string {
	for line := range strings.Lines(f.Text(name)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return value
		}
	}
	return ""
}
