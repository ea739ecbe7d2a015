package fleet

import (
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/cli/tty"
)

// picture is all that a frame is made of.
type picture struct {
	look
	size   tty.Size // rows 0: as many as there are
	now    time.Time
	rows   []*api.NodeRow // in their order
	totals api.Totals

	selector string
	order    string
	idle     bool

	at     int          // the row that is chosen
	offset int          // the first row that is shown
	detail *api.NodeRow // the node whose GPUs are shown; nil: all nodes are
	help   bool
	prompt *string // the filter that a person writes; nil: none does

	loaded  bool
	message string // what went wrong with the last wish
	lost    string // why the gateway is not heard, and how old this is; empty: it is heard
}

// frame is the picture in lines, each at most as wide as the terminal, and at most as many as it has. It has no effect on anything.
func (p *picture) frame() []string {
	switch {
	case p.help:
		return p.page(p.helpLines(), nil)
	case !p.loaded && p.lost == "":
		return p.page([]string{p.cut("the gateway is asked for its nodes", p.size.Columns)}, nil)
	case p.detail != nil:
		head := p.nodeLines(p.detail)
		return p.page(head, p.gpuLines(p.detail, p.room(len(head))))
	}
	head := p.headLines()
	return p.page(head, p.nodeTable(p.room(len(head))))
}

// room is how many lines the body has, under a head and above the last line; 0: there is no limit.
func (p *picture) room(head int) int {
	if p.size.Rows == 0 {
		return 0
	}
	return max(p.size.Rows-head-1, 1)
}

// page puts the parts of a frame together. The last line of a terminal says what can be done.
func (p *picture) page(head, body []string) []string {
	lines := append(head, body...)
	if p.size.Rows == 0 {
		return lines
	}
	lines = lines[:min(len(lines), max(p.size.Rows-1, 0))]
	for len(lines) < p.size.Rows-1 {
		lines = append(lines, "")
	}
	return append(lines, p.lastLine())
}

func (p *picture) lastLine() string {
	switch {
	case p.prompt != nil:
		return p.cut("filter: "+p.safe(*p.prompt)+"_", p.size.Columns)
	case p.message != "":
		return p.paint(codeRed, p.cut(p.safe(p.message), p.size.Columns))
	case p.lost != "":
		return p.paint(codeRed, p.cut(p.safe(p.lost), p.size.Columns))
	case p.help:
		return p.cut("any key goes back", p.size.Columns)
	case p.detail != nil:
		return p.cut("q quit  ? help  Esc back  arrows move", p.size.Columns)
	}
	return p.cut("q quit  ? help  Enter GPUs  / filter  s sort  r reverse  i idle", p.size.Columns)
}

// part is a piece of text that a line break does not divide.
type part struct{ text, code string }

// flow sets parts side by side, on as many lines as they need.
func (p *picture) flow(parts []part) []string {
	var lines []string
	var line strings.Builder
	used := 0
	for _, one := range parts {
		one.text = p.cut(one.text, p.size.Columns)
		if one.text == "" {
			continue
		}
		width := screen.Width(one.text)
		if used > 0 && used+2+width > p.size.Columns {
			lines = append(lines, line.String())
			line.Reset()
			used = 0
		}
		if used > 0 {
			line.WriteString("  ")
			used += 2
		}
		line.WriteString(p.paint(one.code, one.text))
		used += width
	}
	return append(lines, line.String())
}
