package fleet_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver/limit/uptime"
	"muster/store"
)

const year = 365 * 24 * time.Hour

// tide is a fleet whose clock can be set while time goes on as it does.
type tide struct {
	*world
	passed atomic.Int64 // nanoseconds
	told   bool         // the fleet is told how much time has passed, as a real clock tells it
	log    bytes.Buffer
}

func newTide(t *testing.T, told bool) *tide {
	f := &tide{world: newFleet(t), told: told}
	f.restart()
	return f
}

// restart opens another fleet: a gateway that starts does not know how much time passed before.
func (f *tide) restart() {
	f.t.Helper()
	c := fleet.Config{Store: f.store, Now: f.clock.Now, RenewGrace: grace, Logger: slog.New(slog.NewTextHandler(&f.log, nil))}
	if f.told {
		c.Elapsed = func() time.Duration { return time.Duration(f.passed.Load()) }
	}
	r, err := fleet.Open(f.t.Context(), c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.Fleet = r
}

// pass lets time go on; set sets the clock.
func (f *tide) pass(d time.Duration) { f.passed.Add(int64(d)); f.clock.Forward(d) }
func (f *tide) set(d time.Duration)  { f.clock.Forward(d) }

// tell sends a heartbeat of a run.
func (f *tide) tell(ad fleet.Admission, run string, counter uint64) { f.heard(ad, run, counter, 0) }

// steps are what a clock can do: by seconds, minutes, hours and years, either way.
var steps = []time.Duration{3 * time.Second, 40 * time.Second, 3 * time.Minute, 10 * time.Hour, 30 * 24 * time.Hour, 10 * year}

// TestClockThatWasWrong: the clock is wrong for ten seconds and then right again. That leaves no trace, whether the gateway goes on or
// starts again.
func TestClockThatWasWrong(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} {
		for _, size := range steps {
			for _, by := range []time.Duration{size, -size} {
				for _, restart := range []string{"", "right after", "meanwhile"} {
					t.Run(fmt.Sprint("told ", told, " by ", by, " restart ", restart), func(t *testing.T) {
						t.Parallel()
						wrongForAWhile(t, told, by, restart)
					})
				}
			}
		}
	}
}

func wrongForAWhile(t *testing.T, told bool, by time.Duration, restart string) {
	f := newTide(t, told)
	dead := f.enrolled("dead")
	dying := f.enrolled("dying")
	alive := f.enrolled("alive")
	again := f.enrolled("again")
	f.tell(dead, "D", 1)
	f.pass(20 * time.Minute)
	for i := range uint64(12) { // long enough for the start to be forgotten
		for _, ad := range []fleet.Admission{dying, alive, again} {
			f.tell(ad, "A", i+1)
		}
		f.flush()
		f.pass(30 * time.Second)
	}
	f.set(by)
	f.pass(2 * time.Second)
	for _, ad := range []fleet.Admission{dying, alive, again} {
		f.tell(ad, "A", 20)
	}
	f.flush()
	if restart == "meanwhile" {
		f.restart()
		f.tell(alive, "A", 21)
		f.flush()
	}
	f.pass(8 * time.Second)
	f.set(-by)
	if restart == "right after" {
		f.restart()
	}

	f.pass(22 * time.Second)
	f.tell(alive, "A", 22)
	f.tell(again, "B", 1) // its agent has started again
	f.flush()
	if got := f.stored("alive"); !got.LastSeen.Equal(f.clock.Now()) || got.Counter != 22 {
		t.Errorf("the row of a live node stands still at %v, counter %d; it is %v", got.LastSeen, got.Counter, f.clock.Now())
	}
	for i := range uint64(4) {
		f.pass(30 * time.Second)
		f.tell(alive, "A", 23+i)
		f.tell(again, "B", 2+i)
		f.flush()
	}
	f.restart()
	f.pass(7 * time.Minute) // beyond the time in which nothing turns stale
	for i := range uint64(3) {
		f.tell(alive, "C", 1+i) // its agent has started again, and the gateway
		f.tell(again, "B", 7+i)
		f.flush()
		f.pass(time.Second)
	}
	for name, want := range map[string]string{"dead": "stale", "dying": "stale", "alive": "online", "again": "online"} {
		n := f.seen(name)
		if n.Status != want || n.LastSeen.After(f.clock.Now()) || reasons(n) != "" {
			t.Errorf("%s: got %s, last seen %v, reasons %q, want %s; it is %v", name, n.Status, n.LastSeen, reasons(n), want, f.clock.Now())
		}
	}
	if n := len(f.events("identity.conflict")); n > 0 {
		t.Errorf("%d conflicts", n)
	}
}

