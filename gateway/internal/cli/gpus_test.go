package cli_test

import (
	"strings"
	"testing"
)

func TestNodeGPUs(t *testing.T) {
	h := example(t)
	for _, c := range []struct {
		args string
		code int
		out  string
		says string
	}{
		{"node gpus node-dgx-spark 7", 0, "node-dgx-spark: 7 GPUs\n", ""},
		{"node gpus node-dgx-spark 0", 0, "node-dgx-spark: 0 GPUs\n", ""},
		{"node gpus node-dgx-spark vast-h100-39467543 1", 0, "node-dgx-spark: 1 GPU\nvast-h100-39467543: 1 GPU\n", ""},
		{"node gpus node-dgx-spark seen", 0, "node-dgx-spark: as many GPUs as are seen\n", ""},
		{"node gpus -l tier=sovereign 1 --yes", 0, "node-dgx-spark: 1 GPU\nvast-h100-39467543: 1 GPU\n", "2 nodes"},
		{"node gpus node-dgx-spark", 2, "", `"node-dgx-spark" is no number of GPUs`},
		{"node gpus node-dgx-spark -1", 2, "", "no negative number"},
		{"node gpus node-dgx-spark 1025", 1, "", "not allowed"},
		{"node gpus 7", 2, "", "which nodes?"},
		{"node gpus", 2, "", "needs NAME... N|seen"},
		{"node gpus nobody 7", 1, "", "no node is called"},
		{"node gpus -l tier=sovereign 1", 2, "2 nodes", "needs a yes"},
	} {
		code, out, errs := h.muster(strings.Fields(c.args)...)
		if code != c.code || c.code == 0 && out != c.out || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d\n%s\n%s", c.args, code, out, errs)
		}
	}
	if out := h.done("audit", "--kind", "node.gpus_expected", "--limit", "1"); !strings.Contains(out, "to=1") ||
		!strings.Contains(out, "operator:socket") {
		t.Errorf("audit: %s", out)
	}
}
