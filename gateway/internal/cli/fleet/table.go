package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

// cell is a text that is safe to show, with its code.
type cell struct{ text, code string }

// column is one column of the table of nodes.
type column struct {
	name  string
	rank  int // where the screen is too narrow, the column of the highest rank is left out first; 0: it is always there
	most  int // its widest cell
	least int // cells may be cut to this; 0: they are not cut
	usual int // it is never narrower where nothing is cut, so that it stays in its place while values change
	right bool
	cell  func(*picture, *api.NodeRow) cell
}

const (
	chosen    = "> "
	notChosen = "  "
	mostBars  = 16 // characters for the GPUs of one node
	roomy     = 120
)

func columns() []column {
	return []column{
		{name: "NAME", most: 40, least: 16, cell: func(p *picture, g *api.NodeRow) cell { return cell{p.safe(g.Name), ""} }},
		{name: "TENANT", rank: 12, most: 16, least: 6, cell: func(p *picture, g *api.NodeRow) cell { return known(p.safe(g.Tenant)) }},
		{name: "PROVIDER", rank: 13, most: 12, least: 8, cell: func(p *picture, g *api.NodeRow) cell { return known(p.safe(g.Provider)) }},
		{name: "MODEL", rank: 11, most: 28, least: 16, cell: func(p *picture, g *api.NodeRow) cell { return known(p.safe(model(g))) }},
		{name: "GPUS", usual: 5, rank: 9, most: 7, right: true, cell: gpusCell},
		{name: "UTIL", most: mostBars + 5, cell: utilCell},
		{name: "MEMORY", rank: 3, most: mostBars + 5, cell: memoryCell},
		{name: "TEMP", usual: 4, rank: 7, most: 5, right: true, cell: tempCell},
		{name: "POWER", usual: 6, rank: 8, most: 7, right: true, cell: powerCell},
		{name: "STATE", usual: 6, most: 12, least: 6, cell: stateCell},
		{name: "STATUS", usual: 6, rank: 2, most: 7, cell: statusCell},
		{name: "SEEN", usual: 4, rank: 6, most: 5, right: true,
			cell: func(p *picture, g *api.NodeRow) cell { return cell{p.since(g.LastSeen), ""} }},
		{name: "IDLE", usual: 4, rank: 10, most: 5, right: true,
			cell: func(p *picture, g *api.NodeRow) cell { return cell{p.since(g.IdleSince), ""} }},
		{name: "PRICE", rank: 14, most: 9, right: true, cell: priceCell},
		{name: "FINDING", rank: 5, most: 100, least: 11, cell: findingCell},
	}
}

// nodeTable is a line for each node that there is room for, under a header.
func (p *picture) nodeTable(room int) []string {
	if len(p.rows) == 0 {
		return []string{"", p.nothing()}
	}
	shown := p.rows
	if room > 0 {
		shown = p.rows[min(p.offset, len(p.rows)):min(p.offset+room-1, len(p.rows))]
	}
	cells := make([][]cell, len(shown))
	all := columns()
	for i, g := range shown {
		for _, c := range all {
			cells[i] = append(cells[i], c.cell(p, g))
		}
	}
	widths := p.widths(all, cells)
	lines := []string{p.paint(codeStrong, p.cut(notChosen+p.title(all, widths), p.size.Columns))}
	tight := p.needs(all, widths, false) > p.size.Columns
	for i, g := range shown {
		isChosen := room > 0 && p.offset+i == p.at
		line := p.line(all, widths, cells[i], isChosen || tight, g.Status)
		switch {
		case isChosen:
			line = p.paint(codeReverse, p.fit(chosen+line, p.size.Columns))
		case tight:
			line = p.cut(notChosen+line, p.size.Columns)
		default:
			line = notChosen + line
		}
		lines = append(lines, line)
	}
	return lines
}

// nothing says why no node is shown.
func (p *picture) nothing() string {
	switch {
	case p.idle:
		return p.cut("no node is idle; i shows the others", p.size.Columns)
	case p.selector != "":
		return p.cut("no node matches the filter; / changes it", p.size.Columns)
	}
	return p.cut("no node has joined; muster token create prints the command that joins one", p.size.Columns)
}

// widths decides which columns there are, and how wide: 0 for one that is left out. Numbers and words of all rows on the screen count.
func (p *picture) widths(all []column, cells [][]cell) []int {
	widths := make([]int, len(all))
	for i, c := range all {
		widths[i] = max(len(c.name), c.usual)
		for _, row := range cells {
			widths[i] = max(widths[i], min(screen.Width(row[i].text), c.most))
		}
	}
	for _, g := range p.rows { // the first column
		widths[0] = max(widths[0], min(screen.Width(g.Name), all[0].most))
	}
	for p.needs(all, widths, true) > p.size.Columns && leaveOut(all, widths) {
	}
	p.narrow(all, widths)
	return widths
}

