package api

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
)

// Count counts nodes and what they have. Retired nodes count as nodes alone, and only what is known of now is added up.
func Count(rows []*NodeRow) Totals {
	t := Totals{Nodes: len(rows), States: map[string]int{}, Statuses: map[string]int{}, Findings: map[string]int{}, Rent: RentOf(rows)}
	said := 0
	utilization := 0.0
	for _, g := range rows {
		t.States[g.State]++
		if g.State == wire.StateRetired {
			continue
		}
		t.Statuses[g.Status]++
		if g.Unheard {
			t.Unheard++
		}
		t.add(g)
		if !g.Fresh {
			t.GPUsUnknown++
			continue
		}
		t.GPUsSeen += len(g.GPUs)
		for i := range g.GPUs {
			gpu := &g.GPUs[i]
			t.addGPU(gpu)
			if gpu.UtilizationPercent != nil {
				said++
				utilization += *gpu.UtilizationPercent
			}
		}
	}
	if said > 0 {
		mean := utilization / float64(said)
		t.UtilizationPercent = &mean
	}
	return t
}

// StatusTexts counts the nodes by the status that people read.
func (t *Totals) StatusTexts() map[string]int {
	texts := maps.Clone(t.Statuses)
	if t.Unheard > 0 {
		texts[StatusUnheard] = t.Unheard
		texts[wire.StatusOnline] -= t.Unheard
	}
	maps.DeleteFunc(texts, func(_ string, n int) bool { return n == 0 })
	return texts
}

func (t *Totals) add(g *NodeRow) {
	if len(g.Findings) > 0 {
		t.Findings[g.Findings[0].Severity]++
	}
	if g.GPUsExpected != nil {
		t.GPUsExpected += *g.GPUsExpected
	}
	if g.Today != nil {
		Add(&t.IdleCostToday, g.Today.KnownIdleCost())
		Add(&t.CostToday, g.Today.Cost)
	}
}

// Add adds a value to a sum, which begins as nil: a value that is nil is not known, and a sum of nothing known is not known either.
func Add(sum **float64, value *float64) {
	if value == nil {
		return
	}
	if *sum == nil {
		*sum = new(float64)
	}
	**sum += *value
}

// addGPU leaves out memory of which only one figure is known: the sums would not belong together.
func (t *Totals) addGPU(g *GPU) {
	switch g.Use {
	case UseIdle:
		t.GPUsIdle++
	case UseQuiet:
		t.GPUsQuiet++
	case UseBusy:
		t.GPUsBusy++
	}
	if g.MemoryUsedMiB != nil && g.MemoryMiB != nil && g.MemorySource != wire.MemoryUnified {
		t.MemoryUsedMiB += *g.MemoryUsedMiB
		t.MemoryMiB += *g.MemoryMiB
	}
	Add(&t.PowerWatts, g.PowerWatts)
}

// Orders of a list of nodes. Names begin with the first, and values with the highest; a minus before the word turns that round. What is
// not known comes last in any case.
const (
	SortName        = "name"
	SortAttention   = "attention" // what needs a person first, the rest by name
	SortTenant      = "tenant"
	SortState       = "state"
	SortStatus      = "status"
	SortFindings    = "findings" // the severest first
	SortGPUs        = "gpus"
	SortUtilization = "utilization"
	SortMemory      = "memory" // the share that is used
	SortTemperature = "temperature"
	SortPower       = "power"
	SortPrice       = "price"
	SortIdle        = "idle" // the longest first
	SortSeen        = "seen" // the latest first
)

// Sorts are the orders of a list of nodes.
func Sorts() []string {
	return []string{SortName, SortTenant, SortState, SortStatus, SortFindings, SortGPUs, SortUtilization, SortMemory, SortTemperature,
		SortPower, SortPrice, SortIdle, SortSeen, SortAttention}
}

// IsSort reports whether a text is one of Sorts, with or without a minus.
func IsSort(sort string) bool {
	return slices.Contains(Sorts(), strings.TrimPrefix(sort, "-"))
}

// Sort sorts nodes that are sorted by name. Those that are equal stay in their order.
func Sort(rows []*NodeRow, sort string) {
	by, turned := strings.CutPrefix(sort, "-")
	keys := make(map[*NodeRow]sortKey, len(rows))
	for _, g := range rows {
		keys[g] = keyOf(g, by)
	}
	slices.SortStableFunc(rows, func(a, b *NodeRow) int { return keys[a].compare(keys[b], turned) })
}

// sortKey is what a node is sorted by: a text or a value.
type sortKey struct {
	text  string
	value float64
	known bool
}

func (k sortKey) compare(other sortKey, turned bool) int {
	if k.known != other.known {
		if k.known {
			return -1
		}
		return 1
	}
	order := cmp.Or(strings.Compare(k.text, other.text), cmp.Compare(other.value, k.value))
	if turned {
		return -order
	}
	return order
}

