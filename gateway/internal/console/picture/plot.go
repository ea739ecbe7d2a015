package picture

// This file says where the lines, gaps and ticks of a plot of values over time go. Who draws it puts them on the screen.
//
// A drawing is Width wide and Height high, with 0 at the bottom, whatever its size on the screen: it is stretched.

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size of a drawing.
const (
	Width  = 1000.0
	Height = 100.0
)

// Point is one value; nil if nothing is known.
type Point struct {
	At    time.Time
	Value *float64
}

// Frame is what a drawing shows: a time, and values from 0 to Top.
type Frame struct {
	Since, Until time.Time
	Top          float64
}

// X returns the place of a moment. A moment outside of the drawing is placed at its edge; the same holds for Y.
func (f Frame) X(at time.Time) float64 {
	return rounded(min(max(float64(at.Sub(f.Since))/float64(f.Until.Sub(f.Since)), 0), 1) * Width)
}

// Y returns the place of a value, from the top.
func (f Frame) Y(value float64) float64 {
	if f.Top <= 0 {
		return Height
	}
	return rounded(Height - min(max(value/f.Top, 0), 1)*Height)
}

// rounded has a digit behind the point: more would be less than a pixel.
func rounded(v float64) float64 { return math.Round(v*10) / 10 }

// Line returns the path of an SVG through the points, broken at points without a value. A value alone between two gaps is a short stroke.
func (f Frame) Line(points []Point) string {
	var out strings.Builder
	write := func(command string, numbers ...float64) {
		out.WriteString(command)
		for i, n := range numbers {
			if i > 0 {
				out.WriteByte(' ')
			}
			out.WriteString(strconv.FormatFloat(n, 'f', -1, 64))
		}
	}
	for i, p := range points {
		if p.Value == nil {
			continue
		}
		begins := i == 0 || points[i-1].Value == nil
		alone := begins && (i == len(points)-1 || points[i+1].Value == nil)
		command := "L"
		if begins {
			command = "M"
		}
		write(command, f.X(p.At), f.Y(*p.Value))
		if alone {
			write("h", 0.1)
		}
	}
	return out.String()
}

// Span is a piece of the time.
type Span struct{ From, To time.Time }

// Gaps returns the pieces of the frame's time in which no track has a value. step is the time from one value to the next.
func (f Frame) Gaps(tracks [][]Point, step time.Duration) []Span {
	var known []Span
	for _, points := range tracks {
		known = append(known, stretches(points, step)...)
	}
	slices.SortFunc(known, func(a, b Span) int { return a.From.Compare(b.From) })
	var gaps []Span
	at := f.Since
	until := func(next time.Time) {
		if next.Sub(at) > 2*step+step/4 { // a gap is what history calls one
			gaps = append(gaps, Span{at, next})
		}
	}
	for _, s := range known {
		until(s.From)
		if s.To.After(at) {
			at = s.To
		}
	}
	until(f.Until)
	return gaps
}

// stretches are the pieces of time through which a line goes. The last value of each is good for one step.
func stretches(points []Point, step time.Duration) []Span {
	var all []Span
	open := false
	for _, p := range points {
		switch {
		case p.Value == nil:
			open = false
			continue
		case !open:
			all = append(all, Span{From: p.At})
		}
		open = true
		all[len(all)-1].To = p.At.Add(step)
	}
	return all
}
