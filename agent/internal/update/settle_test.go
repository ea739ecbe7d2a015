package update

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnTrial(t *testing.T) {
	base := t.TempDir()
	for text, want := range map[string]string{
		`{"last":{"phase":"trial","to":"abc"}}`: "abc", `{"last":{"phase":"committed","to":"abc"}}`: "", `{}`: "", `{"last"`: "",
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
