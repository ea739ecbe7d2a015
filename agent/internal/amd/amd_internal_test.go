package amd

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
)

// build makes the folders and files of a machine.
func build(t testing.TB, machine string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", machine+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		content, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		write(t, root, name, content)
	}
	return root
}

func write(t testing.TB, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func prober(root string) *Prober {
	total := int64(64_000)
	used := int64(9_000)
	return &Prober{Root: root, SystemMemory: func() (*int64, *int64) { return &total, &used }}
}

// known is a row as JSON, without what is not known.
func known(t *testing.T, g wire.GPU) string {
	t.Helper()
	raw, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	for name, value := range fields {
		if value == nil {
			delete(fields, name)
		}
		if group, ok := value.(map[string]any); ok {
			for inner, one := range group {
				if one == nil {
					delete(group, inner)
				}
			}
		}
	}
	raw, err = json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestMachines(t *testing.T) {
	for machine, want := range map[string][]string{
		"server": {
			`{"bus_id":"0000:05:00.0","clocks":{"memory_mhz":1300,"sm_mhz":2100},` +
				`"ecc":{"corrected_volatile":3,"enabled":true,"uncorrected_volatile":0},"health":[],"index":0,` +
				`"memory_free_mib":98296,"memory_source":"device","memory_temperature_celsius":62,"memory_total_mib":196592,` +
				`"memory_used_mib":98296,"memory_utilization_percent":41,"mig_instances":[],"name":"AMD Instinct MI300X OAM",` +
				`"pcie":{"generation":5,"generation_max":5,"width":8,"width_max":16},"power_limit_watts":750,"power_max_limit_watts":750,` +
				`"power_watts":614,"temperature_celsius":71.5,"utilization_percent":97,"uuid":"GPU-0123456789abcdef","vendor":"amd"}`,
			`{"bus_id":"0000:26:00.0","ecc":{"corrected_volatile":5,"enabled":true,"uncorrected_volatile":3},` +
				`"health":["ecc_uncorrected:3"],"index":1,"memory_free_mib":196309,"memory_source":"device","memory_total_mib":196592,` +
				`"memory_used_mib":283,"mig_instances":[],"name":"AMD Instinct MI300X OAM","uuid":"GPU-fedcba9876543210","vendor":"amd"}`,
		},
		"desktop": {
			`{"bus_id":"0000:03:00.0","clocks":{"memory_mhz":96,"sm_mhz":19},"fan_percent":20,"health":[],"index":0,` +
				`"memory_free_mib":19440,"memory_source":"device","memory_temperature_celsius":52,"memory_total_mib":20464,` +
				`"memory_used_mib":1024,"mig_instances":[],"name":"AMD Radeon RX 7900 XT",` +
				`"pcie":{"generation":1,"generation_max":4,"width":16,"width_max":16},"power_limit_watts":300,"power_max_limit_watts":345,` +
				`"power_watts":19.5,"temperature_celsius":38,"utilization_percent":0,"uuid":"GPU-000000000000abcd","vendor":"amd"}`,
			`{"bus_id":"0000:11:00.0","health":[],"index":1,"memory_source":"unified","memory_total_mib":64000,"memory_used_mib":9000,` +
				`"mig_instances":[],"name":"AMD GPU 1002:164e","temperature_celsius":44,"utilization_percent":3,"uuid":"PCI-0000:11:00.0",` +
				`"vendor":"amd"}`,
		},
		"odd": {
			`{"bus_id":"0000:03:00.0","health":[],"index":0,"memory_source":"device","memory_total_mib":8176,"mig_instances":[],` +
				`"name":"AMD GPU 1002:73ff","uuid":"PCI-0000:03:00.0","vendor":"amd"}`,
			`{"bus_id":"0000:04:00.0","health":[],"index":1,"memory_source":"device","mig_instances":[],"name":"AMD [2JRadeon Pro",` +
				`"uuid":"PCI-0000:04:00.0","vendor":"amd"}`,
		},
	} {
		look := prober(build(t, machine)).Look(t.Context())
		if look.Hung || len(look.GPUs) != len(want) {
			t.Errorf("%s: %d GPUs, hung %t", machine, len(look.GPUs), look.Hung)
			continue
		}
		for i, g := range look.GPUs {
			if got := known(t, g); got != want[i] {
				t.Errorf("%s: got\n%s, want\n%s", machine, got, want[i])
			}
		}
	}
}

// A machine without the driver has no AMD GPU. That is no failure.
func TestNone(t *testing.T) {
	if look := prober(t.TempDir()).Look(t.Context()); look.Hung || look.GPUs == nil || len(look.GPUs) > 0 {
		t.Errorf("%+v", look)
	}
}

// The counts of errors are read every few minutes only, because the driver writes into the kernel's log what is asked of it.
func TestErrorsAreReadRarely(t *testing.T) {
	root := build(t, "server")
	p := prober(root)
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	p.Now = func() time.Time { return now }
	count := func() int64 { return *p.Look(t.Context()).GPUs[0].ECC.CorrectedVolatile }
	if n := count(); n != 3 {
		t.Fatalf("%d errors", n)
	}
	write(t, root, "sys/class/drm/card1/device/ras/umc_err_count", "ue: 0\nce: 4\n")
	now = now.Add(errorPace - time.Second)
	if n := count(); n != 3 {
		t.Errorf("%d errors before the pause is over", n)
	}
	now = now.Add(time.Second)
	if n := count(); n != 4 {
		t.Errorf("%d errors after the pause", n)
	}
}

// A driver that hangs holds nobody up: it is reported, no second reading is begun beside the first, and all is well when that ends.
func TestHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan []wire.GPU)
		var begun atomic.Int32
		p := Prober{Read: func() []wire.GPU { begun.Add(1); return <-held }}
		start := time.Now()
		look := p.Look(t.Context())
		if took := time.Since(start); !look.Hung || took != deadline || !look.Since.Equal(start.Add(deadline)) {
			t.Errorf("%+v after %s", look, took)
		}
		for range 3 {
			time.Sleep(30 * time.Second)
			asked := time.Now()
			if again := p.Look(t.Context()); !again.Hung || time.Since(asked) > 0 || !again.Since.Equal(look.Since) || begun.Load() != 1 {
				t.Errorf("%+v, %d readings", again, begun.Load())
			}
		}
		held <- []wire.GPU{{UUID: "late"}}
		synctest.Wait()
		if again := p.Look(t.Context()); again.Hung || len(again.GPUs) != 1 {
			t.Errorf("after its end: %+v", again)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if again := p.Look(ctx); !again.Hung {
			t.Errorf("after a stop: %+v", again)
		}
		close(held)
	})
}

