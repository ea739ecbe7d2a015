package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bounds of the house: what is larger is two things, and is divided.
const (
	fileLines    = 450  // all lines of a Go file
	packageLines = 2500 // lines of code of a package: no empty ones, no comments, no tests
)

// TestHouseSize keeps files and packages so small that one person reads them in one go.
func TestHouseSize(t *testing.T) {
	house := os.DirFS("..")
	if _, err := fs.Stat(house, "go.mod"); err != nil {
		t.Fatal(err)
	}
	for _, large := range tooLarge(t, house, fileLines, packageLines) {
		t.Error(large)
	}
}

// TestSizeIsMeasured proves that the test above can fail.
func TestSizeIsMeasured(t *testing.T) {
	dir := t.TempDir()
	code := "package a\n\n// A is one.\nconst A = 1 // really\n\n\t// B is two.\n"
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/testdata"), 0o700), os.MkdirAll(filepath.Join(dir, ".git"), 0o700),
		os.WriteFile(filepath.Join(dir, "a/a.go"), []byte(code), 0o600),
		os.WriteFile(filepath.Join(dir, "a/b.go"), []byte(code), 0o600),
		os.WriteFile(filepath.Join(dir, "a/a_test.go"), []byte(code+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "a/notes.txt"), []byte(code+code), 0o600),
		os.WriteFile(filepath.Join(dir, ".git/c.go"), []byte(code+code), 0o600),
		os.WriteFile(filepath.Join(dir, "a/testdata/d.go"), []byte(code+code), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, whole int
		want        string
	}{
		{7, 4, ""},
		{6, 4, "a/a_test.go has 7 lines, at most 6"},
		{7, 3, "package a has 4 lines of code, at most 3"},
	} {
		if got := strings.Join(tooLarge(t, os.DirFS(dir), c.file, c.whole), "; "); got != c.want {
			t.Errorf("at most %d and %d: got %q, want %q", c.file, c.whole, got, c.want)
		}
	}
}

// tooLarge says which Go files and packages have more lines than they may.
func tooLarge(t *testing.T, house fs.FS, file, whole int) (found []string) {
	t.Helper()
	code := map[string]int{} // by package
	err := fs.WalkDir(house, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && (base == "testdata" || base != "." && strings.HasPrefix(base, ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		raw, err := fs.ReadFile(house, name)
		if err != nil {
			return err
		}
		text := string(raw)
		if n := strings.Count(text, "\n"); n > file {
			found = append(found, fmt.Sprintf("%s has %d lines, at most %d", name, n, file))
		}
		if !strings.HasSuffix(name, "_test.go") {
			code[filepath.Dir(name)] += codeLines(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(code)) {
		if n := code[name]; n > whole {
			found = append(found, fmt.Sprintf("package %s has %d lines of code, at most %d", name, n, whole))
		}
	}
	return found
}

func codeLines(text string) (n int) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}
