package gpu_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/wire"
)

// eight is a machine of eight GPUs.
func eight() *machine {
	m := newMachine()
	for i := range 8 {
		m.gpus = append(m.gpus, h100(i))
	}
	return m
}

// health is what a heartbeat says: the reasons, and the explanation of the first.
func health(r gpu.Reading) (string, string) {
	reasons, detail := r.Health()
	if reasons == nil {
		return "not known", ""
	}
	if len(reasons) == 0 {
		return "", ""
	}
	return strings.Join(reasons, " "), detail[reasons[0]]
}

func wantHealth(t *testing.T, when string, r gpu.Reading, reasons string, parts ...string) {
	t.Helper()
	got, text := health(r)
	if got != reasons {
		t.Errorf("%s: health %q (%s), want %q", when, got, text, reasons)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %q does not name %q", when, text, part)
		}
	}
	if len(text) > wire.MaxHealthDetail {
		t.Errorf("%s: %d bytes of %q", when, len(text), text)
	}
}

// Missing GPUs are named, also after a restart of the agent.
func TestGoneGPUsAreNamedAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	m := eight()
	start := func() *gpu.Prober {
		p, _ := prober(t, m)
		p.State = dir
		return p
	}
	p := start()
	wantHealth(t, "before the first look", p.Reading(), "not known")
	wantHealth(t, "whole", p.Probe(t.Context()), "")
	m.change(func(m *machine) { m.gpus = slices.Delete(m.gpus, 3, 4) })
	for _, run := range []string{"the same run", "the next run"} {
		got := p.Probe(t.Context())
		wantHealth(t, run, got, wire.HealthGPUCountDropped, "7 of 8 GPUs answer", "GPU-00000003-1111-2222-3333-444444444444 at 00000000:1B:00.0")
		if show(got.GPUsExpected) != "8" || show(got.Seen) != "7" || got.Probe.State != wire.ProbeFailed || len(got.GPUs) != 7 {
			t.Errorf("%s: %s expected, %s seen, %s with %d rows", run, show(got.GPUsExpected), show(got.Seen), got.Probe.State, len(got.GPUs))
		}
		p = start()
	}
	m.change(func(m *machine) { m.gpus = m.gpus[:1] })
	wantHealth(t, "many", p.Probe(t.Context()), wire.HealthGPUCountDropped, "1 of 8 GPUs answer; gone: GPU-00000001", " more")

	m.change(func(m *machine) { m.answer = &gpu.Output{Code: 6, Stdout: []byte("No devices were found\n")} })
	got := p.Probe(t.Context())
	wantHealth(t, "all", got, wire.HealthGPUCountDropped, "0 of 8 GPUs answer; gone: GPU-00000000", " more")
	if show(got.Seen) != "0" || len(got.GPUs) != 1 {
		t.Errorf("all gone: %s seen, %d rows kept; want 0 and the last one", show(got.Seen), len(got.GPUs))
	}
	if err := gpu.Forget(dir); err != nil {
		t.Fatal(err)
	}
	m.change(func(m *machine) { m.answer = nil })
	wantHealth(t, "after a new enrolment", start().Probe(t.Context()), "")
	if err := gpu.Forget(filepath.Join(dir, "none")); err != nil {
		t.Errorf("nothing to forget: %v", err)
	}
}

// If nvidia-smi disappears, the rows stay and grow old, and the health says which GPUs are missing.
func TestProgramDisappears(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	p, c := prober(t, eight())
	p.Path = path
	before := p.Probe(t.Context())
	c.advance(time.Minute)
	os.Remove(path)
	got := p.Probe(t.Context())
	wantHealth(t, "gone", got, wire.HealthGPUCountDropped, "nvidia-smi is gone", "8 GPUs", "GPU-00000000-1111", " more")
	if got.Probe.State != wire.ProbeAbsent || len(got.GPUs) != 8 || !got.Probe.SampledAt.Equal(*before.Probe.SampledAt) {
		t.Errorf("%s, %d rows of %s; want absent and the last rows", got.Probe.State, len(got.GPUs), show(got.Probe.SampledAt))
	}
	p.Expect(0)
	wantHealth(t, "gone, as a person knows", p.Probe(t.Context()), "")
	p.Expect(8)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantHealth(t, "gone for another reason", p.Probe(t.Context()), wire.HealthProbeFailed)
	os.Remove(path)
	wantHealth(t, "gone again", p.Probe(t.Context()), wire.HealthGPUCountDropped)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantHealth(t, "not executable", p.Probe(t.Context()), wire.HealthGPUCountDropped+" "+wire.HealthProbeFailed)
	os.Chmod(path, 0o700)
	wantHealth(t, "back", p.Probe(t.Context()), "")
}

