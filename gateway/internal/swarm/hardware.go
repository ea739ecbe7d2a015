package main

import (
	"encoding/json"
	"fmt"
	"time"

	"muster/agent/wire"
)

// reading is a wire.Hardware in JSON with this many GPUs, as an agent on such a machine sends it.
func reading(gpus int) json.RawMessage {
	now := time.Now().UTC().Truncate(time.Second)
	h := wire.Hardware{
		Probe:         wire.Probe{State: wire.ProbeOK, Since: &now, TookMS: ref[int64](41), SampledAt: &now},
		DriverVersion: ref("550.54.15"), CPUs: ref(16), MemoryTotalMiB: ref[int64](128_000), MemoryUsedMiB: ref[int64](21_500),
		DiskTotalMiB: ref[int64](900_000), DiskUsedMiB: ref[int64](120_000), Load1: ref(1.25), Kernel: ref("6.1.0-18-amd64"), BootTime: &now,
	}
	for i := range gpus {
		h.GPUs = append(h.GPUs, wire.GPU{
			Index: i, UUID: fmt.Sprintf("GPU-5ca1ab1e-0000-4000-8000-%012d", i), Name: "NVIDIA H100 80GB HBM3", BusID: fmt.Sprintf("00000000:%02X:00.0", i+1),
			MemoryTotalMiB: ref[int64](81_559), MemoryUsedMiB: ref[int64](39_233), MemorySource: wire.MemoryDevice,
			UtilizationPercent: ref(99.0), TemperatureCelsius: ref(64.0), PowerWatts: ref(612.5), PowerLimitWatts: ref(700.0),
			MIG: ref(false), Health: []string{},
		})
	}
	body, err := json.Marshal(h)
	if err != nil {
		panic("swarm: a reading does not encode: " + err.Error())
	}
	return body
}

func ref[T any](v T) *T { return &v }
