package smi_test

import (
	"strings"
	"testing"

	"muster/agent/internal/gpu/smi"
)

// TestModule: older drivers give the number of a module beside the UUID, newer ones among what they say of the platform.
func TestModule(t *testing.T) {
	for _, text := range []string{
		"GPU 00000000:1A:00.0\n    GPU UUID                              : GPU-1\n    Module ID                             : 2\n",
		"GPU 00000000:1A:00.0\n    GPU UUID                              : GPU-1\n    Platform Info\n" +
			"        Chassis Serial Number             : N/A\n        Module Id                         : 2\n" +
			"        GPU Fabric GUID                   : N/A\n    Inforom Version\n        Image Version                     : 1\n",
	} {
		if g := smi.Parse([]byte(text))["GPU-1"]; g.Module == nil || *g.Module != 2 || g.Serial != "" {
			t.Errorf("%s: %+v", text, g)
		}
	}
}

// FuzzParse: whatever nvidia-smi answers, what is read of it is plain and within bounds.
func FuzzParse(f *testing.F) {
	f.Add([]byte("GPU 00000000:1A:00.0\n    Serial Number : 1\n    GPU UUID : GPU-1\n    MODULE ID : 2\n    MIG Device\n" +
		"        GPU Instance ID : 1\n        FB Memory Usage\n            Used : 25 MiB\n    Processes\n" +
		"        GPU instance ID : 1\n        Process ID : 4711\n            Type : C\n            Name : python\n"))
	f.Add([]byte("GPU \n    MIG Device\n        Used : 1 MiB\n    Module Id : 999\n    Processes\n            Type : G\n        Process ID : -1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for uuid, g := range smi.Parse(text) {
			if strings.ContainsAny(uuid+g.Serial, "\n\x00\x1b") || g.Module != nil && (*g.Module < 0 || *g.Module > 255) {
				t.Errorf("%q: %+v", uuid, g)
			}
			for _, p := range g.Processes {
				if p.PID < 0 || strings.ContainsAny(p.Name, "\n\x1b") {
					t.Errorf("%+v", p)
				}
			}
			for _, p := range g.Parts {
				if p.UsedMiB != nil && *p.UsedMiB < 0 {
					t.Errorf("%+v", p)
				}
			}
		}
	})
}
