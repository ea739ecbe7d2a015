package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

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

// The status tells the newest report of the kernel, and nothing if there is none.
func TestNewestReport(t *testing.T) {
	at := time.Date(2026, 5, 4, 11, 58, 0, 0, time.UTC)
	x := &wire.Xids{State: wire.KernelRead, Events: []wire.Xid{{At: at, Text: "first"}, {At: at.Add(time.Hour), Text: "NVRM: Xid"}}}
	const want = "2 reports of the kernel about GPUs since the boot, the last at 2026-05-04T12:58:00Z: NVRM: Xid"
	if got := newest(x); got != want {
		t.Errorf("got %s", got)
	}
	if got := newest(&wire.Xids{State: wire.KernelRead}) + newest(nil); got != "" {
		t.Errorf("of no report: %s", got)
	}
}

// A reading says what the kernel's log holds, or why it cannot be read. It says nothing of that before the first look.
func TestReadingHasTheKernelsLog(t *testing.T) {
	m := NewMachine("/nonexistent", false, 0, t.TempDir())
	if h, _ := m.Read(); h.Xids != nil {
		t.Errorf("before a look: %+v", h.Xids)
	}
	ctx, cancel := context.WithCancel(t.Context())
	news := make(chan struct{}, 1)
	ended := make(chan error, 1)
	tell := func() {
		select {
		case news <- struct{}{}:
		default:
		}
	}
	go func() { ended <- m.Watch(ctx, time.Hour, tell) }()
	<-news // of the first look
	cancel()
	<-ended
	h, ok := m.Read()
	if !ok || h.Xids == nil || (h.Xids.State == wire.KernelRead) != (h.Xids.Error == "") || h.Xids.Events == nil {
		t.Errorf("%t, %+v", ok, h.Xids)
	}
	if h, _ = NewMachine("", true, 0, t.TempDir()).Read(); h.Xids != nil {
		t.Errorf("--no-gpu: %+v", h.Xids)
	}
}
