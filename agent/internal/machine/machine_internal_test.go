package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"muster/agent/wire"
)

// fullRow is a row with everything in it.
func fullRow(t *testing.T) (g wire.GPU) {
	t.Helper()
	raw, err := os.ReadFile("../../../testdata/wire/hardware.json")
	if err != nil {
		t.Fatal(err)
	}
	var h wire.Hardware
	if err := json.Unmarshal(raw, &h); err != nil {
		t.Fatal(err)
	}
	return h.GPUs[0]
}

// A report is short enough for a gateway, however many GPUs there are. It says what it left out.
func TestReportFits(t *testing.T) {
	for _, test := range []struct {
		gpus, limit, least int
		whole              bool
	}{
		{8, wire.MaxBody - 64<<10, 8, true}, {300, wire.MaxBody - 64<<10, 300, true}, {wire.MaxGPUs, wire.MaxBody - 64<<10, 700, false},
		{300, 64 << 10, 50, false}, {8, 64 << 10, 8, true}, {1, 100, 0, false},
	} {
		h := wire.Hardware{GPUs: make([]wire.GPU, test.gpus)}
		for i := range h.GPUs {
			h.GPUs[i] = fullRow(t)
		}
		raw, cut := fit(h, test.limit)
		var back wire.Hardware
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatal(err)
		}
		if len(raw) > test.limit && len(back.GPUs) > 0 || len(back.GPUs) < test.least || (cut == "") != test.whole ||
			len(h.GPUs) != test.gpus || h.GPUs[0].PCIe == nil {
			t.Errorf("%+v: %d bytes, %d rows, %q", test, len(raw), len(back.GPUs), cut)
		}
		if !test.whole && !strings.Contains(cut, fmt.Sprintf("first %d of them", len(back.GPUs))) && (len(back.GPUs) != test.gpus ||
			!strings.Contains(cut, "alone")) {
			t.Errorf("%+v: told %q", test, cut)
		}
	}
}
