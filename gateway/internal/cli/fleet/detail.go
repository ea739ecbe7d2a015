package fleet

import (
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// nodeLines say what one node is, and what is wrong with it.
func (p *picture) nodeLines(g *api.NodeRow) []string {
	state := p.safe(g.State)
	if len(g.StateReasons) > 0 {
		state += " (" + p.safe(strings.Join(g.StateReasons, ", ")) + ")"
	}
	parts := []part{
		{p.safe(g.Name), codeStrong},
		{state, stateCell(p, g).code},
		{p.safe(g.StatusText()), statusCell(p, g).code},
		{"seen " + p.since(g.LastSeen), ""},
		{"tenant " + known(p.safe(g.Tenant)).text, ""},
		{"provider " + known(p.safe(g.Provider)).text, ""},
		{"agent " + known(p.safe(g.AgentVersion)).text, ""},
		{"load " + screen.Figure("%.1f", g.Load1) + " on " + screen.Number(g.CPUs) + " CPUs", ""},
		{"host memory " + amounts(g.MemoryUsedMiB, g.MemoryMiB), ""},
		{"disk " + amounts(g.DiskUsedMiB, g.DiskMiB), ""},
	}
	if g.PricePerHour != nil {
		parts = append(parts, part{fmt.Sprintf("price %.2f/h", *g.PricePerHour), ""})
	}
	if g.IdleSince != nil {
		parts = append(parts, part{"idle " + p.since(g.IdleSince), ""})
	}
	if !g.Fresh && g.ReadAt != nil {
		parts = append(parts, part{markOld + " read " + p.since(g.ReadAt) + " ago", codeYellow})
	}
	if g.RenewalOverdue {
		parts = append(parts, part{"renewal overdue", codeYellow})
	}
	lines := append(p.flow(parts), p.flow(p.labels(g))...)
	return append(lines, p.findingLines(g)...)
}

func (p *picture) labels(g *api.NodeRow) []part {
	pairs := make([]string, 0, len(g.Labels))
	for key, value := range g.Labels {
		pairs = append(pairs, p.safe(key+"="+value))
	}
	slices.Sort(pairs)
	parts := make([]part, 0, len(pairs))
	for _, pair := range pairs {
		parts = append(parts, part{pair, codeFaint})
	}
	return parts
}

// mostFindings is how many findings stand above the GPUs.
const mostFindings = 3

func (p *picture) findingLines(g *api.NodeRow) []string {
	var lines []string
	for i, f := range g.Findings {
		if i == mostFindings {
			more := fmt.Sprintf("and %d more: muster node show %s", len(g.Findings)-i, g.Name)
			return append(lines, p.cut(p.safe(more), p.size.Columns))
		}
		text := mark(f.Severity) + f.Rule + ", since " + screen.Age(p.now.Sub(f.Since)) + ": " + f.Text
		if f.Old {
			text += " (old)"
		}
		lines = append(lines, p.paint(severityCode(f.Severity), p.cut(p.safe(text), p.size.Columns)))
		lines = append(lines, p.cut(p.safe("   "+f.Next), p.size.Columns))
	}
	return lines
}

func amount(mib *int64) string {
	if mib == nil {
		return screen.Unknown
	}
	return bytesOf(*mib)
}

func amounts(used, total *int64) string { return amount(used) + " of " + amount(total) }

// gpuLines are a line for each GPU that there is room for, under a header.
func (p *picture) gpuLines(g *api.NodeRow, room int) []string {
	if len(g.GPUs) == 0 {
		return []string{"", p.cut(p.noGPUs(g), p.size.Columns)}
	}
	from := 0
	to := len(g.GPUs)
	if room > 0 {
		from = min(p.offset, max(to-room+1, 0))
		to = min(from+room-1, to)
	}
	wide := p.gpuBar()
	healths := len("STATE")
	for i := range g.GPUs {
		healths = max(healths, min(screen.Width(p.health(g, &g.GPUs[i])), mostHealth))
	}
	header := fmt.Sprintf("%3s %-*s %-*s %*s %5s %11s  %-*s  MODEL", "GPU", wide+5, "UTIL", wide+5, "MEMORY", memoryWidth, "USED/TOTAL",
		"TEMP", "POWER/LIMIT", healths, "STATE")
	lines := []string{p.paint(codeStrong, p.cut(header, p.size.Columns))}
	for i := from; i < to; i++ {
		lines = append(lines, p.gpuLine(g, &g.GPUs[i], wide, healths))
	}
	if n := g.MissingGPUs(); n > 0 && to == len(g.GPUs) {
		lines = append(lines, p.paint(codeRed, p.cut(fmt.Sprintf("%d GPUs should be here: %d missing", *g.GPUsExpected, n), p.size.Columns)))
	}
	return lines
}

func (p *picture) noGPUs(g *api.NodeRow) string {
	switch {
	case g.GPUs == nil && g.Probe == "":
		return "this node has sent no reading of its GPUs yet; muster help no-telemetry says what to look at"
	case g.GPUs == nil:
		return "nobody knows its GPUs: the probe says " + known(p.safe(g.Probe)).text + "; muster help no-telemetry says what to look at"
	case g.MissingGPUs() > 0:
		return fmt.Sprintf("none of its %d GPUs answers: the probe says %s", *g.GPUsExpected, known(p.safe(g.Probe)).text)
	}
	return "this node has no GPU"
}

const (
	memoryWidth = 15 // of "39233/81559 MiB"
	mostHealth  = 40
)

// gpuBar is how wide the bars of one GPU are: wider on a wide screen.
func (p *picture) gpuBar() int {
	return max(4, min((p.size.Columns-60)/3, 40))
}

// ails names what is wrong with a GPU, in the agent's words and by the rules that found it, with the worst severity of these.
func ails(n *api.NodeRow, g *api.GPU) (words []string, severity string) {
	words = slices.Clone(g.Health)
	if len(words) > 0 {
		severity = wire.SeveritySevere
	}
	for _, f := range n.Findings {
		if f.GPU != g.UUID || f.GPU == "" || f.Severity == wire.SeverityNote {
			continue
		}
		if !slices.Contains(words, f.Rule) {
			words = append(words, f.Rule)
		}
		if severity != wire.SeveritySevere {
			severity = f.Severity
		}
	}
	return words, severity
}

// health is what a GPU is: ill, idle, or well.
func (p *picture) health(n *api.NodeRow, g *api.GPU) string {
	words, _ := ails(n, g)
	switch {
	case len(words) > 0:
		return p.safe(strings.Join(words, ", "))
	case g.IdleSince != nil:
		return "idle " + p.since(g.IdleSince)
	}
	return "well"
}

func (p *picture) gpuLine(n *api.NodeRow, g *api.GPU, wide, healths int) string {
	code := ""
	if _, severity := ails(n, g); severity != "" {
		code = severityCode(severity)
	}
	power := watts(g.PowerWatts) + "/" + watts(g.PowerLimitWatts)
	tail := fmt.Sprintf(" %*s %5s %11s  %s  %s", memoryWidth, used(g), screen.Figure("%.0fC", g.TemperatureCelsius), power,
		p.fit(p.health(n, g), healths), p.safe(g.Name))
	width := 3 + 1 + 2*(wide+5) + 1
	if width > p.size.Columns {
		return p.cut(fmt.Sprintf("%3d", g.Index)+tail, p.size.Columns)
	}
	bars := p.gauge(g.UtilizationPercent, codeGreen, wide) + " " + p.gauge(g.MemoryShare(), codeCyan, wide)
	return fmt.Sprintf("%3d ", g.Index) + bars + p.paint(code, p.cut(tail, p.size.Columns-width))
}

// gauge is a bar with its figure.
func (p *picture) gauge(percent *float64, code string, wide int) string {
	figure := ""
	if percent != nil {
		figure = fmt.Sprintf("%.0f%%", *percent)
	}
	return p.paint(code, p.bar(percent, wide)) + fmt.Sprintf(" %4s", figure)
}

// used is how much of a GPU's own memory is used.
func used(g *api.GPU) string {
	if g.MemorySource == wire.MemoryUnified {
		return wire.MemoryUnified
	}
	if g.MemoryUsedMiB == nil && g.MemoryMiB == nil {
		return screen.Unknown
	}
	return screen.Number(g.MemoryUsedMiB) + "/" + screen.Number(g.MemoryMiB) + " MiB"
}

// helpLines say what the keys do, and what the signs mean.
func (p *picture) helpLines() []string {
	levels := "0 to 9 for a share from 0 to 100 %"
	if p.utf8 {
		levels = "▁ to █ for a share from 0 to 100 %"
	}
	lines := []string{p.paint(codeStrong, p.cut("Keys", p.size.Columns)), ""}
	for _, row := range [][2]string{
		{"up, down, j, k", "choose a node"}, {"PgUp, PgDn", "a screen up or down"}, {"g, G, Home, End", "the first and the last node"},
		{"Enter", "the GPUs of the chosen node"}, {"Esc", "back to all nodes"},
		{"/", "filter by a selector, such as tier=sovereign,status=online; an empty one shows all"},
		{"s, S", "the next order, and the one before"}, {"r", "turn the order round"}, {"i", "nodes whose GPUs are all idle alone"},
		{"Ctrl-L", "draw everything again"}, {"q, Ctrl-C", "quit"},
	} {
		lines = append(lines, p.cut(fmt.Sprintf("  %-16s %s", row[0], row[1]), p.size.Columns))
	}
	lines = append(lines, "", p.paint(codeStrong, p.cut("Signs", p.size.Columns)), "")
	for _, row := range [][2]string{
		{"one character a GPU", levels}, {markIll, "this GPU is ill"}, {markMissing, "a GPU should be here, and does not answer"},
		{screen.Unknown, "not known"}, {markOld, "the reading is old: the values are from that time"}, {"!! and !", "a severe finding, and a warning"},
	} {
		lines = append(lines, p.cut(fmt.Sprintf("  %-20s %s", row[0], row[1]), p.size.Columns))
	}
	return lines
}