// A run that cannot read the GPUs shows those that the run before has seen, without values.
func TestRowsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	m := eight()
	first, c := prober(t, m)
	first.State = dir
	first.Probe(t.Context())
	m.change(func(m *machine) { m.answer = &gpu.Output{Code: 9} })
	next, _ := prober(t, m)
	next.State = dir
	got := next.Probe(t.Context())
	if len(got.GPUs) != 8 || !got.Probe.SampledAt.Equal(c.at) {
		t.Fatalf("%d rows of %s", len(got.GPUs), show(got.Probe.SampledAt))
	}
	want := wire.GPU{Index: 7, UUID: h100(7)["uuid"], BusID: h100(7)["pci.bus_id"], Name: h100(7)["name"],
		MemorySource: wire.MemoryDevice, Vendor: wire.VendorNVIDIA, Health: []string{}}
	if !reflect.DeepEqual(got.GPUs[7], want) {
		t.Errorf("got %+v, want %+v", got.GPUs[7], want)
	}
}

// The gateway's number wins over what the agent remembers, be it more or less, and is kept over a restart.
func TestGatewayDecidesHowManyAreExpected(t *testing.T) {
	dir := t.TempDir()
	m := eight()
	p, _ := prober(t, m)
	p.State = dir
	p.Expected = 9
	wantHealth(t, "the credential's number", p.Probe(t.Context()), wire.HealthGPUCountDropped,
		"8 of 9 GPUs answer; gone: 1 whose UUIDs are not known")
	p.Expect(8)
	wantHealth(t, "fewer", p.Probe(t.Context()), "")
	m.change(func(m *machine) { m.gpus = m.gpus[:6] })
	p.Expect(6)
	wantHealth(t, "fewer again", p.Probe(t.Context()), "")
	next, _ := prober(t, m)
	next.State = dir
	next.Expected = 9
	wantHealth(t, "after a restart", next.Probe(t.Context()), "")
	next.Expect(7)
	wantHealth(t, "more", next.Probe(t.Context()), wire.HealthGPUCountDropped, "6 of 7")
	for _, absurd := range []int{-1, wire.MaxGPUs + 1} {
		next.Expect(absurd)
	}
	next.Expect(0)
	if got := next.Probe(t.Context()); show(got.GPUsExpected) != "null" {
		t.Errorf("%s expected, against the gateway's word", show(got.GPUsExpected))
	}
	m.change(func(m *machine) { m.gpus = eight().gpus[:7] })
	if got := next.Probe(t.Context()); show(got.GPUsExpected) != "7" {
		t.Errorf("%s expected, want one more than when the gateway said 0", show(got.GPUsExpected))
	}
}

// A person has lowered the number of expected GPUs. It stays so, though nvidia-smi still names the GPU that was given up, and later looks
// write nothing.
func TestGivenUpGPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eight()
		p, _ := prober(t, m)
		p.Now = nil
		p.State = t.TempDir()
		looked := 0
		go p.Run(t.Context(), time.Hour, func() { looked++ })
		time.Sleep(time.Minute)
		for range 5 { // five heartbeats are answered
			p.Expect(6)
			synctest.Wait()
		}
		if show(p.Reading().GPUsExpected) != "6" || looked != 2 {
			t.Errorf("%d looks, %s expected; want one for the news, and 6", looked, show(p.Reading().GPUsExpected))
		}
	})
	const lost = "Unable to determine the device handle for GPU7: 0000:1F:00.0: Unknown Error\n"
	m := eight()
	p, _ := prober(t, m)
	columns := strings.Split(allFields, ",")
	rows := ""
	for _, g := range m.gpus[:7] {
		rows += row(columns, g) + "\n"
	}
	p.Probe(t.Context())
	for _, answer := range []gpu.Output{{Stdout: []byte(rows), Stderr: []byte(lost)}, {Code: 15, Stdout: []byte(rows), Stderr: []byte(lost)}} {
		m.change(func(m *machine) { m.answer = &answer })
		p.Expect(8)
		wantHealth(t, "named as lost", p.Probe(t.Context()), wire.HealthGPUCountDropped, "7 of 8", "GPU-00000007")
		p.Expect(7)
		got := p.Probe(t.Context())
		wantHealth(t, "given up", got, "")
		if got.Probe.State != wire.ProbeOK || !strings.Contains(got.Probe.Error, "0000:1F:00.0") || show(got.GPUsExpected) != "7" {
			t.Errorf("given up, exit code %d: %s expected, %+v", answer.Code, show(got.GPUsExpected), got.Probe)
		}
	}
}

