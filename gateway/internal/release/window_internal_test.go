package release

import (
	"strings"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	for label, times := range map[string]map[string]bool{
		"":                                      {"Sun 00:00": true, "Wed 12:00": true},
		" ":                                     {"Sun 00:00": true},
		"Sat Sun 02:00-04:00":                   {"Sat 01:59": false, "Sat 02:00": true, "Sun 03:59": true, "Sun 04:00": false, "Mon 02:00": false},
		"22:00-06:00":                           {"Mon 21:59": false, "Mon 22:00": true, "Tue 05:59": true, "Tue 06:00": false, "Sun 00:00": true},
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
		w, err := parseWindow(label)
		if (err == nil) != (times != nil) {
			t.Errorf("%q: %v", label, err)
		}
		if err != nil && !strings.Contains(err.Error(), "maintenance window") {
			t.Errorf("%q: %v", label, err)
		}
		for at, want := range times {
			if got := w.open(weekTime(t, at)); got != want {
				t.Errorf("%q at %s: %v", label, at, got)
			}
		}
	}
	w, err := parseWindow("Sun 02:00-04:00")
	east := time.FixedZone("east", 5*3600)
	if err != nil || !w.open(weekTime(t, "Sun 03:00").In(east)) {
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
		w, err := parseWindow(label)
		if err != nil {
			return
		}
		for minute := range 7 * dayMinutes {
			if w.open(time.Date(2026, 11, 22, 0, minute, 0, 0, time.UTC)) {
				return
			}
		}
		t.Errorf("%q is never open", label)
	})
}

func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		plan  Plan
		nodes int
		reach []int
		limit []int
	}{
		"default":            {DefaultPlan(), 30, []int{1, 30}, []int{0, 3}},
		"all at once":        {allAtOnce(), 30, []int{30}, []int{3}},
		"the way back":       {wayBack(), 30, []int{30}, []int{30}},
		"percent":            {Plan{Canary: "5%", Steps: []string{"10%", "50%"}, MaxFailed: "2"}, 30, []int{2, 3, 15, 30}, []int{0, 2, 2, 2}},
		"few nodes":          {Plan{Canary: "5", Steps: []string{"50%"}, MaxFailed: "10%"}, 2, []int{2, 2, 2}, []int{0, 0, 0}},
		"a canary above":     {Plan{Canary: "10", Steps: []string{"10%"}, MaxFailed: "0"}, 20, []int{10, 10, 20}, []int{0, 0, 0}},
		"none":               {DefaultPlan(), 0, []int{0, 0}, []int{0, 0}},
		"less than one node": {Plan{Canary: "1%", MaxFailed: "0%"}, 3, []int{1, 3}, []int{0, 0}},
	} {
		w, err := c.plan.read()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for wave := range c.reach {
			if got := w.reach(wave, c.nodes); got != c.reach[wave] {
				t.Errorf("%s: wave %d reaches %d, want %d", name, wave, got, c.reach[wave])
			}
			if got := w.limit(wave, c.nodes); got != c.limit[wave] {
				t.Errorf("%s: in wave %d %d may fail, want %d", name, wave, got, c.limit[wave])
			}
		}
		if len(w.sizes) != len(c.reach) {
			t.Errorf("%s: %d waves", name, len(w.sizes))
		}
	}
	for name, p := range map[string]Plan{
		"canary 0": {Canary: "0", MaxFailed: "1"}, "canary of what": {Canary: "few", MaxFailed: "1"}, "+": {Canary: "+1", MaxFailed: "1"},
		"falls": {Steps: []string{"50%", "25%"}, MaxFailed: "1"}, "a count": {Steps: []string{"5"}, MaxFailed: "1"},
		"over": {Steps: []string{"101%"}, MaxFailed: "1"}, "no limit": {}, "less": {MaxFailed: "-1"},
		"soak": {SoakSeconds: -1, MaxFailed: "1"}, "long soak": {SoakSeconds: 1 << 30, MaxFailed: "1"},
		"empty step": {Steps: []string{""}, MaxFailed: "1"}, "no digits": {Steps: []string{"%"}, MaxFailed: "1"},
		"steps": {Steps: strings.Split(strings.TrimSuffix(manySteps(), ","), ","), MaxFailed: "1"},
	} {
		if _, err := p.read(); err == nil {
			t.Errorf("%s: %+v is taken", name, p)
		}
	}
}

func manySteps() string {
	var s strings.Builder
	for i := range 30 {
		s.WriteString(strings.TrimSpace(string(rune('0'+(i+10)/10))) + string(rune('0'+(i+10)%10)) + "%,")
	}
	return s.String()
}

// TestClean: foreign text is bounded, is UTF-8, and moves no cursor.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain\ttext\n": "plain\ttext\n", "\x1b[2J\x00\x7fred": "[2Jred", "gr\xffß": "gr\ufffdß",
		"123456789012345678901234567890x": "2345678901234567890x",
		"ééééééééééé":                     "éééééééééé", "\u202e\u200bab": "ab",
	} {
		if got := clean(text, 20); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