// TestCopyWhileTheClockIsSet: two machines that use one identity are found whatever the clock does between their heartbeats.
func TestCopyWhileTheClockIsSet(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} {
		for _, size := range steps {
			for _, by := range []time.Duration{size, -size} {
				f := newTide(t, told)
				ad := f.enrolled("box")
				f.tell(ad, "A", 1)
				f.pass(5 * time.Minute)
				for i, beat := range []string{"A", "B", "A", "B", "A", "B"} {
					if i%2 == 0 {
						f.set(by)
						by = -by
					}
					f.tell(ad, beat, uint64(i+2))
					f.pass(15 * time.Second)
				}
				if got := reasons(f.seen("box")); got != wire.ReasonConflict {
					t.Errorf("told %v, by %s: got reasons %q", told, by, got)
				}
			}
		}
	}
}

// TestStepIsNoSilence: a clock that is set forward, and a machine that slept, make no node stale, and let nobody take one over.
func TestStepIsNoSilence(t *testing.T) {
	for _, by := range []time.Duration{40 * time.Second, 3 * time.Minute, 10 * time.Hour, 10 * year} {
		f := newTide(t, true)
		dead := f.enrolled("dead")
		alive := f.enrolled("alive")
		f.tell(dead, "D", 1)
		f.pass(20 * time.Minute)
		f.tell(alive, "A", 1)
		f.flush()
		token := f.token("mse_b001", func(s *store.Token) { s.ExpiresAt = s.CreatedAt.Add(20 * year) })
		f.pass(85 * time.Second)
		f.set(by)
		if got := []string{f.seen("dead").Status, f.seen("alive").Status}; got[0] != "stale" || got[1] != "online" {
			t.Errorf("%s: got %v", by, got)
		}
		if by < year { // else the CA's own time is over
			_, err := f.Enrol(t.Context(), f.applicant(token, "alive", newKey(t)))
			f.wantRefusal(err, wire.CodeNameInUse)
		}
		f.pass(7 * time.Minute)
		if got := f.seen("alive").Status; got != "stale" {
			t.Errorf("%s: a node that has died is %s", by, got)
		}
	}
}

// TestStragglerAfterAStep: a request was on its way when its certificate was superseded. It shows no conflict, also if the clock was
// set meanwhile.
func TestStragglerAfterAStep(t *testing.T) {
	for _, by := range []time.Duration{3 * time.Minute, 10 * time.Hour, -10 * time.Hour} {
		f := newTide(t, true)
		ad := f.enrolled("box")
		f.tell(ad, "A", 1)
		old := ad.Certificate.Fingerprint
		f.use(f.renew(old).Fingerprint)
		f.pass(time.Second)
		f.set(by)
		if err := f.stray(old, fleet.ForHeartbeat, fleet.Proof{At: f.clock.Now()}); code(err) != wire.CodeSupersededRetry {
			t.Errorf("%s: got %v", by, err)
		}
		f.pass(10 * time.Minute)
		if err := f.stray(old, fleet.ForHeartbeat, fleet.Proof{At: f.clock.Now()}); code(err) != "ok" ||
			reasons(f.seen("box")) != wire.ReasonConflict {
			t.Errorf("%s: minutes later: got %v, reasons %q", by, err, reasons(f.seen("box")))
		}
	}
}

