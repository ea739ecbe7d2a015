package picture

import (
	"fmt"
	"strings"

	"muster/gateway/api"
)

// Heat is one node of the heat map: a cell for each GPU. A path draws all cells of one step of the scale.
type Heat struct {
	Width   int
	Steps   []Step
	Unknown string
	Cross   string // missing and faulty
	Says    string
}

// Step is what has one colour.
type Step struct {
	Step int
	Path string
}

// What the colours of the heat map say. Any other word is as ByUtilization.
const (
	ByUtilization = "utilization"
	ByMemory      = "memory"
	ByTemperature = "temperature"
)

const (
	cell     = 12
	cellGap  = 2
	lastStep = 5
)

func heatOf(n *api.NodeRow, by string) Heat {
	gone := n.MissingGPUs()
	gpus := rowsOf(n)
	h := Heat{Width: max((len(gpus)+gone)*(cell+cellGap)-cellGap, cell)}
	var steps [lastStep + 1]string
	values := make([]string, 0, len(gpus))
	for i := range gpus {
		x := i * (cell + cellGap)
		value := heatValue(&gpus[i], by)
		switch {
		case value == nil, !n.Fresh:
			h.Unknown += square(x)
			values = append(values, Unknown)
		default:
			steps[stepOf(*value, by)] += square(x)
			values = append(values, whole(*value)+heatUnit(by))
		}
		if len(gpus[i].Health) > 0 {
			h.Cross += crossAt(x)
		}
	}
	for i := range gone {
		x := (len(gpus) + i) * (cell + cellGap)
		h.Unknown += square(x)
		h.Cross += crossAt(x)
	}
	switch {
	case n.GPUs == nil && len(gpus) == 0:
		h.Unknown = square(0)
	case len(gpus)+gone == 0:
		values = append(values, gpuText(n))
	}
	for step, path := range steps {
		if path != "" {
			h.Steps = append(h.Steps, Step{step, path})
		}
	}
	if gone > 0 {
		values = append(values, fmt.Sprintf("%d missing", gone))
	}
	h.Says = n.Name + ": " + Dash(strings.Join(values, ", "))
	return h
}

func square(x int) string { return fmt.Sprintf("M%d 0h%dv%dh-%dz", x, cell, cell, cell) }

func crossAt(x int) string { return fmt.Sprintf("M%d 2l8 8m0 -8l-8 8", x+2) }

func heatValue(g *api.GPU, by string) *float64 {
	switch by {
	case ByMemory:
		if g.MemoryUsedMiB == nil || g.MemoryMiB == nil || *g.MemoryMiB <= 0 {
			return nil
		}
		share := float64(*g.MemoryUsedMiB) / float64(*g.MemoryMiB) * 100
		return &share
	case ByTemperature:
		return g.TemperatureCelsius
	}
	return g.UtilizationPercent
}

func heatUnit(by string) string {
	if by == ByTemperature {
		return " °C"
	}
	return " %"
}

// heatEdges are where the next step of the scale begins.
func heatEdges(by string) [lastStep]float64 {
	if by == ByTemperature {
		return [lastStep]float64{40, 55, 65, 75, 85}
	}
	return [lastStep]float64{1, 20, 40, 60, 80}
}

func stepOf(value float64, by string) int {
	step := 0
	for _, edge := range heatEdges(by) {
		if value >= edge {
			step++
		}
	}
	return step
}

// Legend says what the steps mean.
func Legend(by string) []string {
	edges := heatEdges(by)
	unit := heatUnit(by)
	texts := []string{"below " + whole(edges[0]) + unit}
	for _, edge := range edges {
		texts = append(texts, "from "+whole(edge)+unit)
	}
	return texts
}
