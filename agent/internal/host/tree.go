package host

import (
	"os"
	"path/filepath"
	"strings"

	"muster/agent/disk"
)

// maxFile bounds what is read of one file. The longest are /proc/cpuinfo, with 2 KiB for each of a thousand threads, and mountinfo on a
// machine with many containers.
const maxFile = 8 << 20

// Tree is the folder in which a machine's files begin: a folder of a test; empty: /. A file that cannot be read counts as empty.
type Tree string

// Path returns the path of a file in the tree.
func (t Tree) Path(name string) string { return filepath.Join("/", string(t), name) }

// Bytes returns a file's content, nil if it cannot be read.
func (t Tree) Bytes(name string) []byte {
	data, _ := disk.ReadFile(t.Path(name), maxFile)
	return data
}

// Text returns a file's content without the white space around it.
func (t Tree) Text(name string) string { return strings.TrimSpace(string(t.Bytes(name))) }

// Link returns the target of a link.
func (t Tree) Link(name string) string {
	target, _ := os.Readlink(t.Path(name))
	return target
}

// Exists reports whether there is a file or a folder, also if it cannot be read.
func (t Tree) Exists(name string) bool {
	_, err := os.Stat(t.Path(name))
	return err == nil
}

// Names returns the entries of a folder; nil: it cannot be read.
func (t Tree) Names(name string) []string {
	entries, err := os.ReadDir(t.Path(name))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// number reads a file that holds one whole number.
func (t Tree) number(name string) *int64 { return parseInt(t.Text(name)) }