// TestSteppedEvents: a step is logged once, and one of more than a minute is an event.
func TestSteppedEvents(t *testing.T) {
	for _, c := range []struct {
		by     time.Duration
		logged int
		events int
		detail string
	}{
		{500 * time.Millisecond, 0, 0, ""}, {3 * time.Second, 1, 0, ""}, {-time.Minute, 1, 0, ""}, {61 * time.Second, 1, 1, "1m1s"},
		{-10 * time.Hour, 1, 1, "-10h0m0s"},
		{10 * year, 1, 1, "87600h0m0s"},
	} {
		f := newTide(t, true)
		ad := f.enrolled("box")
		f.pass(time.Minute)
		f.set(c.by)
		for range 3 {
			f.tell(ad, "A", 1)
			f.flush()
			f.seen("box")
		}
		events := f.events("clock.stepped")
		if got := strings.Count(f.log.String(), "the clock was set"); got != c.logged || len(events) != c.events {
			t.Errorf("%s: got %d events and the log\n%s", c.by, len(events), f.log.String())
		}
		if c.events == 1 && (events[0].Detail["by"] != c.detail || !events[0].Security || !events[0].At.Equal(f.clock.Now())) {
			t.Errorf("%s: got event %+v", c.by, events[0])
		}
	}
}

// TestSmallStepsAddUp: a clock that is set back a little again and again is noticed all the same.
func TestSmallStepsAddUp(t *testing.T) {
	f := newTide(t, true)
	ad := f.enrolled("box")
	for i := range uint64(300) {
		f.pass(time.Second)
		f.set(-400 * time.Millisecond)
		f.tell(ad, "A", i+1)
		f.flush()
	}
	if got := f.stored("box"); got.Counter != 300 || got.LastSeen.After(f.clock.Now()) {
		t.Errorf("got counter %d, last seen %v at %v", got.Counter, got.LastSeen, f.clock.Now())
	}
}

// TestDatabaseOfAWrongClock: an earlier gateway left times that are ahead of this one's clock, whether it knew that or not.
func TestDatabaseOfAWrongClock(t *testing.T) {
	for _, aliveAt := range []time.Duration{0, 10 * time.Hour} {
		f := newTide(t, true)
		ad := f.enrolled("box")
		if err := f.store.SaveBeats(t.Context(), []store.Beat{{NodeID: ad.Node.ID, At: start.Add(10 * time.Hour), RunID: "run0000A",
			Counter: 3, Interval: pace}},
			start.Add(aliveAt)); err != nil {
			t.Fatal(err)
		}
		f.restart()
		if got := f.stored("box"); got.LastSeen.After(f.clock.Now()) {
			t.Errorf("last seen %v", got.LastSeen)
		}
		f.pass(8 * time.Minute)
		if got := f.seen("box").Status; got != "stale" {
			t.Errorf("alive at %s: a node that has died is %s", aliveAt, got)
		}
		if got := len(f.events("clock.stepped")); (got == 1) != (aliveAt > 0) {
			t.Errorf("alive at %s: %d events", aliveAt, got)
		}
	}
}

// TestMadeByAWrongClock: something that was made while the clock was ahead lasts as long as planned, counted from when the clock is
// right again.
func TestMadeByAWrongClock(t *testing.T) {
	const ahead = 10 * time.Hour
	for _, restart := range []bool{false, true} {
		f := newTide(t, true)
		ad := f.enrolled("box")
		before := f.token("mse_before", nil)
		f.tell(ad, "A", 1)
		f.flush()
		f.set(ahead)
		f.tell(ad, "A", 2)
		f.flush()
		during := f.token("mse_during", nil)
		f.recover("box", api.RecoveryRequest{For: api.Duration(time.Hour)})
		next := f.renew(ad.Certificate.Fingerprint)
		f.use(next.Fingerprint)
		f.pass(10 * time.Second)
		f.flush()
		f.set(-ahead)
		if restart {
			f.restart()
		}
		f.identity(next.Fingerprint)

		now := f.clock.Now()
		second := 15 * time.Second
		for _, c := range []struct {
			token store.Token
			left  time.Duration
		}{{before, time.Hour}, {during, time.Hour}} {
			got, err := f.store.Token(t.Context(), c.token.ID)
			if left := got.ExpiresAt.Sub(now); err != nil || (left-c.left).Abs() > second || got.CreatedAt.After(now) {
				t.Errorf("%s: made %v, %s left, %v; want %s", got.ID, got.CreatedAt, left, err, c.left)
			}
		}
		n := f.stored("box")
		if n.RecoveryUntil == nil || (n.RecoveryUntil.Sub(now)-time.Hour).Abs() > second {
			t.Errorf("recovery is allowed until %v at %v", n.RecoveryUntil, now)
		}
		id, err := f.store.Identity(t.Context(), next.Fingerprint)
		c := id.Certificate
		if left := c.NotAfter.Sub(now); err != nil || (left-24*time.Hour).Abs() > second || c.IssuedAt.After(now) ||
			c.FirstUsedAt.After(now) {
			t.Errorf("the certificate: got %+v, %s left, %v", c, left, err)
		}
		if err := f.may(next.Fingerprint, fleet.ForAnything); err != nil {
			t.Errorf("the certificate: %v", err)
		}
		f.pass(24*time.Hour + time.Minute)
		if err := f.may(next.Fingerprint, fleet.ForAnything); code(err) != wire.CodeExpired {
			t.Errorf("the certificate a day later: %v", err)
		}
		if err := f.may(next.Fingerprint, fleet.ForRenewal); err != nil {
			t.Errorf("its renewal: %v", err)
		}
	}
}

