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

// column is one column of the table of nodes. Its Most is the width of its widest cell.
type column struct {
	screen.Column
	usual int // it is never narrower if nothing is cut, so that it stays in its place while values change
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
	text := func(of func(*api.NodeRow) string) func(*picture, *api.NodeRow) cell {
		return func(p *picture, g *api.NodeRow) cell { return known(p.safe(of(g))) }
	}
	since := func(of func(*api.NodeRow) *time.Time) func(*picture, *api.NodeRow) cell {
		return func(p *picture, g *api.NodeRow) cell { return cell{p.since(of(g)), ""} }
	}
	return []column{
		{screen.Column{Name: "NAME", Least: 16, Most: 40}, 0, false, text(func(g *api.NodeRow) string { return g.Name })},
		{screen.Column{Name: "TENANT", Rank: 12, Least: 6, Most: 16}, 0, false, text(func(g *api.NodeRow) string { return g.Tenant })},
		{screen.Column{Name: "PROVIDER", Rank: 13, Least: 8, Most: 12}, 0, false, text(func(g *api.NodeRow) string { return g.Provider })},
		{screen.Column{Name: "MODEL", Rank: 11, Least: 16, Most: 28}, 0, false, text(model)},
		{screen.Column{Name: "GPUS", Rank: 9, Most: 7}, 5, true, gpusCell},
		{screen.Column{Name: "UTIL", Most: mostBars + 5}, 0, false, utilCell},
		{screen.Column{Name: "MEMORY", Rank: 3, Most: mostBars + 5}, 0, false, memoryCell},
		{screen.Column{Name: "TEMP", Rank: 7, Most: 5}, 4, true, tempCell},
		{screen.Column{Name: "POWER", Rank: 8, Most: 7}, 6, true, powerCell},
		{screen.Column{Name: "STATE", Least: 6, Most: 12}, 6, false, stateCell},
		{screen.Column{Name: "STATUS", Rank: 2, Most: 7}, 6, false, statusCell},
		{screen.Column{Name: "SEEN", Rank: 6, Most: 5}, 4, true, since(func(g *api.NodeRow) *time.Time { return g.LastSeen })},
		{screen.Column{Name: "IDLE", Rank: 10, Most: 5}, 4, true, since(func(g *api.NodeRow) *time.Time { return g.IdleSince })},
		{screen.Column{Name: "PRICE", Rank: 14, Most: 9}, 0, true, priceCell},
		{screen.Column{Name: "FINDING", Rank: 5, Least: 11, Most: 100}, 0, false, findingCell},
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
	tight := len(notChosen)+screen.Total(widths, p.gap()) > p.size.Columns
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
	columns := make([]screen.Column, len(all))
	widths := make([]int, len(all))
	for i, c := range all {
		columns[i] = c.Column
		widths[i] = max(len(c.Name), c.usual)
		for _, row := range cells {
			widths[i] = max(widths[i], min(screen.Width(row[i].text), c.Most))
		}
	}
	for _, g := range p.rows { // the first column
		widths[0] = max(widths[0], min(screen.Width(g.Name), all[0].Most))
	}
	screen.Fit(columns, widths, p.size.Columns-len(notChosen), p.gap(), true)
	return widths
}

func (p *picture) gap() int {
	if p.size.Columns < roomy {
		return 1
	}
	return 2
}

func (p *picture) title(all []column, widths []int) string {
	var line strings.Builder
	for i, c := range all {
		if widths[i] > 0 {
			line.WriteString(p.place(c, c.Name, widths[i]) + strings.Repeat(" ", p.gap()))
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
	name := screen.Model(g.GPUs[0].Name)
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
	return cell{screen.Figure("%.2f/h", g.PricePerHour), ""}
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
	c := known(p.safe(g.StatusText()))
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
