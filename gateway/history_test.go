package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/datadir"
)

// TestHistory: what a real agent says can be asked for, and outlives a gateway that is killed. A damaged file is put aside while the
// gateway goes on, and --history 0 keeps none.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.agentWith(nil, agentBinary(t), "gpu-1", h.token(), "--nvidia-smi", smi(t, 2))
	h.until("gpu-1 is online", func() bool { return h.online("gpu-1") })
	told := func() bool {
		var s api.Series
		_, text, _ := h.try("node", "series", "gpu-1", "gpu_utilization_percent", "-o", "json") // refused until the file is open
		_ = json.Unmarshal([]byte(text), &s)
		full := func(p api.SeriesPoint) bool { return p[1] != nil && *p[1] == 99 } // the first may be unknown
		return len(s.Series) == 2 && slices.ContainsFunc(s.Series[1].Points, full) && strings.HasPrefix(s.Series[0].GPU, "GPU-00000000")
	}
	h.until("the utilisation of both GPUs is known", told)
	h.gateway.stop()
	file := filepath.Join(h.data, datadir.History)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file is %v, %v", info, err)
	}
	h.open()
	h.until("what was known before a restart is known", told)
	h.gateway.kill()
	if err := os.WriteFile(file, []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.open()
	h.gateway.await("is damaged: it is put aside")
	h.until("a new file has samples", told)
	if _, err := os.Stat(file + ".damaged"); err != nil {
		t.Error(err)
	}
	h.gateway.stop()
	h.args = append(h.args, "--history", "0")
	h.open()
	if code, _, stderr := h.try("node", "series", "gpu-1", "load1"); code != 1 || !strings.Contains(stderr, "--history") {
		t.Errorf("without history: exit code %d, %s", code, stderr)
	}
}
