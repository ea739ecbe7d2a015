package node

import (
	"strconv"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
)

const (
	plotGap    = "·" // a piece of the time in which nothing was heard
	plotUsual  = 60  // columns of a plot
	plotLeast  = 10
	plotOthers = 84 // columns that the cells beside a plot may take, with a GPU's UUID
)

// plotWidth is how wide a plot is on a screen of so many columns; 0: it is no screen.
func plotWidth(screen int) int {
	if screen == 0 {
		return plotUsual
	}
	return min(plotUsual, max(plotLeast, screen-plotOthers))
}

// scale is what the lowest and the highest bar stand for.
type scale struct {
	least, most float64
	known       bool // there is a value at all
}

func scaleOf(s api.Series) scale {
	var all scale
	for _, t := range s.Series {
		for _, p := range t.Points {
			switch {
			case p[1] == nil:
			case !all.known:
				all = scale{*p[1], *p[1], true}
			default:
				all.least = min(all.least, *p[1])
				all.most = max(all.most, *p[1])
			}
		}
	}
	return all
}

// figures sum up a track; nil: no value.
type figures struct{ last, mean, least, most *float64 }

func figuresOf(t api.SeriesTrack) figures {
	var f figures
	sum := 0.0
	n := 0
	for _, p := range t.Points {
		v := p[1]
		f.last = v
		if v == nil {
			continue
		}
		sum += *v
		n++
		if f.least == nil || *v < *f.least {
			f.least = v
		}
		if f.most == nil || *v > *f.most {
			f.most = v
		}
	}
	if n > 0 {
		mean := sum / float64(n)
		f.mean = &mean
	}
	return f
}

// figure writes a number with as many digits as a person wants.
func figure(v *float64) string {
	if v == nil {
		return screen.Unknown
	}
	digits := 2
	if *v >= 100 || *v == float64(int64(*v)) {
		digits = 0
	}
	return strconv.FormatFloat(*v, 'f', digits, 64)
}

// plot draws a bar for each piece of the time: the mean of the values in it. A piece that lies between two points without a gap takes the
// earlier one's bar, so that a plot may be finer than its points.
func plot(t api.SeriesTrack, since, until time.Time, width int, s scale) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	sums := make([]float64, width)
	counts := make([]int, width)
	gaps := make([]bool, width)
	for _, p := range t.Points {
		at := int(float64(pointTime(p).Sub(since)) / float64(until.Sub(since)) * float64(width))
		at = min(max(at, 0), width-1)
		if p[1] == nil {
			gaps[at] = true
			continue
		}
		sums[at] += *p[1]
		counts[at]++
	}
	var out strings.Builder
	last := plotGap
	for i := range width {
		switch {
		case counts[i] > 0:
			high := 0.5 // a constant is neither low nor high
			if s.most > s.least {
				high = (sums[i]/float64(counts[i]) - s.least) / (s.most - s.least)
			}
			last = string(bars[min(int(high*float64(len(bars))), len(bars)-1)])
		case gaps[i]:
			last = plotGap
		}
		out.WriteString(last)
		if counts[i] > 0 && gaps[i] {
			last = plotGap // after the gap's beginning there is nothing until the next value
		}
	}
	return out.String()
}
