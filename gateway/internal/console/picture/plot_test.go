package picture_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/console/picture"
)

var start = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// minutes are points a minute apart; a negative value stands for one that is not known.
func minutes(values ...float64) []picture.Point {
	var all []picture.Point
	for i, v := range values {
		p := picture.Point{At: start.Add(time.Duration(i) * time.Minute)}
		if v >= 0 {
			p.Value = &v
		}
		all = append(all, p)
	}
	return all
}

func tenMinutes(top float64) picture.Frame {
	return picture.Frame{Since: start, Until: start.Add(10 * time.Minute), Top: top}
}

// TestLine: a line is broken if nothing is known, and never goes to 0 there. A value alone can be seen.
func TestLine(t *testing.T) {
	f := tenMinutes(100)
	for _, c := range []struct {
		name   string
		points []picture.Point
		want   string
	}{
		{"a line", minutes(0, 50, 100), "M0 100L100 50L200 0"},
		{"a gap", minutes(10, 20, -1, -1, 30, 40), "M0 90L100 80M400 70L500 60"},
		{"alone", minutes(-1, 20, -1), "M100 80h0.1"},
		{"alone at the end", minutes(5, -1, 20), "M0 95h0.1M200 80h0.1"},
		{"too high", minutes(500, 100), "M0 0L100 0"},
		{"too early", []picture.Point{{At: start.Add(-time.Minute), Value: new(float64)}, minutes(50)[0]}, "M0 100L0 50"},
		{"nothing", minutes(-1, -1), ""},
	} {
		if got := f.Line(c.points); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if got := tenMinutes(0).Line(minutes(1, 2)); strings.ContainsAny(got, "NI") {
		t.Errorf("without a top: %s", got)
	}
}

// TestGaps: a gap is where no track has a value. A value that is a little late is none.
func TestGaps(t *testing.T) {
	f := tenMinutes(1)
	at := func(from, to int) picture.Span {
		return picture.Span{From: start.Add(time.Duration(from) * time.Minute), To: start.Add(time.Duration(to) * time.Minute)}
	}
	for _, c := range []struct {
		name   string
		tracks [][]picture.Point
		want   []picture.Span
	}{
		{"nothing at all", nil, []picture.Span{at(0, 10)}},
		{"whole", [][]picture.Point{minutes(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)}, nil},
		{"in the middle and at the end", [][]picture.Point{minutes(1, 1, -1, -1, -1, 1, 1)}, []picture.Span{at(2, 5), at(7, 10)}},
		{"a late one", [][]picture.Point{minutes(1, 1, 1, -1, -1, 1, 1, 1, 1, 1)}, nil},
		{"one track is enough", [][]picture.Point{minutes(1, -1, -1, -1, -1, 1), minutes(-1, 1, 1, 1, 1, 1, 1, 1, 1, 1)}, nil},
	} {
		if got := f.Gaps(c.tracks, time.Minute); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAxis(t *testing.T) {
	for most, want := range map[float64]picture.Axis{0: {1, 1}, -3: {1, 1}, 1: {1, 0.25}, 1.1: {1.5, 0.5}, 79.6: {80, 20}, 80: {80, 20},
		82: {100, 25}, 139.8: {150, 50}, 700: {800, 200}, 12345: {15000, 5000}, 0.03: {0.03, 0.01}} {
		got := picture.AxisFor(most)
		if math.Abs(got.Top-want.Top) > 1e-9*want.Top || math.Abs(got.Step-want.Step) > 1e-9*want.Step {
			t.Errorf("%g: got %v, want %v", most, got, want)
		}
	}
	if got := picture.PercentAxis().Values(); !slices.Equal(got, []float64{0, 25, 50, 75, 100}) {
		t.Errorf("percent has %v", got)
	}
}

// FuzzAxis: every value has room, and the axis has few lines, of which the first is 0 and the last is the top.
func FuzzAxis(f *testing.F) {
	for _, v := range []float64{0, 1, 99.9, 1e9, 0.1 + 0.2, math.Inf(1), math.NaN(), 5e-324} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, most float64) {
		if !(math.Abs(most) < 1e15) || math.Abs(most) < 1e-12 {
			most = 0
		}
		a := picture.AxisFor(most)
		values := a.Values()
		last := values[len(values)-1]
		if most > a.Top*(1+1e-9) || len(values) < 2 || len(values) > 6 || values[0] != 0 || math.Abs(last-a.Top) > a.Step*1e-6 {
			t.Errorf("%g: %v has lines at %v", most, a, values)
		}
	})
}

// TestTicks: every span has a few ticks inside of it, at round moments.
func TestTicks(t *testing.T) {
	until := time.Date(2026, 11, 23, 10, 7, 0, 0, time.UTC)
	for _, c := range []struct {
		span        time.Duration
		first, last string
		count       int
		form        picture.Form
	}{
		{time.Hour, "09:10", "10:00", 6, picture.ClockForm},
		{24 * time.Hour, "12:00", "08:00", 6, picture.ClockForm},
		{7 * 24 * time.Hour, "Tue 17", "Mon 23", 7, picture.Day},
		{30 * 24 * time.Hour, "26 Oct", "23 Nov", 5, picture.Date},
	} {
		f := picture.Frame{Since: until.Add(-c.span), Until: until}
		ticks, form := f.Ticks()
		if len(ticks) != c.count || form != c.form {
			t.Fatalf("%s: %v as %s", c.span, ticks, form)
		}
		first, last := ticks[0].Format(form.Layout()), ticks[len(ticks)-1].Format(form.Layout())
		if first != c.first || last != c.last {
			t.Errorf("%s: from %s to %s, want %s to %s", c.span, first, last, c.first, c.last)
		}
		for _, at := range ticks {
			if x := f.X(at); x < 0 || x > picture.Width {
				t.Errorf("%s: %s stands at %g", c.span, at, x)
			}
		}
	}
}
