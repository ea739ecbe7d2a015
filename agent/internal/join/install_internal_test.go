package join

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgramThatCannotRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster-agent")
	for mode, want := range map[fs.FileMode]string{0o644: "mounted noexec: give --state", 0o755: "use the agent for this machine's platform"} {
		os.Remove(path)
		if err := os.WriteFile(path, []byte{0x7f, 'E', 'L', 'F', 0, 0}, mode); err != nil {
			t.Fatal(err)
		}
		if err := tryProgram(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
