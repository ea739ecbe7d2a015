package cli

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"muster/agent/wire"
)

// show prints all that is known of a node, for a person; identity is what there is to say of its certificates.
func (v view) show(w io.Writer, identity [][]string) {
	fmt.Fprintln(w, orUnknown(v.Name))
	rows := [][]string{
		{"  id", orUnknown(v.ID)},
		{"  tenant", orUnknown(v.Tenant)},
		{"  state", v.stateLine()},
		{"  status", v.statusLine()},
		{"  provider", strings.TrimSuffix(orUnknown(v.Provider)+" "+printable(v.InstanceID), " ")},
		{"  labels", labelText(v.Labels)},
		{"  address", orUnknown(v.Address)},
		{"  agent", v.agentLine()},
		{"  certificate", v.certificateLine()},
		{"  clock", v.clockLine()},
		{"  created", stamp(&v.CreatedAt)},
	}
	rows = append(rows, identity...)
	rows = append(rows, v.hardwareRows()...)
	for _, notice := range v.Notices {
		rows = append(rows, []string{"  notice", printable(notice)})
	}
	columns(w, rows)
}

func (v view) stateLine() string {
	text := v.state(true)
	if v.Banned {
		text += ", banned"
	}
	if v.StateSince.IsZero() {
		return text
	}
	return text + ", since " + age(v.now.Sub(v.StateSince))
}

func (v view) statusLine() string {
	if v.LastSeen == nil {
		return orUnknown(v.Status) + ", not heard from"
	}
	return orUnknown(v.Status) + ", seen " + v.since(v.LastSeen) + " ago"
}

func (v view) clockLine() string {
	if v.SkewMillis == nil {
		return unknown
	}
	seconds := float64(*v.SkewMillis) / 1000
	switch {
	case math.Abs(seconds) < 0.05:
		return "as the gateway's"
	case seconds < 0:
		return fmt.Sprintf("%.1fs ahead of the gateway", -seconds)
	}
	return fmt.Sprintf("%.1fs behind the gateway", seconds)
}

func (v view) agentLine() string {
	if v.Agent == nil {
		return unknown
	}
	return orUnknown(v.Agent.Version) + " " + orUnknown(v.Agent.OS) + "/" + orUnknown(v.Agent.Arch)
}

func (v view) certificateLine() string {
	if v.Certificate == nil {
		return unknown
	}
	when := v.expiry()
	if !strings.HasPrefix(when, "expired") {
		when = "expires in " + when
	}
	if v.Certificate.RenewalOverdue {
		when += ", renewal overdue"
	}
	return fmt.Sprintf("generation %d, %s, %s", v.Certificate.Generation, when, orUnknown(v.Certificate.Fingerprint))
}

func (v view) hardwareRows() [][]string {
	h := v.hardware
	if h == nil {
		return [][]string{{"  hardware", "not reported"}}
	}
	rows := [][]string{{"  probe", v.probeLine()}, {"  driver", text(h.DriverVersion)}, {"  gpus", v.gpus()}}
	for _, g := range h.GPUs {
		rows = append(rows, []string{fmt.Sprintf("  gpu %d", g.Index), gpuLine(g)})
	}
	return append(rows,
		[]string{"  host", fmt.Sprintf("%s CPUs, load %s, memory %s/%s MiB, disk %s/%s MiB", number(h.CPUs), decimal(h.Load1, ""),
			number(h.MemoryUsedMiB), number(h.MemoryTotalMiB), number(h.DiskUsedMiB), number(h.DiskTotalMiB))},
		[]string{"  kernel", text(h.Kernel) + ", booted " + stamp(h.BootTime)})
}

func (v view) probeLine() string {
	p := v.hardware.Probe
	line := v.probe()
	if p.TookMS != nil {
		line += fmt.Sprintf(", took %d ms", *p.TookMS)
	}
	if p.SampledAt != nil {
		line += ", sampled " + v.since(p.SampledAt) + " ago"
	}
	if p.Error != "" {
		line += ": " + printable(p.Error)
	}
	return line
}

func gpuLine(g wire.GPU) string {
	memory := number(g.MemoryUsedMiB) + "/" + number(g.MemoryTotalMiB) + " MiB"
	if g.MemorySource == wire.MemoryUnified {
		memory += " unified"
	}
	line := fmt.Sprintf("%s, %s, %s, %s, %s of %s, %s %s", orUnknown(g.Name), memory, decimal(g.UtilizationPercent, "%"),
		decimal(g.TemperatureCelsius, " C"), decimal(g.PowerWatts, " W"), decimal(g.PowerLimitWatts, " W"), orUnknown(g.BusID), orUnknown(g.UUID))
	if g.MIG != nil && *g.MIG {
		line += ", MIG"
	}
	if len(g.Health) > 0 {
		line += ", " + printable(strings.Join(g.Health, ", "))
	}
	return line
}

func text(s *string) string {
	if s == nil {
		return unknown
	}
	return orUnknown(*s)
}

func number[N int | int64](n *N) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

func decimal(f *float64, unit string) string {
	if f == nil {
		return unknown
	}
	return fmt.Sprintf("%.4g%s", *f, unit)
}

func stamp(at *time.Time) string {
	if at == nil {
		return unknown
	}
	return at.UTC().Format(time.RFC3339)
}