// A device that cannot say its UUID is known by its slot or its index.
func TestDeviceThatSaysNothing(t *testing.T) {
	m := eight()
	p, _ := prober(t, m)
	p.Probe(t.Context())
	lost := map[string]string{}
	for name := range m.gpus[3] {
		lost[name] = "[GPU is lost]"
	}
	for _, silent := range []map[string]string{lost, with(lost, "index", "3"), with(lost, "pci.bus_id", "00000000:1B:00.0")} {
		m.change(func(m *machine) {
			m.gpus = slices.Concat(eight().gpus[:3], []map[string]string{silent}, eight().gpus[4:7])
		})
		got := p.Probe(t.Context())
		wantHealth(t, "silent", got, wire.HealthGPUCountDropped+" "+wire.HealthGPUFault,
			"7 of 8 GPUs answer; gone: GPU-00000007-1111-2222-3333-444444444444 at 00000000:1F:00.0")
		_, detail := got.Health()
		if fault := detail[wire.HealthGPUFault]; !strings.HasPrefix(fault, h100(3)["uuid"]+" at 00000000:1B:00.0: gpu_is_lost") {
			t.Errorf("the fault is %q", fault)
		}
		if g := got.GPUs[3]; g.Name != "NVIDIA H100 80GB HBM3" || g.Index != 3 || g.MemoryTotalMiB != nil {
			t.Errorf("its row is %+v", g)
		}
	}
}

