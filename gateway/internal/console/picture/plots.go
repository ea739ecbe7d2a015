package picture

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Pixels of a plot, as web/pages/node.html has them.
const (
	plotAbove = 6   // the lines
	plotHigh  = 120 // of the lines
)

// Figure is one plot.
type Figure struct {
	Frame
	Metric string
	Title  string
	Unit   string
	Scale  float64 // what a value is divided by to be in Unit
	Node   string  // id
	Asked  int64   // seconds between two values that were asked for; 0: as the gateway chooses
	Step   time.Duration
	Lines  []Line
	Values []GridLine
	Ticks  []Tick
	Gaps   []Gap
	Marks  []Marking
	Empty  bool   // there is no value at all
	Says   string // for those who do not see it
}

// Line is what one GPU, or the node, said.
type Line struct {
	GPU   string // UUID; empty: the node
	Name  string
	Class string // its colour
	Path  string
	Dash  string // of a line that others cover: the pieces of each are seen by turns; empty: it is whole
	Shift int    // where its pieces begin
	Last  string
	Least string
	Most  string
}

// GridLine is a value of the axis, and how many pixels it is from the top.
type GridLine struct {
	Y    float64
	Text string
}

// Tick is a moment at the lower edge.
type Tick struct {
	X    float64 // percent of the width
	At   time.Time
	Form Form
	Text string
}

// Gap is a piece of the width without a value, in percent.
type Gap struct{ X, Width float64 }

// Marking is an event that may explain what is seen.
type Marking struct {
	X    float64 // percent of the width
	At   time.Time
	Kind string
}

// Asked is what a plot was asked for.
type Asked struct {
	Node     string         // id
	Hardware *wire.Hardware // nil: it never said any
	Since    time.Time
	Until    time.Time
	Step     time.Duration // between two values; 0: as the gateway chooses
}

// FigureOf lays out what the gateway answered.
func FigureOf(c Chart, asked Asked, answer api.Series) Figure {
	f := Figure{Metric: c.Metric, Title: c.Title, Unit: c.Unit, Scale: c.Scale, Node: asked.Node, Asked: int64(asked.Step / time.Second)}
	f.Step = time.Duration(answer.StepSeconds) * time.Second
	f.Since = asked.Since
	f.Until = asked.Until
	hardware := orZero(asked.Hardware)
	tracks := tracksOf(hardware.GPUs, answer, c.Scale)
	f.Top = f.axis(c, &hardware, tracks)
	f.layTicks()
	all := make([][]Point, 0, len(tracks))
	for i, t := range tracks {
		f.Lines = append(f.Lines, f.line(i, t))
		all = append(all, t.points)
	}
	f.layTurns(tracks)
	f.Empty = !slices.ContainsFunc(f.Lines, func(l Line) bool { return l.Path != "" })
	f.layGaps(all)
	f.Says = f.words()
	return f
}

// StepSeconds returns the step in seconds, for scripts.
func (f Figure) StepSeconds() int64 { return int64(f.Step / time.Second) }

// words are the plot for a screen reader.
func (f *Figure) words() string {
	text := strings.TrimSuffix(f.Title+", "+f.Unit, ", ") + "."
	for _, l := range f.Lines {
		if l.Path == "" {
			text += " " + l.Name + ": no value is known."
			continue
		}
		text += fmt.Sprintf(" %s: last %s, from %s to %s.", l.Name, l.Last, l.Least, l.Most)
	}
	if f.Empty {
		text += " No value is known."
	}
	return text
}

// track is one line before it is laid out.
type track struct {
	gpu, name string
	points    []Point
}

// tracksOf are the series in the order of the GPUs' numbers. GPUs that are gone come last, by their UUID.
func tracksOf(gpus []wire.GPU, s api.Series, scale float64) []track {
	order := map[string]int{}
	for i, g := range gpus {
		order[g.UUID] = i
	}
	var all []track
	for _, one := range s.Series {
		t := track{gpu: one.GPU, name: "node"}
		if at, known := order[one.GPU]; known {
			t.name = "GPU " + strconv.Itoa(gpus[at].Index)
		} else if one.GPU != "" {
			t.name = fmt.Sprintf("%.12s (gone)", one.GPU)
		}
		for _, p := range one.Points {
			t.points = append(t.points, pointOf(p, scale))
		}
		all = append(all, t)
	}
	place := func(t track) int {
		if at, known := order[t.gpu]; known {
			return at
		}
		return len(order)
	}
	slices.SortStableFunc(all, func(a, b track) int { return place(a) - place(b) })
	return all
}

