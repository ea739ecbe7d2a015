//go:build real

package metrics

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPromtool: Prometheus's own tool finds nothing to say about an answer where all is known, nor about the rules, and each rule fires
// where it has to, and only there.
func TestPromtool(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is not installed")
		}
		t.Skip("not tried: promtool is not installed here")
	}
	check := exec.CommandContext(t.Context(), tool, "check", "metrics")
	check.Stdin = strings.NewReader(full(t).scrape())
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("check metrics: %v\n%s", err, out)
	}
	rules := filepath.Join(t.TempDir(), "alerts.yaml")
	if err := os.WriteFile(rules, []byte(alerts), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", rules}, {"test", "rules", "testdata/alerts_test.yaml"}} {
		out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "SUCCESS") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