// If the record cannot be read or written, only the memory over a restart is lost.
func TestRecordIsForeign(t *testing.T) {
	for _, text := range []string{"", "null", "[]", `{"expected":-1}`, `{"expected":99999}`, `{"expected":"8"}`, `{"devices":[{}]}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "gpus.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, _ := prober(t, eight())
		p.State = dir
		wantHealth(t, text, p.Probe(t.Context()), "")
	}
	p, _ := prober(t, eight())
	p.State = filepath.Join(t.TempDir(), "none")
	wantHealth(t, "no directory", p.Probe(t.Context()), "")
	if !strings.Contains(p.Trouble(), "cannot be remembered") {
		t.Errorf("trouble %q", p.Trouble())
	}
}

// A probe that fails or hangs changes nothing: a missing GPU stays missing.
func TestFailureCuresNothing(t *testing.T) {
	m := eight()
	p, _ := prober(t, m)
	p.Probe(t.Context())
	m.change(func(m *machine) { m.gpus = m.gpus[:7] })
	p.Probe(t.Context())
	m.change(func(m *machine) {
		m.answer = &gpu.Output{Code: 9, Stdout: []byte("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")}
	})
	wantHealth(t, "failed", p.Probe(t.Context()), wire.HealthGPUCountDropped+" "+wire.HealthProbeFailed, "7 of 8")
}

func TestSevereFaults(t *testing.T) {
	for _, test := range []struct {
		name    string
		field   string
		value   string
		reasons string
		detail  string
	}{
		{"requires reset", "power.draw", "[GPU requires reset]", wire.HealthGPUFault,
			"GPU-00000001-1111-2222-3333-444444444444 at 00000000:19:00.0: gpu_requires_reset"},
		{"does not say who it is", "index", "[GPU requires reset]", wire.HealthGPUFault, "gpu_requires_reset; end the work on it, then reset it"},
		{"lost", "temperature.gpu", "[GPU is lost]", wire.HealthGPUFault, "gpu_is_lost; restart the machine"},
		{"reboot", "gpu_recovery_action", "Reboot", wire.HealthGPUFault, "recovery_action:reboot; restart the machine"},
		{"drain", "gpu_recovery_action", "Drain P2P", wire.HealthGPUFault, "recovery_action:drain_p2p; end the work"},
		{"drain and reset", "gpu_recovery_action", "Drain and Reset", wire.HealthGPUFault, "drain_and_reset"},
		{"a later word", "gpu_recovery_action", "Have a look", "", ""},
		{"remap failure", "remapped_rows.failure", "Yes", wire.HealthGPUFault, "row_remap_failure; the board"},
		{"remap waits", "remapped_rows.pending", "Yes", "", ""},
		{"uncorrected errors alone", "ecc.errors.uncorrected.volatile.total", "4", "", ""},
		{"a sensor", "temperature.gpu", "ERR!", "", ""},
		{"two sensors", "temperature.gpu,power.draw", "ERR!", "", ""},
		{"all of it", "temperature.gpu,power.draw,memory.used", "ERR!", wire.HealthGPUFault, "at 00000000:19:00.0: gpu_unreadable; restart"},
		{"all that this user may see", "temperature.gpu,power.draw,memory.used,memory.total", "[Insufficient Permissions]", "", ""},
		{"all, and why", "temperature.gpu,power.draw,memory.used", "[GPU requires reset]", wire.HealthGPUFault, "gpu_requires_reset; end"},
	} {
		values := h100(1)
		for _, field := range strings.Split(test.field, ",") {
			values[field] = test.value
		}
		p, _ := prober(t, newMachine(h100(0), values))
		got := p.Probe(t.Context())
		wantHealth(t, test.name, got, test.reasons, test.detail)
		if len(got.GPUs) != 2 || test.reasons != "" && len(got.GPUs[1].Health) == 0 {
			t.Errorf("%s: %d rows", test.name, len(got.GPUs))
		}
	}
}

// A row that cannot be read counts as a GPU, and is shown.
func TestRejectedRowsAreGPUs(t *testing.T) {
	m := newMachine(h100(0), h100(1))
	p, _ := prober(t, m)
	columns := strings.Split(allFields, ",")
	m.answer = &gpu.Output{Stdout: []byte(row(columns, h100(0)) + "\n1, GPU-00000001-1111, half a row\n1, again\n")}
	got := p.Probe(t.Context())
	wantHealth(t, "unread", got, wire.HealthProbeFailed, "1 of 2 GPUs answer", "1, GPU-00000001-1111, half a row")
	if show(got.GPUsExpected) != "2" || show(got.Seen) != "2" {
		t.Errorf("%s expected, %s seen, want 2 and 2", show(got.GPUsExpected), show(got.Seen))
	}
	m.change(func(m *machine) {
		m.answer.Stdout = []byte(row(columns, h100(0)) + "\n" + row(columns, h100(0)) + "\n")
	})
	if got := p.Probe(t.Context()); len(got.GPUs) != 1 || show(got.Seen) != "1" {
		t.Errorf("one device twice: %d rows, %s seen", len(got.GPUs), show(got.Seen))
	}
}

func TestInfoROMIsAWarning(t *testing.T) {
	p, _ := prober(t, newMachine())
	columns := strings.Split(allFields, ",")
	m := newMachine(h100(0))
	p.Exec = m.exec
	m.answer = &gpu.Output{Code: 14, Stdout: []byte(row(columns, h100(0)) + "\nWARNING: infoROM is corrupted at gpu 00000000:18:00.0\n")}
	got := p.Probe(t.Context())
	wantHealth(t, "whole rows", got, "")
	if got.Probe.State != wire.ProbeOK || !strings.Contains(got.Probe.Error, "infoROM is corrupted") {
		t.Errorf("got %+v", got.Probe)
	}
	p.Expect(2)
	wantHealth(t, "a row too few", p.Probe(t.Context()), wire.HealthGPUCountDropped)
}

// A new expected number brings the next look at once.
func TestExpectationBringsALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eight()
		p, _ := prober(t, m)
		p.Now = nil
		looked := 0
		go p.Run(t.Context(), time.Hour, func() { looked++ })
		time.Sleep(time.Minute)
		p.Expect(9)
		p.Expect(9)
		synctest.Wait()
		if got, _ := health(p.Reading()); got != wire.HealthGPUCountDropped || looked != 2 {
			t.Errorf("%d looks, health %q; want a second look that misses one", looked, got)
		}
	})
}

func TestThreeHundredGPUs(t *testing.T) {
	m := newMachine()
	for i := range 300 {
		m.gpus = append(m.gpus, with(h100(0), "index", fmt.Sprint(i), "uuid", fmt.Sprintf("GPU-%08x", i)))
	}
	p, _ := prober(t, m)
	if got := p.Probe(t.Context()); len(got.GPUs) != 300 || got.Probe.State != wire.ProbeOK {
		t.Errorf("%d rows, %+v", len(got.GPUs), got.Probe)
	}
}
