package bootstrap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSteps: the script counts the restart only where it will do one: once, for a profile with something to apply, by cloud-init.
func TestSteps(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("bootstrap.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(script), "status=0 steps=8")
	counts, _, ok := strings.Cut(rest, "began=")
	if !ok {
		t.Fatal("the script does not count its steps where this test looks")
	}
	done := filepath.Join(t.TempDir(), "restarted")
	if err := os.WriteFile(done, []byte("after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]string{
		"PROFILE='' APPLY='' RESTART='' MODE=cloud_init":       "8",
		"PROFILE=p APPLY='' RESTART='' MODE=cloud_init":        "9",
		"PROFILE=p APPLY='' RESTART=yes MODE=cloud_init":       "9",
		"PROFILE=p APPLY=true RESTART='' MODE=cloud_init":      "9",
		"PROFILE=p APPLY=true RESTART=yes MODE=manual":         "9",
		"PROFILE=p APPLY=true RESTART=yes MODE=cloud_init":     "10",
		"PROFILE=after APPLY=true RESTART=yes MODE=cloud_init": "9",
	} {
		got, err := exec.Command("sh", "-euc", "restarted="+done+"; "+settings+"; steps=8"+counts+"\nprintf %s $steps").Output()
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", settings, got, err, want)
		}
	}
}
