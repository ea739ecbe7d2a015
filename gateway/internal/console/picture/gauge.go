package picture

import (
	"fmt"
	"math"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Gauge is one small bar for each GPU, with the number beside them. A path draws all bars of a kind.
type Gauge struct {
	Track   string // of bars that have a value
	Fill    string
	Unknown string // GPUs that do not say the value
	Missing string // GPUs that do not answer at all
	Text    string
	Says    string // each value, for screen readers and on hover
}

const (
	gaugeWidth  = 72
	gaugeHeight = 6
	mostBars    = 32
)

// gaugeOf draws values in percent; nil is not known. missing GPUs come last.
func gaugeOf(values []*float64, missing int, says string) Gauge {
	g := Gauge{Text: Unknown}
	n := min(len(values)+missing, mostBars)
	if n == 0 {
		return g
	}
	gap := 2
	if n > 8 {
		gap = 1
	}
	width := (gaugeWidth - gap*(n-1)) / n
	for i := range n {
		x := i * (width + gap)
		switch {
		case i >= len(values):
			g.Missing += fmt.Sprintf("M%d 0l%d %dm0 -%dl-%d %d", x, width, gaugeHeight, gaugeHeight, width, gaugeHeight)
		case values[i] == nil:
			g.Unknown += block(x, width)
		default:
			g.Track += block(x, width)
			g.Fill += filled(x, width, *values[i])
		}
	}
	g.Says = says + ": " + eachText(values, missing)
	return g
}

func block(x, width int) string { return fmt.Sprintf("M%d 0h%dv%dh-%dz", x, width, gaugeHeight, width) }

// filled is the part of a bar that has a colour. A little is never drawn as nothing.
func filled(x, width int, percent float64) string {
	percent = min(max(percent, 0), 100)
	part := int(math.Round(float64(width) * percent / 100))
	if percent > 0 {
		part = max(part, 1)
	}
	if part == 0 {
		return ""
	}
	return block(x, part)
}

func eachText(values []*float64, missing int) string {
	var parts []string
	for _, v := range values {
		if v == nil {
			parts = append(parts, Unknown)
			continue
		}
		parts = append(parts, whole(*v)+" %")
	}
	if missing > 0 {
		parts = append(parts, fmt.Sprintf("%d missing", missing))
	}
	return strings.Join(parts, ", ")
}

func utilizationOf(n *api.NodeRow) Gauge {
	g, values := gaugeBy(n, ByUtilization, "Utilisation of each GPU")
	sum, known := 0.0, 0
	for _, v := range values {
		if v != nil {
			sum += *v
			known++
		}
	}
	if known > 0 {
		g.Text = whole(sum/float64(known)) + " %"
	}
	return g
}

// memoryOf says what is used. Unified memory is the whole system's, and the text says so.
func memoryOf(n *api.NodeRow) Gauge {
	g, values := gaugeBy(n, ByMemory, "Memory of each GPU")
	var used, total int64
	unified := false
	for i, gpu := range rowsOf(n) {
		if values[i] != nil {
			used += *gpu.MemoryUsedMiB
			total += *gpu.MemoryMiB
			unified = unified || gpu.MemorySource == wire.MemoryUnified
		}
	}
	if total == 0 {
		return g
	}
	g.Text = gibText(used)
	g.Says += "; " + gibText(used) + " of " + gibText(total)
	if unified {
		g.Says += ", shared with the CPU"
	}
	return g
}

// gaugeBy draws what the heat map's colours say by this word, and gives the values.
func gaugeBy(n *api.NodeRow, by, says string) (Gauge, []*float64) {
	gpus := rowsOf(n)
	values := make([]*float64, len(gpus))
	for i := range gpus {
		values[i] = heatValue(&gpus[i], by)
	}
	return gaugeOf(values, n.MissingGPUs(), says), values
}