func keyOf(g *NodeRow, by string) sortKey {
	switch by {
	case SortAttention:
		return sortKey{value: float64(g.attention()), known: true}
	case SortTenant:
		return sortKey{text: g.Tenant, known: true}
	case SortState:
		return sortKey{text: g.State, known: true}
	case SortStatus:
		return sortKey{text: g.Status, known: true}
	case SortFindings:
		return sortKey{value: float64(g.severity()), known: true}
	case SortGPUs:
		return sortKey{value: float64(len(g.GPUs)), known: g.GPUs != nil}
	case SortUtilization:
		return mean(g.GPUs, func(gpu *GPU) *float64 { return gpu.UtilizationPercent })
	case SortMemory:
		return mean(g.GPUs, (*GPU).MemoryShare)
	case SortTemperature:
		return highest(g.GPUs, func(gpu *GPU) *float64 { return gpu.TemperatureCelsius })
	case SortPower:
		return sum(g.GPUs, func(gpu *GPU) *float64 { return gpu.PowerWatts })
	case SortPrice:
		return valueKey(g.PricePerHour)
	case SortIdle:
		if g.IdleSince == nil {
			return sortKey{}
		}
		return sortKey{value: -float64(g.IdleSince.UnixMilli()), known: true}
	case SortSeen:
		if g.LastSeen == nil {
			return sortKey{}
		}
		return sortKey{value: float64(g.LastSeen.UnixMilli()), known: true}
	}
	return sortKey{text: g.Name, known: true}
}

func valueKey(v *float64) sortKey {
	if v == nil {
		return sortKey{}
	}
	return sortKey{value: *v, known: true}
}

// attention is higher where a node needs a person sooner; 0: it needs none.
func (g *NodeRow) attention() int {
	switch {
	case g.State == wire.StateRetired:
		return 0
	case g.State == wire.StateUnavailable, g.Status == wire.StatusStale:
		return SeverityRank(SeveritySevere)
	}
	return g.severity()
}

// severity is higher where the worst finding is worse; 0: there is none.
func (g *NodeRow) severity() int {
	if len(g.Findings) == 0 {
		return 0
	}
	return SeverityRank(g.Findings[0].Severity)
}

// Severities returns the severities of findings and alerts, the least first.
func Severities() []string { return []string{SeverityNote, SeverityWarn, SeveritySevere} }

// SeverityRank orders severities: a worse one is higher. An unknown one is the least.
func SeverityRank(word string) int { return slices.Index(Severities(), word) + 1 }

// MemoryShare is how full the GPU's own memory is, in percent; nil: that is not known.
func (g *GPU) MemoryShare() *float64 {
	if g.MemoryUsedMiB == nil || g.MemoryMiB == nil || *g.MemoryMiB <= 0 || g.MemorySource == wire.MemoryUnified {
		return nil
	}
	share := float64(*g.MemoryUsedMiB) / float64(*g.MemoryMiB) * 100
	return &share
}

// sum adds the values that are known.
func sum(gpus []GPU, value func(*GPU) *float64) sortKey {
	var k sortKey
	for i := range gpus {
		if v := value(&gpus[i]); v != nil {
			k.value += *v
			k.known = true
		}
	}
	return k
}

func mean(gpus []GPU, value func(*GPU) *float64) sortKey {
	known := 0
	for i := range gpus {
		if value(&gpus[i]) != nil {
			known++
		}
	}
	k := sum(gpus, value)
	if known > 0 {
		k.value /= float64(known)
	}
	return k
}

func highest(gpus []GPU, value func(*GPU) *float64) sortKey {
	var k sortKey
	for i := range gpus {
		if v := value(&gpus[i]); v != nil && (!k.known || *v > k.value) {
			k.value = *v
			k.known = true
		}
	}
	return k
}

// LargestFleet is how many nodes one page of GET fleet has at most.
const LargestFleet = 20_000

// FleetView answers GET fleet: the nodes that the query names, and the totals of all that match it.
type FleetView struct {
	At     time.Time `json:"at"` // of the gateway's clock
	Totals Totals    `json:"totals"`
	Next   string    `json:"next"`  // empty: this is the last page
	Nodes  []NodeRow `json:"nodes"` // the last member: the gateway sends them as it goes
}

// FleetFilter picks nodes. A zero field does not count.
type FleetFilter struct {
	Selector string `json:"selector,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Status   string `json:"status,omitempty"`
	State    string `json:"state,omitempty"`
	Idle     bool   `json:"idle,omitempty"`   // nodes whose GPUs are all idle
	Unwell   bool   `json:"unwell,omitempty"` // nodes with findings
	All      bool   `json:"all,omitempty"`    // retired ones too
	Sort     string `json:"sort,omitempty"`
	Limit    int    `json:"limit" least:"0" most:"20000" usual:"100"` // 0: the totals alone; most: LargestFleet
	Cursor   string `json:"cursor,omitempty"`
}
