package fleet

import (
	"fmt"
	"strings"

	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// Marks where a GPU has no bar.
const (
	markIll     = "!"
	markMissing = "x"
	markOld     = "~" // before a mean: the reading is old
)

// nearlyFull is a share of memory in percent from which it is marked as nearly full.
const nearlyFull = 95

func utilCell(p *picture, g *api.NodeRow) cell {
	return p.bars(g, codeGreen, func(gpu *api.GPU) *float64 { return gpu.UtilizationPercent })
}

func memoryCell(p *picture, g *api.NodeRow) cell {
	c := p.bars(g, codeCyan, (*api.GPU).MemoryShare)
	for i := range g.GPUs {
		if share := g.GPUs[i].MemoryShare(); share != nil && *share >= nearlyFull && g.Fresh {
			c.code = codeYellow
		}
	}
	return c
}

// bars has a character for each GPU of a node, and then the mean of those that are known.
func (p *picture) bars(g *api.NodeRow, code string, value func(*api.GPU) *float64) cell {
	if len(g.GPUs) == 0 && g.MissingGPUs() == 0 {
		return cell{screen.Unknown, ""}
	}
	total := 0.0
	said := 0
	var bars strings.Builder
	for i := range g.GPUs {
		v := value(&g.GPUs[i])
		if v != nil {
			total += *v
			said++
		}
		if i < mostBars {
			bars.WriteString(p.barOf(&g.GPUs[i], v))
		}
	}
	bars.WriteString(strings.Repeat(markMissing, min(g.MissingGPUs(), max(mostBars-len(g.GPUs), 0))))
	mean := screen.Unknown
	if said > 0 {
		mean = fmt.Sprintf("%.0f%%", total/float64(said))
	}
	between := " "
	if said > 0 && !g.Fresh {
		between = markOld
		code = codeFaint
	}
	return cell{fmt.Sprintf("%s%s%4s", bars.String(), between, mean), code}
}

func (p *picture) barOf(gpu *api.GPU, percent *float64) string {
	switch {
	case len(gpu.Health) > 0:
		return markIll
	case percent == nil:
		return screen.Unknown
	}
	return p.level(*percent)
}

// tempCell is the temperature of the hottest GPU.
func tempCell(_ *picture, g *api.NodeRow) cell {
	var highest *float64
	for i := range g.GPUs {
		if t := g.GPUs[i].TemperatureCelsius; t != nil && (highest == nil || *t > *highest) {
			highest = t
		}
	}
	return cell{screen.Figure("%.0fC", highest), ""}
}

// powerCell is the power of all GPUs that say it.
func powerCell(_ *picture, g *api.NodeRow) cell {
	var sum *float64
	for i := range g.GPUs {
		api.Add(&sum, g.GPUs[i].PowerWatts)
	}
	return cell{watts(sum), ""}
}
