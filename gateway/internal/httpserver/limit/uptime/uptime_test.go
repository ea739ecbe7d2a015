package uptime_test

import (
	"testing"
	"time"

	"muster/gateway/internal/httpserver/limit/uptime"
)

// TestStandstill: a gateway that stood still was away, from the first reading after that on. One that is late was not, and one that has
// never said that it is at work cannot stand still.
func TestStandstill(t *testing.T) {
	for _, c := range []struct {
		still time.Duration
		beats bool
		away  time.Duration
	}{
		{19 * time.Second, true, 0}, {20 * time.Second, true, 20 * time.Second}, {time.Hour, true, time.Hour}, {time.Hour, false, 0},
	} {
		begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		var passed time.Duration
		clock := uptime.Clock{Wall: func() time.Time { return begin.Add(passed) }, Elapsed: func() time.Duration { return passed }}
		clock.Begin(begin.Add(-time.Second), "")
		passed = time.Hour
		if c.beats && clock.Beat() != 0 {
			t.Error("it stood still before the first word")
		}
		passed += c.still
		ref := clock.Ref()
		if ref.Grace != (c.away > 0) || ref.There || clock.Absent(begin, ref.Now) != c.away || len(clock.Take()) > 0 {
			t.Errorf("%+v: %+v, away for %s", c, ref, clock.Absent(begin, ref.Now))
		}
		if ref.Grace && !ref.AliveAt.Equal(begin.Add(time.Hour)) {
			t.Errorf("%+v: it was alive at %s", c, ref.AliveAt)
		}
		if got := clock.Beat(); got != c.away {
			t.Errorf("%+v: it stood still for %s", c, got)
		}
		if clock.Beat() != 0 {
			t.Errorf("%+v: told twice", c)
		}
	}
}

// TestSetOrSlept: after the clock was set, the silence of nodes goes on to count from where it was, also if it is set again. After a
// machine slept, or may have, and after a start, they have time to come back.
func TestSetOrSlept(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name       string
		slept, old time.Duration // old: how long ago the gateway started
		there      bool
	}{
		{"set", 0, time.Hour, true}, {"slept", time.Hour, time.Hour, false}, {"not known", -1 - time.Hour, time.Hour, false},
		{"started just now", 0, minute, false},
	} {
		begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		var passed, set, slept time.Duration
		clock := uptime.Clock{Wall: func() time.Time { return begin.Add(passed + set) }, Elapsed: func() time.Duration { return passed },
			Slept: func() time.Duration { return slept }}
		clock.Begin(begin.Add(-minute), "")
		passed = c.old
		clock.Read()
		set = time.Hour
		slept = c.slept
		for i := range time.Duration(3) {
			left := clock.Ref().Left(begin.Add(c.old-minute), minute)
			ref := clock.Ref()
			want := begin.Add(c.old)
			if c.old == minute {
				want = begin.Add(-minute)
			}
			if c.there {
				want = begin.Add(passed)
			}
			if ref.There != c.there || !ref.Grace || !ref.AliveAt.Equal(want) {
				t.Errorf("%s, after %d minutes: %+v, want %s", c.name, i, ref, want)
			}
			if wantLeft := 2*minute - i*minute; c.there && (left-wantLeft).Abs() > time.Millisecond {
				t.Errorf("%s, after %d minutes: %s left, want %s", c.name, i, left, wantLeft)
			}
			passed += minute
			if i == 0 && c.there {
				set += time.Hour
			}
		}
	}
}

// TestBusy: a gateway that says now and then that it is at work was never away, however often the clock is read.
func TestBusy(t *testing.T) {
	begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var passed time.Duration
	clock := uptime.Clock{Wall: func() time.Time { return begin.Add(passed) }, Elapsed: func() time.Duration { return passed }}
	clock.Begin(time.Time{}, "")
	for ; passed < 10*time.Minute; passed += time.Second {
		clock.Read()
		if passed%uptime.BeatEvery == 0 && clock.Beat() != 0 {
			t.Errorf("it stood still after %s", passed)
		}
	}
	if away := clock.Absent(begin, clock.Now()); away != 0 {
		t.Errorf("it was away for %s", away)
	}
}

// TestStandstillAndStep: a process that was stopped while its machine slept too was away for both together.
func TestStandstillAndStep(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, 5 * time.Second, -time.Hour} {
		begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		var passed, set time.Duration
		clock := uptime.Clock{Wall: func() time.Time { return begin.Add(passed + set) }, Elapsed: func() time.Duration { return passed }}
		clock.Begin(begin.Add(-time.Second), "")
		passed = 2 * time.Hour
		clock.Beat()
		passed += 10 * time.Minute
		set = step
		want := 10*time.Minute + max(step, 0)
		ref := clock.Ref()
		if away := clock.Absent(begin, ref.Now); away != want || !ref.Grace || ref.There || !ref.AliveAt.Equal(ref.Now.Add(-want)) {
			t.Errorf("%s: away for %s, %+v", step, away, ref)
		}
	}
}

// TestRealClock: with the machine's own clock, which nobody sets here, nothing is noticed, by however many at once.
func TestRealClock(t *testing.T) {
	var c uptime.Clock
	c.Begin(time.Time{}, "")
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			var last time.Duration
			for range 10_000 {
				_, up := c.Read()
				if up < last {
					t.Errorf("the time that has passed went back from %s to %s", last, up)
				}
				last = up
			}
		}()
	}
	for range 4 {
		<-done
	}
	if !c.Settled() {
		t.Errorf("got steps %+v", c.Take())
	}
}
