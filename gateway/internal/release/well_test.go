package release_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/release"
	"muster/gateway/internal/release/rollout"
	"muster/store/releases"
)

// take has a node take what it is offered, with all that it says on the way.
func (h *hall) take(name, of string) {
	h.t.Helper()
	h.say(name, wire.UpdateFetching, "")
	h.say(name, wire.UpdateTrial, "")
	h.install(name, of)
}

// TestCrashesAfterCommit: a release that crashes after its commit, and is back in two seconds, does not get beyond its canary.
func TestCrashesAfterCommit(t *testing.T) {
	h := newHall(t, names(10)...)
	h.point(h.release("v1"), waves())
	canary := one(t, h.look())
	h.nodes[canary].vitals.Crashes = 1 // long before the release
	h.take(canary, "v1")
	h.pass(3 * time.Minute)
	h.state(releases.Running)
	h.nodes[canary].vitals = rollout.Vitals{Crashes: 2, Crashed: "panic: luck"}
	h.pass(30 * time.Second)
	c := h.state(releases.Halted)
	if c.Counts.Unwell != 1 || c.Counts.Running != 0 || !strings.Contains(c.Why, canary+" (since then its agent ended by itself (1): panic: luck)") {
		t.Errorf("got %+v", c)
	}
	h.open()
	h.pass(15 * time.Minute)
	h.state(releases.Halted)
	if offered := h.look(); len(offered) != 0 {
		t.Errorf("offered %v", offered)
	}
	s, err := h.Status(t.Context(), wire.DefaultChannel)
	must(t, err)
	for _, n := range s.Nodes {
		if n.Name == canary && (n.State != rollout.Unwell || n.Detail != "since then its agent ended by itself (1): panic: luck") {
			t.Errorf("got %+v", n)
		}
	}
	if e := h.events("release.unwell"); len(e) != 1 || e[0].NodeName != canary || !e[0].Security || e[0].Detail["why"] == "" {
		t.Errorf("the log has %+v", e)
	}
}

// TestFindingsAfterCommit: what health found since the trial began counts, and what it found before does not.
func TestFindingsAfterCommit(t *testing.T) {
	h := newHall(t, names(3)...)
	found := map[string]time.Time{}
	h.config.Severe = func(id string, since time.Time) string {
		if at, is := found[id]; is && !at.Before(since) {
			return "probe_failed"
		}
		return ""
	}
	h.open()
	h.point(h.release("v1"), waves())
	canary := one(t, h.look())
	h.say(canary, wire.UpdateFetching, "")
	h.pass(time.Minute)
	found["id-"+canary] = h.clock.Now().Add(-10 * time.Second)
	h.say(canary, wire.UpdateTrial, "")
	h.install(canary, "v1")
	h.pass(time.Minute)
	h.state(releases.Running)
	h.open()
	found["id-"+canary] = h.clock.Now().Add(-time.Minute - 2*time.Second) // of the heartbeat that said first that it is on trial
	h.pass(30 * time.Second)
	if c := h.state(releases.Halted); !strings.Contains(c.Why, "with it came probe_failed") {
		t.Error(c.Why)
	}
}

// TestMemoryAfterCommit: memory that has grown many times over counts, once it stays so.
func TestMemoryAfterCommit(t *testing.T) {
	h := newHall(t, names(3)...)
	for _, n := range h.nodes {
		n.vitals.MemoryKiB = 13 << 10
	}
	h.release("v1")
	h.pass(2 * time.Minute)
	h.point(sum("v1"), waves())
	canary := one(t, h.look())
	h.take(canary, "v1")
	for range 5 {
		h.nodes[canary].vitals.MemoryKiB = 300 << 10 // for a moment
		h.beats(30 * time.Second)
		h.nodes[canary].vitals.MemoryKiB = 20 << 10
		h.pass(30 * time.Second)
	}
	h.state(releases.Running)
	h.open()
	h.nodes[canary].vitals.MemoryKiB = 120 << 10
	h.pass(2 * time.Minute)
	if c := h.state(releases.Halted); !strings.Contains(c.Why, "its agent's memory grew from 13 to 120 MiB") {
		t.Error(c.Why)
	}
}

