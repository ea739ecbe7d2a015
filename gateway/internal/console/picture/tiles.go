package picture

import (
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Tile is one figure of the whole fleet. web/assets/fleetorder.js counts the same from what it has.
type Tile struct {
	Name string // for scripts
	Big  string
	Text string
	Bad  bool
}

// TilesOf returns the figures in their order.
func TilesOf(t api.Totals) []Tile {
	nodes := Tile{Name: "nodes", Big: Many(t.Nodes), Text: statusText(t), Bad: t.Statuses[wire.StatusStale] > 0}
	seen := Many(t.GPUsSeen)
	unread := t.GPUsSeen == 0 && t.GPUsUnknown > 0
	if unread {
		seen = Unknown
	}
	gpus := Tile{Name: "gpus", Big: seen + " of " + Many(t.GPUsExpected), Text: "GPUs seen of those expected",
		Bad: t.GPUsSeen < t.GPUsExpected}
	if t.GPUsExpected == 0 {
		gpus.Big = seen
		gpus.Text = "GPUs seen"
	}
	if t.GPUsUnknown > 0 {
		gpus.Text = "GPUs seen; nodes without a reading: " + Many(t.GPUsUnknown)
	}
	busy := Tile{Name: "utilization", Big: Unknown, Text: "mean utilisation"}
	if t.UtilizationPercent != nil {
		busy.Big = whole(*t.UtilizationPercent) + " %"
	}
	memory := Tile{Name: "memory", Big: Unknown, Text: "GPU memory used"}
	if t.MemoryMiB > 0 {
		memory.Big = usedText(t.MemoryUsedMiB, t.MemoryMiB)
		memory.Text = "of " + gibText(t.MemoryMiB) + " GPU memory"
	}
	power := Tile{Name: "power", Big: Unknown, Text: "power of the GPUs"}
	if t.PowerWatts != nil {
		power.Big = wattText(*t.PowerWatts)
	}
	price := Tile{Name: "price", Big: Unknown, Text: "price per hour"}
	if t.PricePerHour != nil {
		price.Big = hundredth(*t.PricePerHour)
		price.Text = "per hour; nodes with a price: " + Many(t.Priced)
	}
	idle := Tile{Name: "idle", Big: Many(t.GPUsIdle), Text: "idle GPUs"}
	if unread {
		idle.Big = Unknown
	}
	return []Tile{nodes, gpus, busy, memory, power, idle, price}
}

// statusText names the statuses that there are, the good one first.
func statusText(t api.Totals) string {
	var parts []string
	by := t.StatusTexts()
	for _, status := range []string{wire.StatusOnline, api.StatusUnheard, wire.StatusStale, wire.StatusPending} {
		if n := by[status]; n > 0 {
			parts = append(parts, Many(n)+" "+status)
		}
	}
	return strings.Join(append([]string{"nodes"}, parts...), " · ")
}
