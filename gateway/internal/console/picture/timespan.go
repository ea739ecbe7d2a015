package picture

import (
	"slices"
	"time"
)

// Timespan is a time that can be chosen.
type Timespan struct {
	Name string
	Path string // of the page with it
	For  time.Duration
}

// Timespans returns the times that can be chosen for a page; the first is the usual one.
func Timespans(page string) []Timespan {
	const day = 24 * time.Hour
	all := []Timespan{{"hour", "", time.Hour}, {"day", "", day}, {"week", "", 7 * day}, {"month", "", 30 * day}}
	for i := range all {
		all[i].Path = page + "?range=" + all[i].Name
	}
	return all
}

// AllEmpty reports whether no figure has a value.
func AllEmpty(figures []Figure) bool {
	return !slices.ContainsFunc(figures, func(f Figure) bool { return !f.Empty })
}

// Further returns the shortest time to choose that is longer than the present one and in which the node was heard; nil: there is none.
func Further(all []Timespan, since, until time.Time, heard *time.Time) *Timespan {
	for i, r := range all {
		if heard != nil && heard.Before(since) && heard.After(until.Add(-r.For)) {
			return &all[i]
		}
	}
	return nil
}
