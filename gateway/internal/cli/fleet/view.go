package fleet

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"muster/gateway/api"
	"muster/gateway/internal/cli/live"
	"muster/gateway/internal/cli/tty"
)

// view is what a person looks at, and has chosen.
type view struct {
	board live.Board
	clock func() time.Time
	look  look

	selector string
	wished   string // the filter that the gateway is asked about
	order    string
	idle     bool

	shown sorted // of the last frame: to sort many nodes for each key would be slow

	chosen  string // id of the chosen node
	at      int    // its row
	offset  int
	room    int    // rows of nodes on the screen
	detail  string // id of the node whose GPUs are shown; empty: all nodes are
	help    bool
	prompt  *string
	message string
}

// anyNumber is more rows than there can be.
const anyNumber = 1 << 24

// longestFilter bounds what a person can type.
const longestFilter = 1000

// Take takes in what the gateway told.
func (v *view) Take(n live.News) {
	v.board.Take(n, v.clock())
	if n.Lost != nil || v.detail == "" {
		return
	}
	if _, there := v.board.Find(v.detail); !there {
		v.detail = ""
		v.message = "the node is not there any more, or does not match the filter"
	}
}

// Answered says how the gateway took a filter.
func (v *view) Answered(err error) {
	if err != nil {
		v.message = live.Reason(err)
		return
	}
	v.selector = v.wished
	v.message = ""
}

// Frame draws what there is now.
func (v *view) Frame(size tty.Size) []string {
	p := v.picture(size)
	v.settle(p)
	return p.frame()
}

// sorted are the nodes in an order, with their totals.
type sorted struct {
	version int // of the board
	order   string
	idle    bool
	rows    []*api.NodeRow
	totals  api.Totals
}

// sort brings the nodes into their order, unless they are in it.
func (v *view) sort() {
	if v.shown.rows != nil && v.shown.version == v.board.Version && v.shown.order == v.order && v.shown.idle == v.idle {
		return
	}
	rows := v.board.Rows(v.idle, v.order)
	v.shown = sorted{version: v.board.Version, order: v.order, idle: v.idle, rows: rows, totals: api.Count(rows)}
}

// picture is what there is now, without the place on the screen.
func (v *view) picture(size tty.Size) *picture {
	here := v.clock()
	v.sort()
	p := &picture{look: v.look, size: size, now: v.board.Now(here), rows: v.shown.rows, totals: v.shown.totals, selector: v.selector,
		order: v.order, idle: v.idle, help: v.help, prompt: v.prompt, loaded: v.board.Loaded, message: v.message}
	if v.board.Lost != nil {
		p.lost = v.board.Trouble(here)
	}
	if v.detail != "" {
		p.detail, _ = v.board.Find(v.detail)
	}
	return p
}

// settle keeps the chosen node on the screen, wherever the order has put it.
func (v *view) settle(p *picture) {
	if p.detail != nil {
		v.offset = max(min(v.offset, len(p.detail.GPUs)-1), 0)
		p.offset = v.offset
		return
	}
	v.room = max(p.room(len(p.headLines()))-1, 1)
	if i := slices.IndexFunc(p.rows, func(g *api.NodeRow) bool { return g.ID == v.chosen }); i >= 0 {
		v.at = i
	}
	v.at = max(min(v.at, len(p.rows)-1), 0)
	if len(p.rows) > 0 {
		v.chosen = p.rows[v.at].ID
	}
	v.offset = max(min(v.offset, v.at, len(p.rows)-v.room), v.at-v.room+1, 0)
	p.at = v.at
	p.offset = v.offset
}

// Press does what a key asks for.
func (v *view) Press(key tty.Key) live.Wish {
	v.message = ""
	switch {
	case key == tty.Interrupt:
		return live.Wish{Quit: true}
	case v.prompt != nil:
		return v.write(key)
	case v.help:
		v.help = false
		return live.Wish{}
	}
	switch key {
	case 'q':
		return live.Wish{Quit: true}
	case '?', 'h':
		v.help = true
	case tty.Escape, tty.Left, tty.Backspace:
		v.back()
	case tty.Enter, tty.Right:
		v.enter()
	case '/':
		text := v.selector
		v.prompt = &text
	case 's', 'S', 'r', 'i':
		v.arrange(key)
	default:
		v.move(key)
	}
	return live.Wish{}
}

func (v *view) enter() {
	if v.detail == "" && v.chosen != "" {
		v.detail = v.chosen
		v.offset = 0
	}
}

func (v *view) back() {
	v.detail = ""
	v.offset = v.at
}

// arrange changes the order, and which nodes there are.
func (v *view) arrange(key tty.Key) {
	all := api.Sorts()
	by, turned := strings.CutPrefix(v.order, "-")
	i := slices.Index(all, by)
	switch key {
	case 's':
		v.order = all[(i+1)%len(all)]
	case 'S':
		v.order = all[(i+len(all)-1)%len(all)]
	case 'r':
		v.order = "-" + by
		if turned {
			v.order = by
		}
	case 'i':
		v.idle = !v.idle
	}
	v.chosen = "" // the first rows are what an order is asked for
	v.at = 0
	v.offset = 0
}

// move chooses another node or, where the GPUs of one are shown, moves these.
func (v *view) move(key tty.Key) {
	step := 0
	switch key {
	case tty.Up, 'k':
		step = -1
	case tty.Down, 'j':
		step = 1
	case tty.PageUp:
		step = -v.room
	case tty.PageDown, ' ':
		step = v.room
	case tty.Home, 'g':
		step = -anyNumber
	case tty.End, 'G':
		step = anyNumber
	default:
		return
	}
	if v.detail != "" {
		v.offset = max(v.offset+step, 0)
		return
	}
	v.chosen = ""
	v.at = max(v.at+step, 0)
}

// write edits the filter.
func (v *view) write(key tty.Key) live.Wish {
	text := []rune(*v.prompt)
	switch {
	case key == tty.Escape:
		v.prompt = nil
		return live.Wish{}
	case key == tty.Enter:
		v.wished = strings.TrimSpace(*v.prompt)
		v.prompt = nil
		return live.Wish{Filter: &live.Filter{Selector: v.wished}}
	case key == tty.Backspace && len(text) > 0:
		text = text[:len(text)-1]
	case key == tty.CtrlU:
		text = nil
	case key > 0 && unicode.IsPrint(rune(key)) && len(text) < longestFilter:
		text = append(text, rune(key))
	}
	written := string(text)
	v.prompt = &written
	return live.Wish{}
}