// TestOverdueByAWrongClock: marks of a sweep from when the clock was ahead are taken back.
func TestOverdueByAWrongClock(t *testing.T) {
	f := newTide(t, false)
	ad := f.enrolled("box")
	f.tell(ad, "A", 1)
	f.flush()
	f.set(25 * time.Hour)
	if err := f.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.seen("box"); reasons(got) != wire.ReasonExpired || got.Certificate.OverdueAt == nil {
		t.Fatalf("got reasons %q", reasons(got))
	}
	f.set(-25 * time.Hour)
	f.tell(ad, "A", 2)
	if got := f.seen("box"); got.State != "active" || reasons(got) != "" || got.Certificate.OverdueAt != nil {
		t.Errorf("got %s, reasons %q, overdue at %v", got.State, reasons(got), got.Certificate.OverdueAt)
	}
}

// TestExpiredByAWrongClock: a node that was heard a moment ago may renew, however long ago its certificate seems to have ended.
func TestExpiredByAWrongClock(t *testing.T) {
	for _, by := range []time.Duration{10 * time.Hour, 30 * 24 * time.Hour, 10 * year} {
		f := newTide(t, true)
		ad := f.enrolled("box")
		f.tell(ad, "A", 1)
		f.set(by)
		print := ad.Certificate.Fingerprint
		if err := f.may(print, fleet.ForRenewal); err != nil {
			t.Errorf("%s: %v", by, err)
		}
		if err := f.may(print, fleet.ForAnything); (code(err) == wire.CodeExpired) != (by > 24*time.Hour) {
			t.Errorf("%s: for anything: %v", by, err)
		}
		f.pass(24*time.Hour + grace)
		if err := f.may(print, fleet.ForRenewal); code(err) != wire.CodeExpired {
			t.Errorf("%s: after the grace: %v", by, err)
		}
	}
}

// TestStandstill: a gateway that was stopped for a while and goes on finds no node stale for that. The time never counts, also after a
// restart.
func TestStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newTide(t, true)
		f.tell(f.enrolled("alive"), "A", 1)
		f.flush()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		synctest.Wait()
		f.pass(time.Hour)
		f.alive(t, wire.StatusOnline)
		for range 7 * time.Minute / uptime.BeatEvery {
			time.Sleep(uptime.BeatEvery)
			f.pass(uptime.BeatEvery)
		}
		synctest.Wait()
		if n := strings.Count(f.log.String(), "stood still"); n != 1 {
			t.Errorf("told for %d times:\n%s", n, &f.log)
		}
		f.alive(t, wire.StatusStale)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		f.restart()
		f.pass(7 * time.Minute)
		f.alive(t, wire.StatusStale)
	})
}

// alive expects a node's status, and that it is not silent for half an hour.
func (f *tide) alive(t *testing.T, status string) {
	t.Helper()
	n := f.seen("alive")
	if n.Status != status {
		t.Errorf("it is %s", n.Status)
	}
	if gone, err := f.RetireSilent(t.Context(), n.ID, 30*time.Minute); gone || err != nil {
		t.Errorf("a standstill counts as its silence: %v, %v", gone, err)
	}
}
