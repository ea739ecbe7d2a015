package fleet

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// headBar is how wide the bars of the head are.
const headBar = 10

// headLines say what all nodes together have and do.
func (p *picture) headLines() []string {
	t := &p.totals
	parts := []part{
		{"muster top", codeStrong},
		{screen.Plural(t.Nodes, "node") + ": " + p.statuses(), ""},
		{counted(t.States[wire.StateUnavailable], "unavailable"), codeRed},
		{p.gpusSeen(), ""},
		{counted(t.GPUsIdle, "idle"), ""},
		{p.share("util", t.UtilizationPercent), ""},
		{p.memory(), ""},
		{p.power(), ""},
	}
	if t.PricePerHour != nil {
		parts = append(parts, part{fmt.Sprintf("price %.2f/h on %s", *t.PricePerHour, screen.Plural(t.Priced, "node")), ""})
	}
	parts = append(parts, p.findings()...)
	parts = append(parts, part{"sort " + p.order, codeFaint})
	if p.selector != "" {
		parts = append(parts, part{"filter " + p.safe(p.selector), codeFaint})
	}
	if p.idle {
		parts = append(parts, part{"idle only", codeFaint})
	}
	return p.flow(parts)
}

func (p *picture) statuses() string {
	by := p.totals.StatusTexts()
	words := []string{fmt.Sprintf("%d %s", by[wire.StatusOnline], wire.StatusOnline),
		fmt.Sprintf("%d %s", by[wire.StatusStale], wire.StatusStale)}
	for _, status := range []string{api.StatusUnheard, wire.StatusPending} {
		if by[status] > 0 {
			words = append(words, fmt.Sprintf("%d %s", by[status], status))
		}
	}
	return strings.Join(words, ", ")
}

// counted is empty for none.
func counted(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (p *picture) gpusSeen() string {
	t := &p.totals
	text := "GPUs " + strconv.Itoa(t.GPUsSeen)
	if t.GPUsSeen == 0 && t.GPUsUnknown > 0 {
		text = "GPUs " + screen.Unknown
	}
	if t.GPUsExpected > 0 {
		text += "/" + strconv.Itoa(t.GPUsExpected)
	}
	text += " seen"
	if t.GPUsUnknown > 0 {
		text += fmt.Sprintf(", unknown on %s", screen.Plural(t.GPUsUnknown, "node"))
	}
	return text
}

// share is a mean in percent, with a bar; empty if nobody says it.
func (p *picture) share(name string, percent *float64) string {
	if percent == nil {
		return name + " " + screen.Unknown
	}
	return fmt.Sprintf("%s %s %.0f%%", name, p.bar(percent, headBar), math.Floor(*percent+0.5)) // a half goes up, as in the console
}

func (p *picture) memory() string {
	t := &p.totals
	if t.MemoryMiB == 0 {
		return "memory " + screen.Unknown
	}
	percent := float64(t.MemoryUsedMiB) / float64(t.MemoryMiB) * 100
	return p.share("memory", &percent) + " of " + bytesOf(t.MemoryMiB)
}

// power is unknown where no GPU says it.
func (p *picture) power() string {
	if p.totals.PowerWatts == nil {
		return "power " + screen.Unknown
	}
	return "power " + watts(p.totals.PowerWatts)
}

// findings count nodes by their worst finding.
func (p *picture) findings() []part {
	var parts []part
	for _, severity := range []string{api.SeveritySevere, api.SeverityWarn, api.SeverityNote} {
		if n := p.totals.Findings[severity]; n > 0 {
			parts = append(parts, part{fmt.Sprintf("%d %s", n, severity), severityCode(severity)})
		}
	}
	if parts == nil {
		return []part{{"no findings", ""}}
	}
	parts[0].text = "findings " + parts[0].text
	return parts
}

func severityCode(severity string) string {
	switch severity {
	case api.SeveritySevere:
		return codeRed
	case api.SeverityWarn:
		return codeYellow
	}
	return ""
}

// bytesOf is an amount of memory in the unit that fits.
func bytesOf(mib int64) string {
	switch {
	case mib >= 10<<20:
		return fmt.Sprintf("%.0f TiB", float64(mib)/(1<<20))
	case mib >= 1<<20:
		return fmt.Sprintf("%.1f TiB", float64(mib)/(1<<20))
	case mib >= 10<<10:
		return fmt.Sprintf("%.0f GiB", float64(mib)/(1<<10))
	}
	return fmt.Sprintf("%d MiB", mib)
}

func watts(w *float64) string {
	switch {
	case w == nil:
		return screen.Unknown
	case *w >= 99_950:
		return fmt.Sprintf("%.0fkW", *w/1000)
	case *w >= 1000:
		return fmt.Sprintf("%.1fkW", *w/1000)
	}
	return fmt.Sprintf("%.0fW", *w)
}
