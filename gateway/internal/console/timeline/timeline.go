// Package timeline computes a drawing that shows who has which GPUs until when: a row for each node, and on it a bar for each allocation.
// Its numbers are percent of the width, and pixels of the height; the caller puts them on the screen.
package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
)

// How far a drawing looks ahead. The usual is ToWeek.
const (
	ToDay  = "day"
	ToWeek = "week"
	ToEnd  = "all" // to the end of the last allocation
)

// What the colours say. The usual is ByTenant.
const (
	ByTenant = "tenant"
	ByOwner  = "owner"
)

const (
	past     = 24 * time.Hour // that is shown
	least    = 12 * time.Hour // of the time to come
	laneHigh = 24             // pixels from one bar to the next
	mostRows = 100
	hues     = 8 // colours of the style sheet
)

// Chart is the drawing.
type Chart struct {
	Since, Until time.Time
	Now          float64 // where now is
	Ticks        []Tick
	Rows         []Row
	Keys         []Key
	Left         int // nodes that are not drawn: there are too many
}

// Tick is a moment that is written at the edge, in UTC.
type Tick struct {
	X    float64
	Text string
}

// Row is one node.
type Row struct {
	Node   string
	GPUs   int // that somebody has, or that are not clean yet
	Height int
	Bars   []Bar
}

// Key says what a colour means.
type Key struct{ Class, Name string }

// Bar is what an allocation has on a node, as far as it is in one state.
type Bar struct {
	Allocation string
	Text       string // on it
	Says       string // all of it, for screen readers and on hover
	Class      string // its colour, and its state
	X          float64
	Room       float64 // to the next bar, for the text
	Y          int
	Parts      []Part
	Begins     bool // within the drawing
	Goes       bool // on, behind the drawing

	from, to time.Time
}

// Part is a piece of a bar, in percent of the bar's room. Its class is held, or the state of what is not clean yet.
type Part struct {
	Class    string
	X, Width float64
}

// Draw draws allocations. to says how far ahead the drawing goes, by says what the colours mean.
func Draw(list []api.Allocation, now time.Time, to, by string) Chart {
	c := Chart{Since: now.Add(-past), Until: until(list, now, to)}
	colours := c.colour(list, by)
	rows := map[string]*Row{}
	for _, a := range list {
		for _, p := range piecesOf(a) {
			bar, ok := c.bar(a, p, now)
			if !ok {
				continue
			}
			row := rows[p.nodeID]
			if row == nil {
				row = &Row{Node: p.node}
				rows[p.nodeID] = row
			}
			if p.state != api.AllocationReleased {
				row.GPUs += p.gpus
			}
			bar.Class = colours[nameOf(a, by)] + " " + p.state
			row.Bars = append(row.Bars, bar)
		}
	}
	for _, row := range slices.SortedFunc(maps.Values(rows), func(a, b *Row) int { return cmp.Compare(a.Node, b.Node) }) {
		if len(c.Rows) == mostRows {
			c.Left = len(rows) - mostRows
			break
		}
		c.arrange(row)
		c.Rows = append(c.Rows, *row)
	}
	c.Now = c.x(now)
	c.tick()
	return c
}

// until is where the drawing ends: where it was asked to, or behind the last bar if that is earlier.
func until(list []api.Allocation, now time.Time, to string) time.Time {
	last := now.Add(least)
	for _, a := range list {
		if a.State == api.AllocationAllocated && a.EndsAt != nil && a.EndsAt.After(last) {
			last = *a.EndsAt
		}
	}
	most := last
	switch to {
	case ToDay:
		most = now.Add(24 * time.Hour)
	case ToWeek:
		most = now.Add(7 * 24 * time.Hour)
	}
	if last.Before(most) {
		return last
	}
	return most
}

func nameOf(a api.Allocation, by string) string {
	if by == ByOwner {
		return picture.Drawn(a.Owner)
	}
	return picture.Drawn(a.Tenant)
}

// colour gives each name a colour, in the order of the names. More names than colours have the same colours, dashed.
func (c *Chart) colour(list []api.Allocation, by string) map[string]string {
	colours := map[string]string{}
	for _, a := range list {
		if len(a.Slots) > 0 {
			colours[nameOf(a, by)] = ""
		}
	}
	for i, name := range slices.Sorted(maps.Keys(colours)) {
		class := "hue-" + string(rune('a'+i%hues))
		if i/hues%2 == 1 {
			class += " dashed"
		}
		colours[name] = class
		c.Keys = append(c.Keys, Key{class, name})
	}
	return colours
}

// piece is what an allocation has on one node in one state.
type piece struct {
	nodeID, node, state string
	gpus                int
}

