package screen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/internal/cli/screen"
)

// TestColumns: what is no terminal has no columns.
func TestColumns(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := screen.Columns(file, "80"); got != 0 {
		t.Errorf("a file has %d columns", got)
	}
	if got := screen.Columns(&strings.Builder{}, "80"); got != 0 {
		t.Errorf("a buffer has %d columns", got)
	}
}
