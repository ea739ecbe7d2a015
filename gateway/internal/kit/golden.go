package kit

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// update is read once the test's program has read its flags.
var update = flag.Bool("update", false, "write the golden files anew")

// Updating reports whether golden files are to be written anew: go test -update.
func Updating() bool { return *update }

// Golden compares a text with a file of testdata, or writes it there.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if Updating() {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%s differs (%v); go test -update writes it anew. Got:\n%s\nwant:\n%s", file, err, got, want)
	}
}
