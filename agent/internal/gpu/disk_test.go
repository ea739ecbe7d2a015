package gpu_test

import (
	"strings"
	"testing"

	"muster/agent/disk/disktest"
)

// TestRecordIsOnTheDisk: where the disk does not keep how many GPUs are expected, it is said.
func TestRecordIsOnTheDisk(t *testing.T) {
	p, _ := prober(t, eight())
	p.State = t.TempDir()
	disktest.WithoutSync(t, func() { p.Expect(8) })
	if !strings.Contains(p.Trouble(), "cannot be remembered") {
		t.Errorf("trouble %q", p.Trouble())
	}
}
