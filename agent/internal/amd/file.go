package amd

import (
	"muster/agent/disk"
	"path/filepath"
	"strconv"
	"strings"
)

// maxFile bounds what is read of one of the driver's files, in bytes. Most have one line.
const maxFile = 1 << 20

// folder is a folder of /sys.
type folder string

// bytes gives a file's content, nil if it cannot be read. A GPU that is being reset refuses to be read.
func (f folder) bytes(name string) []byte {
	raw, _ := disk.ReadFile(filepath.Join(string(f), name), maxFile)
	return raw
}

// text gives a file's content without the white space around it.
func (f folder) text(name string) string { return strings.TrimSpace(string(f.bytes(name))) }

// within gives the folders and files whose names fit the pattern.
func (f folder) within(pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(string(f), pattern))
	return found
}

// number reads a file that holds a number which is at most limit. Everything else is not known.
func (f folder) number(name string, limit uint64) (uint64, bool) {
	return parseNumber(f.text(name), limit)
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
	for line := range strings.Lines(f.text(name)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return value
		}
	}
	return ""
}
