package uptime

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxAbsences is how many absences are remembered. If there are more, the shortest goes.
const maxAbsences = 32

// absence is a time in which no node could ask for anything: the gateway did not run or stood still, its machine slept, or
// its clock skipped the time.
type absence struct{ from, to time.Time }

// absences are in the order of time, and none overlaps another. No method changes the list that it is called on.
type absences []absence

// add returns the list with one more absence at its end. It joins the last one if less than StepGap lies between. An absence
// that is empty, or that ends before the last one does, is left out.
func (a absences) add(from, to time.Time) absences {
	if n := len(a); n > 0 && to.Before(a[n-1].to) || !from.Before(to) {
		return a
	}
	a = slices.Clone(a)
	if n := len(a); n > 0 && from.Sub(a[n-1].to) < StepGap {
		from = a[n-1].from
		a = a[:n-1]
	}
	a = append(a, absence{from, to})
	if len(a) <= maxAbsences {
		return a
	}
	shortest := slices.MinFunc(a, func(x, y absence) int { return int(x.length() - y.length()) })
	return slices.DeleteFunc(a, func(x absence) bool { return x == shortest })
}

func (x absence) length() time.Duration { return x.to.Sub(x.from) }

// until returns the part of the list that lies before now. It is for a clock that was set back.
func (a absences) until(now time.Time) absences {
	var before absences
	for _, x := range a {
		if x.to.After(now) {
			x.to = now
		}
		if x.from.Before(x.to) {
			before = append(before, x)
		}
	}
	return before
}

// within is how much time of the absences lies between two moments.
func (a absences) within(from, to time.Time) (sum time.Duration) {
	for _, x := range a {
		if x.from.Before(from) {
			x.from = from
		}
		if x.to.After(to) {
			x.to = to
		}
		sum += max(x.length(), 0)
	}
	return sum
}

// String returns the text that the database keeps: pairs of Unix milliseconds.
func (a absences) String() string {
	var parts []string
	for _, x := range a {
		parts = append(parts, strconv.FormatInt(x.from.UnixMilli(), 10)+"-"+strconv.FormatInt(x.to.UnixMilli(), 10))
	}
	return strings.Join(parts, " ")
}

// parseAbsences reads what String wrote. It leaves out what it cannot read.
func parseAbsences(text string) (a absences) {
	for part := range strings.FieldsSeq(text) {
		first, second, _ := strings.Cut(part, "-")
		from, errFrom := strconv.ParseInt(first, 10, 64)
		to, errTo := strconv.ParseInt(second, 10, 64)
		if errFrom == nil && errTo == nil {
			a = a.add(time.UnixMilli(from), time.UnixMilli(to))
		}
	}
	return a
}
