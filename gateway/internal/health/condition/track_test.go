package condition_test

import (
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/health/condition"
)

// TestTrack: b, g, m and u are looks that are bad, good, between and unknown, a second apart; a dot lets a minute pass, a comma a third of
// one, and < sets the clock back by a minute. The track opens and closes at the looks in capitals.
func TestTrack(t *testing.T) {
	lasts := func(looks int, d time.Duration) condition.Hold { return condition.Hold{Looks: looks, For: d} }
	for name, c := range map[string]struct {
		opens, closes condition.Hold
		looks         string
	}{
		"at once":                    {lasts(1, 0), lasts(1, 0), "gBbGgBG"},
		"by looks":                   {lasts(3, 0), lasts(2, 0), "bbgbbBgbgG"},
		"by time":                    {lasts(1, 2*time.Second), lasts(1, time.Second), "bbBgGbgbbB"},
		"both":                       {lasts(2, 4*time.Second), lasts(1, 0), "bbbbBG"},
		"between is neither":         {lasts(2, 0), lasts(2, 0), "bmbBgmgG"},
		"unknown changes nothing":    {lasts(2, 0), lasts(2, 0), "uubuuBuuguuGuu"},
		"far apart is no row":        {lasts(2, 0), lasts(2, 0), "b.b.bBg.g.gG"},
		"time that nobody looked at": {lasts(1, 30*time.Second), lasts(1, 0), "b.b.b.b"},
		"unknown is no part of it":   {lasts(2, 0), lasts(2, 0), "b,u,u,bBg,u,u,gG"},
		"the clock was set back":     {lasts(2, 0), lasts(2, 0), "b<bBg<gG"},
	} {
		var track condition.Track
		at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
		for i, look := range c.looks {
			if pause, is := map[rune]time.Duration{'.': time.Minute, ',': 20 * time.Second, '<': -time.Minute}[look]; is {
				at = at.Add(pause)
				continue
			}
			verdict := map[string]condition.Verdict{"b": condition.Bad, "g": condition.Good, "m": condition.Between}[strings.ToLower(string(look))]
			was := track.Open
			changed := track.See(condition.Look{Verdict: verdict}, at, 30*time.Second, c.opens, c.closes)
			if want := look < 'a'; changed != want || changed != (track.Open != was) {
				t.Errorf("%s: look %d of %s changed it: %v, want %v", name, i, c.looks, changed, want)
			}
			at = at.Add(time.Second)
		}
	}
}

// TestTrackSince: a track knows when it began to be bad, and what the last bad look said.
func TestTrackSince(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	hold := condition.Hold{Looks: 2}
	var track condition.Track
	if !track.Idle() {
		t.Error("a new track is not idle")
	}
	look := condition.Look{Verdict: condition.Bad, Text: "it is at 91 C"}
	track.See(look, start, time.Minute, hold, hold)
	if track.Idle() || track.Closing() {
		t.Errorf("on its way to open: %+v", track)
	}
	look.Text = "it is at 95 C"
	track.See(look, start.Add(time.Second), time.Minute, hold, hold)
	track.See(condition.Look{Verdict: condition.Good}, start.Add(2*time.Second), time.Minute, hold, hold)
	if !track.Open || !track.Closing() || !track.Since.Equal(start) || track.Text != "it is at 95 C" {
		t.Errorf("open: %+v", track)
	}
}

// TestBegin: a track that is opened from outside closes after good looks of its own, whatever was seen before.
func TestBegin(t *testing.T) {
	at := time.Unix(1e9, 0)
	hold := condition.Hold{Looks: 2, For: time.Minute}
	var one condition.Track
	for range 5 { // bad for 50 seconds: not long enough
		one.See(condition.Known(true, "bad"), at, time.Minute, hold, hold)
		at = at.Add(10 * time.Second)
	}
	one.Begin()
	good := 0
	for one.Open && good < 20 {
		one.See(condition.Known(false, ""), at, time.Minute, hold, hold)
		at = at.Add(10 * time.Second)
		good++
	}
	if good != 7 {
		t.Errorf("it closed after %d good looks, want 7: a minute", good)
	}
}
