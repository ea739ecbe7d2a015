package update

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnTrial(t *testing.T) {
	base := t.TempDir()
	hex := strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		`{"last":{"phase":"trial","to":"` + hex + `"}}`: hex, `{"last":{"phase":"committed","to":"` + hex + `"}}`: "", `{}`: "", `{"last"`: "",
		`{"last":{"phase":"trial","to":"../../../etc"}}`: "",
	} {
		if err := os.WriteFile(filepath.Join(base, RecordFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := OnTrial(base); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := OnTrial(filepath.Join(base, "none")); got != "" {
		t.Errorf("without a directory: %q", got)
	}
}
