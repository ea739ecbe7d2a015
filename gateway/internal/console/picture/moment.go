package picture

import (
	"strconv"
	"time"
)

// Moment is a time, as pages show it.
type Moment struct {
	Known bool
	ISO   string // for programs and scripts
	Exact string // on hover, and for screen readers
	Text  string // "4 s ago", "in 12 m"
}

// MomentOf takes a time.Time or a pointer to one; nil and the zero time are not known.
func MomentOf(at any, now time.Time) Moment {
	var t time.Time
	switch at := at.(type) {
	case time.Time:
		t = at
	case *time.Time:
		if at != nil {
			t = *at
		}
	}
	if t.IsZero() {
		return Moment{Text: Unknown}
	}
	t = t.UTC()
	text := "in " + span(t.Sub(now))
	if !t.After(now) {
		text = span(now.Sub(t)) + " ago"
	}
	return Moment{Known: true, ISO: t.Format(time.RFC3339), Exact: t.Format("2006-01-02 15:04:05 UTC"), Text: text}
}

// span is a duration in its largest unit. web/assets/times.js writes it in the same way.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " m"
	case d < 2*day:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/day)) + " d"
}
