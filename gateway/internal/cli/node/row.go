package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// view is a node with its hardware read, as of now.
type view struct {
	api.Node
	hardware *wire.Hardware // nil: never reported
	now      time.Time
	narrow   bool // sums of memory are shown in GiB
}

// roomy is a screen, in columns, that has room for sums of memory in MiB. A narrower one shows GiB.
const roomy = 110

func viewOf(n api.Node, now time.Time) view {
	v := view{Node: n, now: now}
	_ = json.Unmarshal(n.Hardware, &v.hardware) // a reading that this version does not understand is an unknown one
	return v
}

func nodeColumns() []screen.Column {
	return []screen.Column{
		{Name: "NAME", Least: 20, Most: 40},
		{Name: "TENANT", Rank: 7, Least: 8, Most: 24},
		{Name: "PROVIDER", Rank: 8, Least: 8, Most: 24},
		{Name: "GPU", Least: 16, Most: 40},
		{Name: "MEMORY", Rank: 4, Most: 24},
		{Name: "UTIL", Rank: 3},
		{Name: "STATE", Least: 11, Most: 12},
		{Name: "STATUS", Rank: 2},
		{Name: "SEEN", Rank: 5},
		{Name: "RUNS", Most: 40, Wide: true},
		{Name: "PROFILE", Most: 24, Wide: true},
		{Name: "CAPACITY", Wide: true},
		{Name: "OWNERS", Most: 40, Wide: true},
		{Name: "HEALTH", Most: 40, Wide: true},
		{Name: "READ", Wide: true},
		{Name: "ID", Wide: true},
		{Name: "VERSION", Most: 24, Wide: true},
		{Name: "CHANNEL", Most: 24, Wide: true},
		{Name: "UPDATE", Most: 40, Wide: true},
		{Name: "ADDRESS", Most: 40, Wide: true},
		{Name: "LABELS", Most: 40, Wide: true},
		{Name: "CERT", Wide: true},
		{Name: "PROBE", Wide: true},
		{Name: "SKEW", Wide: true},
		{Name: "INSTANCE", Most: 24, Wide: true},
	}
}

// row has a cell for each of nodeColumns, in their order.
func (v view) row(wide bool) []string {
	return []string{v.Name, v.Tenant, v.Provider, v.mark() + v.gpus(), v.aged(v.memory()), v.aged(v.utilization()), v.state(wide), v.status(),
		v.since(v.LastSeen), v.runs(), v.profile(), v.capacity(), v.owners(), v.ills(), v.readAge(), v.ID, v.version(), v.channel(), v.update(),
		v.Address, screen.Labels(v.Labels), v.expiry(), v.probe(), v.skew(), v.InstanceID}
}

func (v view) profile() string {
	if v.Placement == nil {
		return ""
	}
	return v.Placement.Profile
}

// capacity is what the node gives now.
func (v view) capacity() string {
	if v.Placement == nil {
		return ""
	}
	return v.Placement.Capacity
}

// owners are those who have its GPUs, with how many each has.
func (v view) owners() string {
	if v.Placement == nil {
		return ""
	}
	counts := map[string]int{}
	for _, h := range v.Placement.Holds {
		counts[h.Owner]++
	}
	var parts []string
	for _, owner := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%dx %s", counts[owner], owner))
	}
	return strings.Join(parts, ", ")
}

// status is online, stale or pending, or online? of a node that was not heard since the gateway's start. A retired node has none.
func (v view) status() string {
	if v.State == wire.StateRetired {
		return screen.Unknown
	}
	return screen.OrUnknown(v.StatusText())
}

// state is the state with its reasons where they are asked for. An overdue renewal is always named: it soon becomes a reason.
func (v view) state(reasons bool) string {
	var notes []string
	if reasons {
		notes = append(notes, v.StateReasons...)
	}
	if c := v.Certificate; c != nil && c.RenewalOverdue && !slices.Contains(v.StateReasons, wire.ReasonExpired) {
		notes = append(notes, "renewal overdue")
	}
	if len(notes) == 0 {
		return screen.OrUnknown(v.State)
	}
	return screen.OrUnknown(v.State) + " (" + screen.Printable(strings.Join(notes, ", ")) + ")"
}

func (v view) since(at *time.Time) string {
	if at == nil {
		return screen.Unknown
	}
	return screen.Age(v.now.Sub(*at))
}

func (v view) version() string {
	if v.Agent == nil {
		return ""
	}
	return v.Agent.Version
}

func (v view) expiry() string {
	if v.Certificate == nil {
		return screen.Unknown
	}
	if left := v.Certificate.NotAfter.Sub(v.now); left > 0 {
		return screen.Age(left)
	}
	return "expired " + screen.Age(v.now.Sub(v.Certificate.NotAfter)) + " ago"
}

// probe is the probe's state. If the state is bad, it also says since when.
func (v view) probe() string {
	if v.hardware == nil {
		return screen.Unknown
	}
	p := v.hardware.Probe
	if p.Since == nil || p.State == wire.ProbeOK || p.State == wire.ProbeAbsent {
		return screen.OrUnknown(p.State)
	}
	return screen.OrUnknown(p.State) + " " + v.since(v.byGateway(p.Since))
}

func (v view) skew() string {
	if v.SkewMillis == nil {
		return screen.Unknown
	}
	return fmt.Sprintf("%+.1fs", float64(*v.SkewMillis)/1000)
}
