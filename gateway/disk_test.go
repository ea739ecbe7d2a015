package main

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// synced finds calls that sync a file. A spool has a method of that name, too.
var synced = regexp.MustCompile(`\b(\w+)\.Sync\(\)|os\.File\)\.Sync\b|syscall\.(Fsync|Fdatasync)\b`)

// TestOneWayToTheDisk: whoever promises that something outlives a loss of power goes through package disk, where a test can cut the power.
func TestOneWayToTheDisk(t *testing.T) {
	read := 0
	for _, part := range []string{"agent", "gateway"} {
		house := os.DirFS("../" + part)
		err := fs.WalkDir(house, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || part == "agent" && path == "disk/disk.go" {
				return err
			}
			text, err := fs.ReadFile(house, path)
			read++
			for _, found := range synced.FindAllStringSubmatch(string(text), -1) {
				if found[1] != "spool" && found[1] != "box" {
					t.Errorf("%s/%s: %s: use package disk, so that a test can cut the power there", part, path, found[0])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 500 {
		t.Errorf("only %d files were read", read)
	}
}
