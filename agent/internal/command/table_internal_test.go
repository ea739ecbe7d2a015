package command

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
)

// TestTableOfAFullRow: everything that can be known of a GPU has its place.
func TestTableOfAFullRow(t *testing.T) {
	raw, err := os.ReadFile("../../../testdata/wire/hardware.json")
	if err != nil {
		t.Fatal(err)
	}
	var h wire.Hardware
	if err := json.Unmarshal(raw, &h); err != nil {
		t.Fatal(err)
	}
	var screen strings.Builder
	table{&screen}.printGPU(h.GPUs[0])
	want := `
GPU 1  NVIDIA H100 80GB HBM3  GPU-3f1c2a90-0000-4000-8000-0000000000a1  00000000:1A:00.0
  memory      39233/81559 MiB, 41706 free, 620 reserved
  busy        99%, memory 71%, encoder 1%, decoder 2%, 2 processes with 38011 MiB
  temperature 61.5 C, memory 70 C, fan 33%
  power       512.25 W, limit 700 W, at most 710 W, P2
  clocks      SM 1755 MHz, memory 2619 MHz, set by sw_power_cap
  PCIe        generation 4 of 5, lanes 8 of 16
  ECC         on, corrected 3 since the driver was loaded, 12 ever, uncorrected 1 since the driver was loaded, 2 ever
  remapped    1 correctable, 2 uncorrectable, one waits for a reset, one could not be remapped
  pages       bad ones wait for a restart
  fabric      completed, success
  NVLink      18 links, down 2
  driver      compute capability 9.0, persistence mode on, recovery action reset
  MIG         1g.10gb MIG-5a1e0b7c-0000-4000-8000-0000000000b1
  health      ecc_uncorrected
`
	if screen.String() != want {
		t.Errorf("got%s", screen.String())
	}
}

// The kernel's log that cannot be read, one without events and one with events are three different things.
func TestTableOfTheKernel(t *testing.T) {
	at := time.Date(2026, 5, 4, 11, 58, 0, 0, time.UTC)
	for _, test := range []struct {
		xids *wire.Xids
		want string
	}{
		{nil, ""},
		{&wire.Xids{State: wire.KernelNotAvailable, Error: "no right"}, "kernel log    not available: no right\n"},
		{&wire.Xids{State: wire.KernelRead}, "kernel log    nothing about GPUs since the boot\n"},
		{&wire.Xids{State: wire.KernelRead, Events: []wire.Xid{
			{At: at, Kind: wire.XidReport, UUID: "GPU-1", BusID: "b", Text: "NVRM: Xid"}, {At: at, Kind: wire.XidBusLost, BusID: "b", Text: "gone"},
		}}, "kernel log    2026-05-04T11:58:00Z  xid  GPU-1  NVRM: Xid\nkernel log    2026-05-04T11:58:00Z  bus_lost  b  gone\n"},
	} {
		var screen strings.Builder
		table{&screen}.printKernel(test.xids)
		if screen.String() != test.want {
			t.Errorf("got\n%swant\n%s", screen.String(), test.want)
		}
	}
}
