package uptime

import (
	"testing"
	"time"
)

// TestAbsences: the list keeps the longest, counts each moment once, and comes back from the disk as it was.
func TestAbsences(t *testing.T) {
	at := func(minutes int) time.Time {
		return time.UnixMilli(1_800_000_000_000).Add(time.Duration(minutes) * time.Minute)
	}
	var a absences
	a = a.add(at(10), at(20)).add(at(15), at(25)).add(at(25), at(24)).add(at(40), at(50)) // the second overlaps, the third is none
	for _, c := range []struct{ from, to, want int }{{0, 100, 25}, {0, 5, 0}, {12, 22, 10}, {30, 35, 0}, {45, 100, 5}, {60, 50, 0}} {
		if got := a.within(at(c.from), at(c.to)); got != time.Duration(c.want)*time.Minute {
			t.Errorf("from %d to %d: got %s, want %d minutes", c.from, c.to, got, c.want)
		}
	}
	if got := a.until(at(45)).within(at(0), at(100)); got != 20*time.Minute {
		t.Errorf("up to minute 45: %s", got)
	}
	if got := a.until(at(5)); len(got) != 0 {
		t.Errorf("up to minute 5: %v", got)
	}
	if again := parseAbsences(a.String() + " x 5- 9-7"); again.String() != a.String() || len(again) != 2 {
		t.Errorf("got %q, want %q", again, a)
	}
	for i := range 100 {
		a = a.add(at(100+10*i), at(101+10*i))
	}
	if len(a) != maxAbsences || a.within(at(0), at(60)) != 25*time.Minute {
		t.Errorf("%d are remembered, %s of the long ones", len(a), a.within(at(0), at(60)))
	}
}

// FuzzAbsences: whatever stands in the database, the list is in order, and no more than the time that was asked for.
func FuzzAbsences(f *testing.F) {
	for _, text := range []string{"", "1-2", "5-9 1-20", "9223372036854775807-1 -5--1", "1-9223372036854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := parseAbsences(text)
		if len(a) > maxAbsences {
			t.Errorf("%d", len(a))
		}
		from := time.UnixMilli(0)
		to := time.UnixMilli(4_000_000_000_000)
		if got := a.within(from, to); got < 0 || got > to.Sub(from) {
			t.Errorf("%q: %s of %s", text, got, to.Sub(from))
		}
	})
}
