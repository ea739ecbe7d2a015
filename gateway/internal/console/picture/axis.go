package picture

import (
	"math"
	"time"
)

// mostSteps is how many steps an axis of values has at most: a few lines are enough to read a value by.
const mostSteps = 4

// Axis is the axis of values, which begins at 0.
type Axis struct{ Top, Step float64 }

// AxisFor returns the axis with the fewest round steps that has room for this value.
func AxisFor(most float64) Axis {
	if !(most > 0) || math.IsInf(most, 0) {
		return Axis{1, 1}
	}
	unit := math.Pow(10, math.Floor(math.Log10(most/mostSteps)))
	for _, round := range [...]float64{1, 2, 2.5, 5} {
		if step := round * unit; most <= mostSteps*step {
			return Axis{step * math.Ceil(most/step), step}
		}
	}
	return Axis{math.Ceil(most/(10*unit)) * 10 * unit, 10 * unit}
}

// Percent is the axis of shares. It is the same in every plot.
func PercentAxis() Axis { return Axis{100, 25} }

// Values returns the values at which the axis has lines.
func (a Axis) Values() []float64 {
	var all []float64
	for i := 0.0; i*a.Step <= a.Top*(1+1e-9); i++ {
		all = append(all, i*a.Step)
	}
	return all
}

// Form is how a tick of the time is written.
type Form string

// Forms of ticks.
const (
	ClockForm Form = "clock" // 15:04
	Day       Form = "day"   // Mon 16
	Date      Form = "date"  // 16 Nov
)

// Layout returns the form as package time has it.
func (f Form) Layout() string {
	switch f {
	case Day:
		return "Mon 2"
	case Date:
		return "2 Jan"
	}
	return "15:04"
}

// Ticks returns the moments of the frame's time that are written at its edge, in UTC: full ten minutes of an hour, every fourth hour of a
// day, midnights of a week, Mondays of a month.
func (f Frame) Ticks() ([]time.Time, Form) {
	const day = 24 * time.Hour
	span := f.Until.Sub(f.Since)
	step, form := 7*day, Date // the first week of package time begins on a Monday
	switch {
	case span <= 2*time.Hour:
		step, form = 10*time.Minute, ClockForm
	case span <= 2*day:
		step, form = 4*time.Hour, ClockForm
	case span <= 8*day:
		step, form = day, Day
	}
	var all []time.Time
	for at := f.Since.UTC().Truncate(step).Add(step); at.Before(f.Until); at = at.Add(step) {
		all = append(all, at)
	}
	return all, form
}
