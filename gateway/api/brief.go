package api

import (
	"slices"
	"time"
)

// Brief is what the console's page of the fleet shows of a node. It is a third of a Node, and what changes with each heartbeat stands in
// Live alone.
type Brief struct {
	Name         string            `json:"name"`
	Tenant       string            `json:"tenant"`
	Provider     string            `json:"provider"`
	Labels       map[string]string `json:"labels"`
	State        string            `json:"state"`
	StateReasons []string          `json:"state_reasons"`
	Status       string            `json:"status"`
	Unheard      bool              `json:"unheard,omitempty"`
	Fresh        bool              `json:"fresh"`
	GPUsExpected *int              `json:"gpus_expected"`
	GPUs         []BriefGPU        `json:"gpus"`
	PricePerHour *float64          `json:"price_per_hour"`
	DownCost     *float64          `json:"down_cost,omitempty"`
	IdleSince    *time.Time        `json:"idle_since"`
	Findings     []Finding         `json:"findings"`
	Live
}

// BriefGPU is what does not change with each heartbeat of a GPU.
type BriefGPU struct {
	Name         string     `json:"name"`
	MemoryMiB    *int64     `json:"memory_total_mib"`
	MemorySource string     `json:"memory_source"`
	MIG          *bool      `json:"mig"`
	Health       []string   `json:"health"`
	IdleSince    *time.Time `json:"idle_since"`
}

// Live is what changes with each heartbeat of a node.
type Live struct {
	ID       string     `json:"id"`
	LastSeen *time.Time `json:"last_seen"`
	ReadAt   *time.Time `json:"read_at"`
	Values   []Values   `json:"values"` // of each GPU; null if GPUs is
}

// Values are of one GPU: utilisation in percent, memory used in MiB, temperature in degrees Celsius, and power in watts.
type Values [4]*float64

// BriefOf takes what the page shows.
func BriefOf(g *NodeRow) Brief {
	b := Brief{Name: g.Name, Tenant: g.Tenant, Provider: g.Provider, Labels: g.Labels, State: g.State, StateReasons: g.StateReasons,
		Status: g.Status, Unheard: g.Unheard, Fresh: g.Fresh, GPUsExpected: g.GPUsExpected, PricePerHour: g.PricePerHour, DownCost: g.DownCost,
		IdleSince: g.IdleSince, Findings: g.Findings, Live: LiveOf(g)}
	if g.GPUs != nil {
		b.GPUs = make([]BriefGPU, len(g.GPUs))
	}
	for i := range b.GPUs {
		b.GPUs[i] = briefGPU(&g.GPUs[i])
	}
	return b
}

func briefGPU(g *GPU) BriefGPU {
	return BriefGPU{g.Name, g.MemoryMiB, g.MemorySource, g.MIG, g.Health, g.IdleSince}
}

// LiveOf takes what has changed since the heartbeat before. Times are cut to seconds: nobody sees more.
func LiveOf(g *NodeRow) Live {
	l := Live{ID: g.ID, LastSeen: second(g.LastSeen), ReadAt: second(g.ReadAt)}
	if g.GPUs != nil {
		l.Values = make([]Values, len(g.GPUs))
	}
	for i := range l.Values {
		gpu := &g.GPUs[i]
		l.Values[i] = Values{gpu.UtilizationPercent, nil, gpu.TemperatureCelsius, gpu.PowerWatts}
		if gpu.MemoryUsedMiB != nil {
			used := float64(*gpu.MemoryUsedMiB)
			l.Values[i][1] = &used
		}
	}
	return l
}

func second(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	cut := at.Truncate(time.Second)
	return &cut
}

// Reshaped reports whether a heartbeat has changed more of a Brief than its Live. It does not compare fields that no heartbeat changes.
func (g *NodeRow) Reshaped(was *NodeRow) bool {
	return g.Placement != was.Placement || g.Status != was.Status || g.Unheard != was.Unheard || g.Fresh != was.Fresh ||
		!same(g.IdleSince, was.IdleSince) ||
		(g.GPUs == nil) != (was.GPUs == nil) ||
		!slices.EqualFunc(g.GPUs, was.GPUs, func(a, b GPU) bool {
			return a.Name == b.Name && same(a.MemoryMiB, b.MemoryMiB) && a.MemorySource == b.MemorySource && same(a.MIG, b.MIG) &&
				slices.Equal(a.Health, b.Health) && same(a.IdleSince, b.IdleSince)
		})
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
