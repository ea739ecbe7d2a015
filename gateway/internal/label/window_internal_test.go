package label

import (
	"strings"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	for label, times := range map[string]map[string]bool{
		"":  {"Sun 00:00": true, "Wed 12:00": true},
		" ": {"Sun 00:00": true},
		"Sat Sun 02:00-04:00": {"Sat 01:59": false, "Sat 02:00": true, "Sun 03:59": true, "Sun 04:00": false,
			"Mon 02:00": false},
		"22:00-06:00": {"Mon 21:59": false, "Mon 22:00": true, "Tue 05:59": true, "Tue 06:00": false,
			"Sun 00:00": true},
		"fri 22:00-06:00":                       {"Fri 22:00": true, "Sat 05:59": true, "Sat 22:00": false},
		"SUN 00:00-24:00":                       {"Sun 00:00": true, "Sun 23:59": true, "Mon 00:00": false, "Sat 23:59": false},
		"Sat 23:00-24:00":                       {"Sat 23:59": true, "Sun 00:00": false},
		"Sat 23:00-00:00":                       {"Sat 23:59": true, "Sun 00:00": false, "Sat 00:00": false},
		"Mon 1:00-2:00":                         nil,
		"Mon 02:00-04:00;":                      nil,
		"Tue 01:00-02:00; Wed":                  nil,
		"Tue 01:00-02:00 ; Wed Thu 03:00-04:00": {"Tue 01:30": true, "Wed 01:30": false, "Thu 03:30": true, "Tue 03:30": false},
		"02:00-02:00":                           nil,
		"24:00-01:00":                           nil,
		"25:00-26:00":                           nil,
		"02:00-03:60":                           nil,
		"Someday 02:00-03:00":                   nil,
		"02:00":                                 nil,
		"at night":                              nil,
		"02:00-03:00 Mon":                       nil,
		"-":                                     nil,
		strings.Repeat("02:00-03:00;", 16) + "02:00-03:00": nil,
	} {
		w, err := ParseWindow(label)
		if (err == nil) != (times != nil) {
			t.Errorf("%q: %v", label, err)
		}
		if err != nil && !strings.Contains(err.Error(), "maintenance window") {
			t.Errorf("%q: %v", label, err)
		}
		for at, want := range times {
			if got := w.Open(weekTime(t, at)); got != want {
				t.Errorf("%q at %s: %v", label, at, got)
			}
		}
	}
	w, err := ParseWindow("Sun 02:00-04:00")
	east := time.FixedZone("east", 5*3600)
	if err != nil || !w.Open(weekTime(t, "Sun 03:00").In(east)) {
		t.Error("a window is in UTC")
	}
}

// weekTime is a time such as "Sun 02:00" of one week.
func weekTime(t *testing.T, text string) time.Time {
	t.Helper()
	day, err := parseDay(text[:3])
	if err != nil {
		t.Fatal(err)
	}
	minute, err := parseMinute(text[4:])
	if err != nil {
		t.Fatal(err)
	}
	return time.Date(2026, 11, 22+int(day), 0, minute, 0, 0, time.UTC) // the 22nd is a Sunday
}

// FuzzWindow: a label that is read opens for some of the week, and one that is not says why.
func FuzzWindow(f *testing.F) {
	for _, s := range []string{"", "Sat Sun 02:00-04:00", "22:00-06:00", "Mon 1:00-2:00;", "24:00-24:00", "Mon Mon 00:00-24:00", ";"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, label string) {
		w, err := ParseWindow(label)
		if err != nil {
			return
		}
		for minute := range 7 * dayMinutes {
			if w.Open(time.Date(2026, 11, 22, 0, minute, 0, 0, time.UTC)) {
				return
			}
		}
		t.Errorf("%q is never open", label)
	})
}
