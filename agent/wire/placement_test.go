package wire_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestTaskIncludes: what a task does beside its own type is asked for too, and the secrets that it needs are known.
func TestTaskIncludes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		params            wire.TaskParams
		includes, secrets []string
	}{
		{&wire.NodeCheck{Checks: []string{wire.CheckKVM}}, nil, nil},
		{&wire.NodeCheck{Checks: []string{wire.CheckProgram}, Image: goodImage, Login: "nvcr"},
			[]string{wire.TaskWorkloadLaunch}, []string{"nvcr"}},
		{&wire.GPUClean{Allocation: goodID}, []string{wire.TaskWorkloadStop}, nil},
		{&wire.GPUClean{Allocation: goodID, Users: []string{"ada"}}, []string{wire.TaskWorkloadStop, wire.TaskDeprovisionUser}, nil},
		{&wire.DiagCollect{}, nil, nil},
	} {
		if got := wire.TaskIncludes(c.params); !reflect.DeepEqual(got, c.includes) {
			t.Errorf("%+v includes %v", c.params, got)
		}
		if got := wire.TaskSecretNames(c.params); !slices.Equal(got, c.secrets) {
			t.Errorf("%+v needs %v", c.params, got)
		}
	}
	launch := &wire.WorkloadLaunch{Name: "llm"}
	if clean := (&wire.GPUClean{Allocation: goodID}); !clean.Subject().Meets(launch.Subject()) {
		t.Error("a launch may come between what a cleaning does")
	}
}

// evidence is the vector, as the value of a task, with one text replaced.
func evidence(t testing.TB, old, text string) wire.TaskValues {
	return vector(t, "evidence", old, text)
}

func vector(t testing.TB, name, old, text string) wire.TaskValues {
	t.Helper()
	var into any = &wire.Evidence{}
	if name == "cleaning" {
		into = &wire.Cleaning{}
	}
	raw := read(t, name+".json")
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(into)
	if err != nil || strings.Count(string(raw), old) == 0 && old != "" {
		t.Fatalf("%v, or %s is not in %s", err, old, raw)
	}
	return wire.TaskValues{name: json.RawMessage(strings.Replace(string(raw), old, text, 1))}
}

// TestReadEvidence: what a node sends is taken as it is, or not at all.
func TestReadEvidence(t *testing.T) {
	t.Parallel()
	got, err := wire.ReadEvidence(evidence(t, "", ""))
	if err != nil || got.Facts.PCI[0].Device != "2335" || *got.Facts.Accelerators[0].Module != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := wire.ReadEvidence(evidence(t, `{"profile"`, `{"later":[1],"profile"`)); err != nil {
		t.Errorf("a field of a later version: %v", err)
	}
	device := `{"address":"0000:1a:00.0","vendor":"10de"`
	check := `{"name":"fabric","state":"ok","saw":"8 of 8 completed"}`
	for old, text := range map[string]string{
		`"gpuaas-profile-baremetal"`: `"a b"`, `5d1e3b0c`: strings.Repeat("a", 64), `"took_ms":1840`: `"took_ms":-1`, `Dell Inc.`: `Dell\n`,
		`"1653923000001"`: `"\u0007"`, `"2335"`: `"233"`, `"030200"`: `"03020X"`, `"0000:1a:00.0"`: `"0000:1A:00.0"`, `"0000:15:01.0"`: `"../x"`,
		`"numa":1`: `"numa":-1`, `"iommu_group":27`: `"iommu_group":-1`, `"width_max":16`: `"width_max":0`, `"module":2`: `"module":-1`,
		`143771`: `0`, `"links":18`: `"links":-1`, `"MIG-3f1c2a90`: `"x`, `"GPU-3f1c2a90-`: `"PCI-`, `"fabric"`: `"unheard_of"`, `"ok"`: `"good"`,
		`8 of 8 completed`: strings.Repeat("a", wire.MaxSaw+1), `"disk_write"`: `"disk write"`, `1830.5`: `-1`, `"MB/s"`: `""`,
		`{"profile"`: `["profile"`, `"at":"2026`: `"at":"0000`,
		device: device + `,"device":"2335","class":"030200"},` + device, check: check + "," + check,
		`"checks":[`: `"checks":[` + strings.Repeat(check+",", wire.MaxChecks),
	} {
		if got, err := wire.ReadEvidence(evidence(t, old, text)); err == nil || !reflect.DeepEqual(got, wire.Evidence{}) && old != `{"profile"` {
			t.Errorf("%s as %s was taken: %v", old, text, err)
		}
	}
	for _, values := range []wire.TaskValues{nil, {wire.ValueEvidence: json.RawMessage(`{"profile":"` +
		strings.Repeat("a", wire.MaxTaskValues) + `"}`)}} {
		if _, err := wire.ReadEvidence(values); err == nil {
			t.Error("no evidence, or one that is too long, was taken")
		}
	}
}

// TestReadCleaning: a cleaning that contradicts itself is none.
func TestReadCleaning(t *testing.T) {
	t.Parallel()
	left := func(old, text string) wire.TaskValues {
		values := vector(t, "cleaning", old, text)
		values[wire.ValueCleaning] = json.RawMessage(strings.Replace(string(values[wire.ValueCleaning]), `"clean":true`, `"clean":false`, 1))
		return values
	}
	got, err := wire.ReadCleaning(left("", ""))
	if err != nil || got.Clean || got.Left[0].Next != "end it: kill 4711" {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, values := range []wire.TaskValues{
		{}, vector(t, "cleaning", "", ""), left(`"GPU-3f1c2a90`, `"x`), left(`process 4711 (python) of ada has it open`, ``),
		left(`end it: kill 4711`, `a\nb`), left(`the container train`, strings.Repeat("a", wire.MaxSaw+1)),
		left(`"removed":[`, `"removed":[`+strings.Repeat(`"a",`, wire.MaxLeft)),
		{wire.ValueCleaning: json.RawMessage(`{"clean":false,"removed":[],"left":[]}`)}, {wire.ValueCleaning: json.RawMessage(`7`)},
	} {
		if got, err := wire.ReadCleaning(values); err == nil {
			t.Errorf("%s was taken as %+v", values, got)
		}
	}
}

func FuzzReadEvidence(f *testing.F) {
	f.Add([]byte(read(f, "evidence.json")))
	f.Add([]byte(`{"facts":{"pci":[{"address":"0000:00:00.0"}],"accelerators":null},"checks":[{"name":"kvm","state":"unknown"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := wire.ReadEvidence(wire.TaskValues{wire.ValueEvidence: raw})
		if err != nil {
			return
		}
		for _, c := range e.Checks {
			if len(c.Saw) > wire.MaxSaw || strings.ContainsAny(c.Saw, "\n\x1b") {
				t.Errorf("%q was taken", c.Saw)
			}
		}
		for _, d := range e.Facts.PCI {
			if !wire.PCIAddress(d.Address) || strings.ContainsAny(d.Address, "/ ") || len(d.Class) != 6 {
				t.Errorf("%+v was taken", d)
			}
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("it cannot be kept: %v", err)
		}
	})
}

func FuzzReadCleaning(f *testing.F) {
	f.Add([]byte(`{"clean":false,"removed":["a"],"left":[{"gpu":"` + goodGPU + `","what":"b","next":"c"}]}`))
	f.Add([]byte(`{"clean":true}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := wire.ReadCleaning(wire.TaskValues{wire.ValueCleaning: raw})
		if err == nil && c.Clean && len(c.Left) > 0 {
			t.Errorf("%s was taken", raw)
		}
	})
}