func pointOf(p api.SeriesPoint, scale float64) Point {
	var out Point
	if p[0] != nil {
		out.At = time.Unix(int64(*p[0]), 0).UTC()
	}
	if p[1] != nil {
		value := *p[1] / scale
		out.Value = &value
	}
	return out
}

// axis lays the axis of values out. A memory's axis goes to its end, so that a plot shows how full it is.
func (f *Figure) axis(c Chart, h *wire.Hardware, tracks []track) float64 {
	most := roomOf(c, h)
	for _, t := range tracks {
		for _, p := range t.points {
			if p.Value != nil {
				most = max(most, *p.Value)
			}
		}
	}
	a := AxisFor(most)
	if c.Percent {
		a = PercentAxis()
	}
	for _, value := range a.Values() {
		text := strconv.FormatFloat(math.Round(value*1e6)/1e6, 'f', -1, 64)
		f.Values = append(f.Values, GridLine{plotAbove + Frame{Top: a.Top}.Y(value)*plotHigh/Height, text})
	}
	return a.Top
}

func (f *Figure) layTicks() {
	ticks, form := f.Frame.Ticks()
	for _, at := range ticks {
		if x := f.percent(at); x <= tickEdge {
			f.Ticks = append(f.Ticks, Tick{x, at, form, at.Format(form.Layout())})
		}
	}
}

// tickEdge is the last place of a tick, in percent of the width. The text of a later one has no room. web/assets/plot.js has the same rule.
const tickEdge = 97

// percent is where a moment stands, in percent of the width.
func (f *Figure) percent(at time.Time) float64 { return math.Round(f.X(at)/Width*10000) / 100 }

func (f *Figure) layGaps(tracks [][]Point) {
	for _, g := range f.Frame.Gaps(tracks, f.Step) {
		from := f.percent(g.From)
		f.Gaps = append(f.Gaps, Gap{from, f.percent(g.To) - from})
	}
}

// colours are how many lines can be told apart by their colour. More take them again, and are dashed.
const colours = 8

func (f *Figure) line(number int, t track) Line {
	l := Line{GPU: t.gpu, Name: t.name, Path: f.Line(t.points), Last: Unknown, Least: Unknown, Most: Unknown}
	l.Class = "plot-" + string(rune('a'+number%colours))
	if number >= colours {
		l.Class += " dashed"
	}
	var least, most *float64
	for _, p := range t.points {
		if p.Value == nil {
			continue
		}
		if least == nil || *p.Value < *least {
			least = p.Value
		}
		if most == nil || *p.Value > *most {
			most = p.Value
		}
	}
	if least != nil {
		l.Least = amount(*least)
		l.Most = amount(*most)
	}
	if n := len(t.points); n > 0 && t.points[n-1].Value != nil {
		l.Last = amount(*t.points[n-1].Value)
	}
	return l
}

// turn is how long a piece of a line is that others cover, in pixels.
const turn = 6

// layTurns has lines that cover each other seen by turns: of eight GPUs that say the same, one line would be left.
func (f *Figure) layTurns(tracks []track) {
	alike := map[string][]int{}
	for i, t := range tracks {
		if f.Lines[i].Path != "" {
			place := f.pixels(t.points)
			alike[place] = append(alike[place], i)
		}
	}
	for _, lines := range alike {
		for at, i := range lines {
			if n := len(lines); n > 1 {
				f.Lines[i].Dash = fmt.Sprintf("%d %d", turn, (n-1)*turn)
				f.Lines[i].Shift = -at * turn
			}
		}
	}
}

// pixels is where a line goes, to a pixel.
func (f *Figure) pixels(points []Point) string {
	var out strings.Builder
	for _, p := range points {
		if p.Value != nil {
			fmt.Fprintf(&out, "%.0f %.0f,", f.X(p.At), f.Y(*p.Value)*plotHigh/Height)
		}
	}
	return out.String()
}

// amount writes a value with as many digits as a person wants. web/assets/plot.js writes it in the same way.
func amount(value float64) string {
	digits := 100.0
	switch {
	case math.Abs(value) >= 100:
		digits = 1
	case math.Abs(value) >= 10:
		digits = 10
	}
	return strconv.FormatFloat(math.Round(value*digits)/digits, 'f', -1, 64)
}

// Mark adds the events that happened in the figure's time.
func (f *Figure) Mark(events []api.Event) {
	for _, e := range events {
		if !e.At.Before(f.Since) && e.At.Before(f.Until) {
			f.Marks = append(f.Marks, Marking{f.percent(e.At), e.At, e.Kind})
		}
	}
}