// FuzzFiles: whatever the driver writes, a row holds no value that cannot be.
func FuzzFiles(f *testing.F) {
	for _, seed := range []string{"65535\n", "1: 1440Mhz *", "16.0 GT/s PCIe", "ue: 1\nce: 2", "0x1002", "DRIVER=amdgpu\nPCI_SLOT_NAME=x"} {
		f.Add(seed)
	}
	root := build(f, "odd")
	f.Fuzz(func(t *testing.T, text string) {
		device := filepath.Join("sys/class/drm/card1/device")
		for _, name := range []string{"gpu_busy_percent", "mem_info_vram_total", "mem_info_vram_used", "pp_dpm_sclk", "current_link_speed",
			"unique_id", "product_name", "ras/umc_err_count", "hwmon/hwmon0/temp1_input", "gpu_metrics", "current_link_width"} {
			write(t, root, filepath.Join(device, name), text)
		}
		for _, g := range prober(root).Look(t.Context()).GPUs {
			used := g.MemoryUsedMiB
			if u := g.UtilizationPercent; u != nil && (*u < 0 || *u > maxPercent) || used != nil && (*used < 0 || *used > *g.MemoryTotalMiB) ||
				len(g.UUID) > maxName || len(g.Name) > maxName || g.TemperatureCelsius != nil && *g.TemperatureCelsius > maxCelsius ||
				strings.ContainsFunc(g.Name+g.UUID, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q gives %s", text, known(t, g))
			}
		}
	})
}
