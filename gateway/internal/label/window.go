package label

import (
	"fmt"
	"strings"
	"time"
)

// Window is a time of the week, in UTC. The zero value is always open.
type Window struct{ spans []span }

// span is one part of a window: on its days (by the time it begins) from minute to minute of the day. If from is not before to, it
// ends on the day after.
type span struct {
	days     [7]bool
	from, to int
}

const (
	dayMinutes = 24 * 60
	mostSpans  = 16
	windowHint = `such as "Sat Sun 02:00-04:00" or "22:00-06:00", in UTC, several with ; between`
)

// Parse reads the label of a maintenance window: spans with ; between. A span is names of days (without names: every day) and a time such
// as 22:00-06:00. Its end may be 24:00.
func ParseWindow(label string) (Window, error) {
	var w Window
	if strings.TrimSpace(label) == "" {
		return w, nil
	}
	for part := range strings.SplitSeq(label, ";") {
		s, err := parseSpan(strings.Fields(part))
		if err != nil {
			return Window{}, fmt.Errorf("the maintenance window %.80q: %w; write one %s", label, err, windowHint)
		}
		if w.spans = append(w.spans, s); len(w.spans) > mostSpans {
			return Window{}, fmt.Errorf("the maintenance window has more than %d parts", mostSpans)
		}
	}
	return w, nil
}

func parseSpan(words []string) (span, error) {
	var s span
	if len(words) == 0 {
		return s, fmt.Errorf("a part is empty")
	}
	days := words[:len(words)-1]
	for _, word := range days {
		day, err := parseDay(word)
		if err != nil {
			return s, err
		}
		s.days[day] = true
	}
	if len(days) == 0 {
		s.days = [7]bool{true, true, true, true, true, true, true}
	}
	from, to, ok := strings.Cut(words[len(words)-1], "-")
	if !ok {
		return s, fmt.Errorf("%.20q is no time from-to", words[len(words)-1])
	}
	var err error
	if s.from, err = parseMinute(from); err != nil {
		return s, err
	}
	if s.to, err = parseMinute(to); err != nil {
		return s, err
	}
	if s.from == dayMinutes || s.from == s.to {
		return s, fmt.Errorf("%.20q is no time of a day", words[len(words)-1])
	}
	return s, nil
}

func parseDay(word string) (time.Weekday, error) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.EqualFold(word, day.String()[:3]) {
			return day, nil
		}
	}
	return 0, fmt.Errorf("%.20q is no day: write Mon Tue Wed Thu Fri Sat Sun", word)
}

// parseMinute reads HH:MM as the minute of the day.
func parseMinute(text string) (int, error) {
	if text == "24:00" {
		return dayMinutes, nil
	}
	at, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, fmt.Errorf("%.20q is no time: write HH:MM", text)
	}
	return at.Hour()*60 + at.Minute(), nil
}

// Open reports whether a time lies in the window.
func (w Window) Open(at time.Time) bool {
	at = at.UTC()
	minute := at.Hour()*60 + at.Minute()
	yesterday := (at.Weekday() + 6) % 7
	for _, s := range w.spans {
		over := s.from > s.to // midnight
		today := minute >= s.from && (over || minute < s.to)
		rest := over && minute < s.to
		if s.days[at.Weekday()] && today || s.days[yesterday] && rest {
			return true
		}
	}
	return len(w.spans) == 0
}