// TestWatchedAfterwards: what ran at once is watched for an hour after it is done. It alarms, and goes back where the plan says so.
func TestWatchedAfterwards(t *testing.T) {
	for name, c := range map[string]struct {
		goBack bool
		wait   time.Duration
		want   string
	}{
		"it halts":        {false, 50 * time.Minute, releases.Halted},
		"it goes back":    {true, 50 * time.Minute, releases.TakenBack},
		"an hour is over": {true, 70 * time.Minute, releases.Done},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHall(t, names(4)...)
			all := func(of string, plan *release.Plan) {
				h.point(h.release(of), plan)
				for name := range h.look() {
					h.take(name, of)
				}
				h.look()
				h.state(releases.Done)
			}
			all("v1", nil)
			h.pass(3 * time.Hour)
			now := rollout.AllAtOnce()
			now.GoBack = c.goBack
			all("v2", &now)
			h.pass(c.wait)
			h.state(releases.Done)
			h.nodes["n002"].vitals.Crashes = 1
			h.pass(30 * time.Second)
			got := h.state(c.want)
			offered := h.look()
			if c.want != releases.TakenBack {
				if len(offered) != 0 || got.Digest != sum("v2") {
					t.Errorf("offered %v, %+v", offered, got)
				}
				return
			}
			if len(offered) != 4 || offered["n002"] != sum("v1") || got.Digest != sum("v1") || !strings.Contains(got.Why, "n002") ||
				got.ToSign != "" {
				t.Errorf("offered %v, %+v", offered, got)
			}
			if len(h.events("rollout.halted")) != 1 || len(h.events("rollout.taken_back")) != 1 || len(h.events("channel.rolled_back")) != 1 {
				t.Error("events are missing")
			}
			for name := range offered {
				h.take(name, "v1")
			}
			h.open()
			if offered := h.look(); len(offered) != 0 {
				t.Errorf("after the way back: offered %v", offered)
			}
			h.state(releases.TakenBack)
			_, err := h.Resume(t.Context(), wire.DefaultChannel, operator)
			wantCode(t, err, wire.CodeIllegalMove)
		})
	}
}

// TestTakenBackUnsigned: where operators keep the key, the channel that should go back says what to sign, once.
func TestTakenBackUnsigned(t *testing.T) {
	h := newHall(t, names(1)...)
	v1, v2 := h.release("v1"), h.release("v2")
	h.point(v1, nil)
	h.look()
	h.take("n000", "v1")
	h.look()
	now := rollout.AllAtOnce()
	now.GoBack = true
	h.point(v2, &now)
	h.look()
	h.take("n000", "v2")
	h.look()
	h.nodes["n000"].vitals.Crashes = 1
	h.key = nil
	h.config.Sign = h.sign
	for range 3 {
		h.pass(30 * time.Second)
	}
	c := h.state(releases.TakenBack)
	if c.ToSign == "" || c.Digest != v2 || len(h.events("rollout.taken_back")) != 1 {
		t.Errorf("got %+v", c)
	}
}

// TestNothingToGoBackTo: the first release of a channel halts, and waits for a person.
func TestNothingToGoBackTo(t *testing.T) {
	h := newHall(t, names(1)...)
	now := rollout.AllAtOnce()
	now.GoBack = true
	h.point(h.release("v1"), &now)
	h.look()
	h.take("n000", "v1")
	h.look()
	h.nodes["n000"].vitals.Crashes = 1
	h.pass(time.Minute)
	h.state(releases.Halted)
}

// TestManyUnwell: a later wave may have as many as the plan says.
func TestManyUnwell(t *testing.T) {
	h := newHall(t, names(40)...)
	h.point(h.release("v1"), nil)
	for name := range h.look() {
		h.take(name, "v1")
	}
	h.look()
	for i := range 5 {
		h.state(releases.Done)
		h.nodes[fmt.Sprintf("n%03d", i)].vitals.Crashes = 2
		h.pass(30 * time.Second)
	}
	if c := h.state(releases.Halted); c.Counts.Unwell != 5 || c.Counts.Running != 35 {
		t.Errorf("got %+v", c.Counts)
	}
}

// TestNewestWord: what a node says is shown at once, also if its allowance of records is used up.
func TestNewestWord(t *testing.T) {
	h := newHall(t, names(1)...)
	h.point(h.release("v1"), nil)
	h.look()
	for range 4 {
		h.say("n000", wire.UpdateHeld, wire.UpdateBusy)
		h.say("n000", wire.UpdateHeld, wire.UpdateStagger)
	}
	h.say("n000", wire.UpdateTrial, "")
	s, err := h.Status(t.Context(), wire.DefaultChannel)
	must(t, err)
	if n := h.Updating("id-n000"); n.Phase != wire.UpdateTrial || s.Nodes[0].Phase != wire.UpdateTrial {
		t.Errorf("it is on trial, and shown as %s, %s", n.Phase, s.Nodes[0].Phase)
	}
}

// TestChannelOfTheUnable: an agent that cannot update itself, because it was given no channel when it enrolled, is told its channel.
func TestChannelOfTheUnable(t *testing.T) {
	h := newHall(t)
	h.enrol("unable", map[string]string{wire.LabelChannel: "lab"}).old = true
	h.beat("unable")
	if got := h.nodes["unable"].channel; got != "lab" {
		t.Errorf("it is told of %q", got)
	}
}