func piecesOf(a api.Allocation) []piece {
	var all []piece
	for _, s := range a.Slots {
		state := s.State
		if a.State == api.AllocationReleased {
			state = api.AllocationReleased
		}
		at := slices.IndexFunc(all, func(p piece) bool { return p.nodeID == s.NodeID && p.state == state })
		if at < 0 {
			at = len(all)
			all = append(all, piece{nodeID: s.NodeID, node: s.Node, state: state})
		}
		all[at].gpus += len(s.GPUs)
	}
	return all
}

// bar is a piece's place in time. false: nothing of it is within the drawing.
func (c *Chart) bar(a api.Allocation, p piece, now time.Time) (Bar, bool) {
	if a.ClaimedAt == nil {
		return Bar{}, false
	}
	held := c.Until // until when it was, or will be, somebody's
	for _, end := range []*time.Time{a.EndsAt, a.EndedAt} {
		if end != nil {
			held = *end
		}
	}
	if held.Before(*a.ClaimedAt) { // no end is before its begin, whatever the clocks said
		held = *a.ClaimedAt
	}
	b := Bar{Allocation: a.ID, from: *a.ClaimedAt, to: held, Begins: !a.ClaimedAt.Before(c.Since)}
	switch p.state {
	case api.SlotBlocked: // until somebody does something
		b.to = c.Until
	case api.SlotAllocated, api.SlotCleaning:
		if b.to.Before(now) {
			b.to = now
		}
	}
	if !b.to.After(c.Since) || !b.from.Before(c.Until) {
		return Bar{}, false
	}
	b.Goes = b.to.After(c.Until) || p.state == api.SlotBlocked
	b.X = c.x(b.from)
	b.Parts = []Part{{"held", b.X, c.x(held)}}
	switch p.state {
	case api.SlotAllocated: // it may be late: it is held until it is found to be over
		b.Parts[0].Width = c.x(b.to)
	case api.SlotCleaning: // the hatch covers all of it: cleaning takes minutes, which nobody would see
		b.Parts = append(b.Parts, Part{p.state, b.X, c.x(b.to)})
	case api.SlotBlocked:
		b.Parts = append(b.Parts, Part{p.state, c.x(held), c.x(b.to)})
	}
	count := picture.Many(p.gpus) + " GPUs"
	if p.gpus == 1 {
		count = "1 GPU"
	}
	b.Text = stateText(p.state) + picture.Drawn(a.Owner) + " · " + picture.Drawn(a.Tenant) + " · " + count
	b.Says = fmt.Sprintf("%s: %s of %s for %s of %s, from %s to %s, %s", a.ID, count, p.node, picture.Drawn(a.Owner), picture.Drawn(a.Tenant),
		stamp(b.from), stamp(held), picture.MarkOf(p.state).Word)
	return b, true
}

// stateText begins the text of a bar that is not simply somebody's.
func stateText(state string) string {
	if state == api.SlotAllocated {
		return ""
	}
	m := picture.MarkOf(state)
	return m.Shape + " " + m.Word + ": "
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// x is where a moment stands, in percent.
func (c *Chart) x(at time.Time) float64 {
	return picture.Frame{Since: c.Since, Until: c.Until}.X(at) / picture.Width * 100
}

// arrange gives each bar of a row a line on which nothing else is at that time, and the room that it has there.
func (c *Chart) arrange(row *Row) {
	slices.SortStableFunc(row.Bars, func(a, b Bar) int {
		return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.Allocation, b.Allocation))
	})
	var lanes [][]int // indexes of bars
	for i, b := range row.Bars {
		at := slices.IndexFunc(lanes, func(lane []int) bool { return !row.Bars[lane[len(lane)-1]].to.After(b.from) })
		if at < 0 {
			at = len(lanes)
			lanes = append(lanes, nil)
		}
		lanes[at] = append(lanes[at], i)
		row.Bars[i].Y = at * laneHigh
	}
	row.Height = len(lanes) * laneHigh
	for _, lane := range lanes {
		edge := 100.0
		for _, i := range slices.Backward(lane) {
			row.Bars[i].fit(edge)
			edge = row.Bars[i].X
		}
	}
}

// fit gives a bar the room to an edge. The parts have had their begin and end in percent of the drawing.
func (b *Bar) fit(edge float64) {
	b.Room = edge - b.X
	share := func(x float64) float64 {
		if b.Room <= 0 {
			return 0
		}
		return min((x-b.X)/b.Room*100, 100)
	}
	for i, p := range b.Parts {
		b.Parts[i].X, b.Parts[i].Width = share(p.X), share(p.Width)-share(p.X)
	}
}

// tick writes moments at the edge. Where the axis has clock times, midnight is written as the day that begins.
func (c *Chart) tick() {
	moments, form := picture.Frame{Since: c.Since, Until: c.Until}.Ticks()
	for _, at := range moments {
		layout := form.Layout()
		if form == picture.ClockForm && at.Hour() == 0 {
			layout = picture.Day.Layout()
		}
		c.Ticks = append(c.Ticks, Tick{c.x(at), at.Format(layout)})
	}
}