// needs is how wide a row is, as it stands or with all cells cut as far as they may be.
func (p *picture) needs(all []column, widths []int, cut bool) int {
	sum := len(notChosen) - p.gap()
	for i, c := range all {
		if widths[i] == 0 {
			continue
		}
		w := widths[i]
		if cut && c.least > 0 {
			w = min(w, c.least)
		}
		sum += w + p.gap()
	}
	return sum
}

func (p *picture) gap() int {
	if p.size.Columns < roomy {
		return 1
	}
	return 2
}

func leaveOut(all []column, widths []int) bool {
	last := -1
	for i, c := range all {
		if c.rank > 0 && widths[i] > 0 && (last < 0 || c.rank > all[last].rank) {
			last = i
		}
	}
	if last >= 0 {
		widths[last] = 0
	}
	return last >= 0
}

// narrow makes the widest columns narrower until the row fits.
func (p *picture) narrow(all []column, widths []int) {
	for p.needs(all, widths, false) > p.size.Columns {
		widest := -1
		for i, c := range all {
			if c.least > 0 && widths[i] > c.least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (p *picture) title(all []column, widths []int) string {
	var line strings.Builder
	for i, c := range all {
		if widths[i] > 0 {
			line.WriteString(p.place(c, c.name, widths[i]) + strings.Repeat(" ", p.gap()))
		}
	}
	return strings.TrimRight(line.String(), " ")
}

func (p *picture) place(c column, text string, width int) string {
	if c.right {
		text = p.cut(text, width)
		return strings.Repeat(" ", width-screen.Width(text)) + text
	}
	return p.fit(text, width)
}

// line is one row. plain: without codes, for a row that is cut or has one code for all of it.
func (p *picture) line(all []column, widths []int, cells []cell, plain bool, status string) string {
	var line strings.Builder
	for i, c := range all {
		if widths[i] == 0 {
			continue
		}
		text := p.place(c, cells[i].text, widths[i])
		switch {
		case plain:
		case cells[i].code != "":
			text = p.paint(cells[i].code, text)
		case status == wire.StatusStale:
			text = p.paint(codeFaint, text)
		}
		line.WriteString(text + strings.Repeat(" ", p.gap()))
	}
	return strings.TrimRight(line.String(), " ")
}

func known(text string) cell {
	if text == "" {
		return cell{screen.Unknown, ""}
	}
	return cell{text, ""}
}

func (p *picture) since(at *time.Time) string {
	if at == nil {
		return screen.Unknown
	}
	return screen.Age(p.now.Sub(*at))
}

// model is the model of the GPUs, without their maker's name; the first where there are several.
func model(g *api.NodeRow) string {
	if len(g.GPUs) == 0 {
		return ""
	}
	name := strings.TrimPrefix(g.GPUs[0].Name, "NVIDIA ")
	if slices.ContainsFunc(g.GPUs, func(gpu api.GPU) bool { return gpu.Name != g.GPUs[0].Name }) {
		name += " and others"
	}
	return name
}

func gpusCell(_ *picture, g *api.NodeRow) cell {
	switch {
	case g.GPUs == nil && g.GPUsExpected != nil:
		return cell{fmt.Sprintf("%s/%d", screen.Unknown, *g.GPUsExpected), codeRed}
	case g.GPUs == nil:
		return cell{screen.Unknown, ""}
	case g.MissingGPUs() > 0:
		return cell{fmt.Sprintf("%d/%d", len(g.GPUs), *g.GPUsExpected), codeRed}
	}
	return cell{fmt.Sprint(len(g.GPUs)), ""}
}

func priceCell(_ *picture, g *api.NodeRow) cell {
	if g.PricePerHour == nil {
		return cell{screen.Unknown, ""}
	}
	return cell{fmt.Sprintf("%.2f/h", *g.PricePerHour), ""}
}

func stateCell(p *picture, g *api.NodeRow) cell {
	c := known(p.safe(g.State))
	switch g.State {
	case wire.StateUnavailable:
		c.code = codeRed
	case wire.StateActive:
	default:
		c.code = codeYellow
	}
	return c
}

func statusCell(p *picture, g *api.NodeRow) cell {
	c := known(p.safe(g.Status))
	if g.Status == wire.StatusStale {
		c.code = codeYellow
	}
	return c
}

// findingCell is the worst finding of a node, with how many more there are, or else why it is not in work.
func findingCell(p *picture, g *api.NodeRow) cell {
	if len(g.Findings) == 0 {
		return cell{p.safe(strings.Join(g.StateReasons, ", ")), ""}
	}
	worst := g.Findings[0]
	text := worst.Rule
	if len(g.Findings) > 1 {
		text += fmt.Sprintf(" +%d", len(g.Findings)-1)
	}
	if p.size.Columns >= roomy {
		text += ": " + worst.Text
	}
	return cell{mark(worst.Severity) + p.safe(text), severityCode(worst.Severity)}
}

// mark says how bad a finding is, without a colour.
func mark(severity string) string {
	switch severity {
	case api.SeveritySevere:
		return "!! "
	case api.SeverityWarn:
		return "! "
	}
	return ""
}
