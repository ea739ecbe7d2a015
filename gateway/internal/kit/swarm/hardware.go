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
		h.GPUs = append(h.GPUs, gpu(i))
	}
	body, err := json.Marshal(h)
	if err != nil {
		panic("swarm: a reading does not encode: " + err.Error())
	}
	return body
}

// gpu is an H100 at work, with all that its driver tells, so that a heartbeat has its full size.
func gpu(i int) wire.GPU {
	return wire.GPU{
		Index: i, UUID: fmt.Sprintf("GPU-5ca1ab1e-0000-4000-8000-%012d", i), Name: "NVIDIA H100 80GB HBM3",
		BusID:             fmt.Sprintf("00000000:%02X:00.0", i+1),
		ComputeCapability: ref("9.0"), MemoryTotalMiB: ref[int64](81_559), MemoryUsedMiB: ref[int64](39_233), MemoryFreeMiB: ref[int64](41_726),
		MemoryReservedMiB: ref[int64](600), MemorySource: wire.MemoryDevice,
		UtilizationPercent: ref(99.0), MemoryUtilizationPercent: ref(41.0), EncoderUtilizationPercent: ref(0.0),
		DecoderUtilizationPercent: ref(0.0),
		TemperatureCelsius:        ref(64.0), MemoryTemperatureCelsius: ref(71.0),
		PowerWatts: ref(612.5), PowerLimitWatts: ref(700.0), PowerMaxLimitWatts: ref(700.0), PerformanceState: ref(0), PersistenceMode: ref(true),
		Clocks: &wire.Clocks{SMMHz: ref[int64](1980), MemoryMHz: ref[int64](2619), Reasons: []string{"sw_power_cap"}},
		PCIe:   &wire.PCIe{Generation: ref(5), GenerationMax: ref(5), Width: ref(16), WidthMax: ref(16)},
		ECC: &wire.ECC{Enabled: ref(true), CorrectedVolatile: ref[int64](0), UncorrectedVolatile: ref[int64](0),
			CorrectedAggregate: ref[int64](0), UncorrectedAggregate: ref[int64](0)},
		RemappedRows:   &wire.Remaps{Correctable: ref[int64](0), Uncorrectable: ref[int64](0), Pending: ref(false), Failure: ref(false)},
		RecoveryAction: ref("none"), Fabric: &wire.Fabric{State: ref("completed"), Status: ref("success")},
		MIG: ref(false), Processes: &wire.Processes{Count: ref(1), MemoryUsedMiB: ref[int64](38_600)}, Health: []string{},
	}
}

func ref[T any](v T) *T { return &v }
