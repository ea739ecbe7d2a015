package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/providers"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/market"
	rentals "muster/store/provider"
)

// TestStopped: a machine under a lease is drained at its end, has time to finish, is stopped, and takes work again under a new lease.
func TestStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	if l := w.put(providers.LeaseRequest{Node: "node-1", TTLSeconds: 3600}); l.Act != providers.ActStop || l.Owner != "ada" ||
		l.Node != "node-1" ||
		!l.EndsAt.Equal(w.clock().Add(time.Hour)) {
		t.Errorf("the lease is %+v", l)
	}
	w.busy["n-1"] = []string{"task 7"}
	w.pass(62 * time.Minute)
	w.wantState("after its end", "1", providers.LeaseDraining)
	if !w.did("drain n-1") || w.company.asked("stop 1") != 0 {
		t.Errorf("it is not drained, or stopped at once: %v", w.done)
	}
	w.pass(11 * time.Minute)
	w.wantState("after the grace", "1", providers.LeaseEnded)
	if w.company.asked("stop 1") != 1 || w.company.asked("destroy 1") != 0 {
		t.Errorf("the company was asked: %v", w.company.calls)
	}
	if got, want := w.events(), "set ending ending ended"; got != want {
		t.Errorf("the events are %q, want %q", got, want)
	}
	w.put(providers.LeaseRequest{Node: "node-1", TTLSeconds: 3600})
	w.pass(time.Minute)
	w.wantState("under a new lease", "1", providers.LeaseLive)
	if n, _ := w.row("n-1"); n.State != wire.StateActive {
		t.Errorf("its node is %s", n.State)
	}
}

// TestSoon: while a lease waits for lists alone, they are asked for, since the next one may be far.
func TestSoon(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	asked := 0
	w.config.Soon = func(account string) {
		if account == "acme" {
			asked++
		}
	}
	w.restart()
	w.look()
	_, err := w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy, Why: "a person said so", By: ada,
		Hurry: true})
	w.must(err)
	w.Round(t.Context())
	if w.company.asked("destroy 1") != 1 || asked != 0 {
		t.Errorf("lists are asked for %d times before the company was: %v", asked, w.company.calls)
	}
	for range 3 {
		w.step(20 * time.Second)
		w.Round(t.Context())
	}
	if asked == 0 {
		t.Error("nobody asks for lists")
	}
	w.wantState("before a list", "1", providers.LeaseEnding)
}

// TestStopIsListed: a lease ends with a stop when a list shows that, so that the machine never seems to run while nobody ends it.
func TestStopIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	asked := 0
	w.config.Soon = func(string) { asked++ }
	w.restart()
	w.look()
	_, err := w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActStop, By: ada, Hurry: true})
	w.must(err)
	for range 3 {
		w.step(20 * time.Second)
		w.Round(t.Context())
	}
	w.wantState("before a list", "1", providers.LeaseEnding)
	if asked == 0 || w.company.asked("stop 1") != 1 {
		t.Errorf("lists are asked for %d times: %v", asked, w.company.calls)
	}
	w.look()
	w.step(time.Minute)
	w.Round(t.Context())
	w.wantState("by the list", "1", providers.LeaseEnded)
}

// TestGoneAtOnce: a machine that the lists have just lost is looked for at once, and not at the next try.
func TestGoneAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.company.deaf = true
	w.look()
	_, err := w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy, By: ada, Hurry: true})
	w.must(err)
	w.pass(30 * time.Minute) // by now it waits for ten minutes between two tries
	w.Round(t.Context())
	w.company.set(func() { delete(w.company.machines, "1") })
	for range 3 {
		w.step(30 * time.Second)
		w.look()
		w.Round(t.Context())
	}
	w.wantState("as soon as no list has it", "1", providers.LeaseEnded)
}

// TestDestroyed: a destroy that answers well and does nothing is asked for again and again, and a machine is gone only when the lists say
// so too. Then its node is given back.
func TestDestroyed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.company.deaf = true
	_, err := w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy, Why: "a person said so", By: ada})
	w.must(err)
	w.pass(90 * time.Minute)
	if n := w.company.asked("destroy 1"); n < 8 || n > 30 {
		t.Errorf("it was asked %d times", n)
	}
	w.wantState("while nothing happens", "1", providers.LeaseEnding)
	w.company.set(func() { w.company.deaf = false })
	w.pass(11 * time.Minute)
	if w.did("retire n-1") && w.lease("1").State != providers.LeaseEnded {
		t.Error("its node is given back before the machine is gone")
	}
	w.pass(11 * time.Minute)
	w.wantState("at last", "1", providers.LeaseEnded)
	if !w.did("retire n-1") {
		t.Errorf("its node is kept: %v", w.done)
	}
	if l := w.lease("1"); l.Why != "a person said so" {
		t.Errorf("it has ended because %q", l.Why)
	}
	if l := w.lease("1"); l.AskedAt == nil || l.AskedAt.After(start.Add(5*time.Minute)) {
		t.Errorf("the first time it was asked is %v", l.AskedAt)
	}
}

// TestListLags: a company that says that a machine is gone, and lists it, has not destroyed it yet.
func TestListLags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.company.set(func() { w.company.fail["get"] = &cloud.Error{Kind: cloud.NoSuch} })
	_, err := w.End(t.Context(), Ending{Account: "acme", Instance: "1", Hurry: true, Act: providers.ActDestroy})
	w.must(err)
	w.company.set(func() { w.company.deaf = true })
	w.pass(5 * time.Minute)
	w.wantState("while lists have it", "1", providers.LeaseEnding)
	w.company.set(func() { delete(w.company.machines, "1") })
	w.pass(11 * time.Minute)
	w.wantState("when no list has it", "1", providers.LeaseEnded)
}

// TestClockSteps: a clock that steps over an end ends nothing at once, and one that steps back in time ends nothing at all.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.put(providers.LeaseRequest{Provider: "acme", Instance: "1", TTLSeconds: 3600, Act: providers.ActDestroy})
	w.step(48 * time.Hour)
	w.look()
	w.look()
	w.pass(30 * time.Second)
	w.wantState("after the step", "1", providers.LeaseLive)
	w.step(-48 * time.Hour)
	w.pass(10 * time.Minute)
	w.wantState("after the step back", "1", providers.LeaseLive)
	w.step(48 * time.Hour)
	w.pass(90 * time.Second)
	w.wantState("if the clock stays so", "1", providers.LeaseDraining)
}

// TestGoneByItself: the lease of a machine that is gone ends, also where nobody asked for that. One that the company still has goes on.
func TestGoneByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.put(providers.LeaseRequest{Node: "node-1", TTLSeconds: 36000})
	w.pass(15 * time.Minute)
	w.company.set(func() { w.company.fail["list"] = &cloud.Error{Kind: cloud.Unclear}; delete(w.company.machines, "1") })
	w.pass(time.Hour)
	w.wantState("while no list comes", "1", providers.LeaseLive)
	w.company.set(func() { w.company.fail = map[string]error{"get": &cloud.Error{Kind: cloud.Unclear}} })
	w.pass(10 * time.Minute)
	w.wantState("while the company is not sure", "1", providers.LeaseLive)
	w.company.set(func() { w.company.fail = map[string]error{} })
	w.pass(10 * time.Minute)
	w.wantState("when it is gone", "1", providers.LeaseEnded)
	if w.did("retire n-1") || w.company.asked("destroy 1") != 0 {
		t.Error("the node of a machine that nobody ended was given back, or the company was asked")
	}
}

// TestIdle: a machine that is idle for long enough ends, and what is not known is not idle.
func TestIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.put(providers.LeaseRequest{Node: "node-1", TTLSeconds: 36000, IdleSeconds: new(1800)})
	w.pass(time.Hour)
	w.wantState("of which nobody knows whether it is idle", "1", providers.LeaseLive)
	idle := *w.nodes["n-1"]
	idle.IdleSince = at(-10 * time.Hour)
	w.nodes["n-1"] = &idle
	w.pass(25 * time.Minute)
	w.busy["n-1"] = []string{"allocation"}
	w.pass(time.Minute)
	delete(w.busy, "n-1")
	w.step(30 * time.Hour)
	w.step(-30 * time.Hour)
	w.pass(29 * time.Minute)
	w.wantState("that had work meanwhile", "1", providers.LeaseLive)
	w.pass(5 * time.Minute)
	w.wantState("that is idle", "1", providers.LeaseEnded)
	if l := w.lease("1"); !strings.Contains(l.Why, "idle for 30m") {
		t.Errorf("it ended because %q", l.Why)
	}
	w.put(providers.LeaseRequest{Node: "node-1", TTLSeconds: 36000, IdleSeconds: new(0)})
	if l := w.lease("1"); l.Idle != nil {
		t.Error("the rule stays")
	}
}

// TestTrouble: whatever the company says, the act is tried again, with the pause that it wants, and the lease says why.
func TestTrouble(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call string
		err  *cloud.Error
		most int // calls in half an hour
	}{
		{"destroy", &cloud.Error{Kind: cloud.KeyRefused, Status: 401, Text: "auth_error"}, 10},
		{"destroy", &cloud.Error{Kind: cloud.Refused, Status: 400, Text: "no"}, 10},
		{"destroy", &cloud.Error{Kind: cloud.Limited, Status: 429, Text: "slow down", Again: 10 * time.Minute}, 4},
		{"destroy", &cloud.Error{Kind: cloud.Unclear, Text: "EOF"}, 10},
		{"get", &cloud.Error{Kind: cloud.Unclear, Text: "EOF"}, 10},
	} {
		w := newWorld(t, cloud.Vast)
		w.add("1")
		w.company.set(func() { w.company.fail[c.call] = c.err })
		w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy, Hurry: true})))
		w.pass(30 * time.Minute)
		if n := w.company.asked("destroy 1"); n < 2 || n > c.most {
			t.Errorf("%s %s: asked %d times", c.call, c.err.Kind, n)
		}
		if l := w.lease("1"); c.call == "destroy" && l.Why != notYet+c.err.Error() || l.Tries < 2 {
			t.Errorf("%s: the lease says %q after %d tries", c.err.Kind, l.Why, l.Tries)
		}
		w.company.set(func() { w.company.fail = map[string]error{} })
		w.pass(25 * time.Minute)
		w.wantState("when the company works again", "1", providers.LeaseEnded)
	}
}

// TestNodesRefuse: what cannot be done with a node is tried again, and does not keep the machine.
func TestNodesRefuse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	for _, what := range []string{"drain", "resume", "retire"} {
		w.fail[what] = errors.New("not now")
	}
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy})))
	w.pass(5 * time.Minute)
	w.wantState("while its node takes work", "1", providers.LeaseDraining)
	w.pass(20 * time.Minute)
	w.wantState("while its node is not given back", "1", providers.LeaseEnding)
	w.fail = map[string]error{}
	w.pass(11 * time.Minute)
	w.wantState("at last", "1", providers.LeaseEnded)
	if n := w.company.asked("destroy 1"); n != 1 {
		t.Errorf("the company was asked %d times", n)
	}
}

// TestRestarts: a gateway that starts anew before each round ends a lease all the same.
func TestRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy})))
	for range 40 {
		w.restart()
		w.pass(30 * time.Second)
	}
	if n := w.company.asked("destroy 1"); n != 1 {
		t.Errorf("the company was asked %d times", n)
	}
	for range 4 { // what lists have left out this process counts by itself
		w.pass(30 * time.Second)
	}
	w.wantState("at last", "1", providers.LeaseEnded)
}

// TestNoKey: an account whose key cannot be read ends nothing, and says so.
func TestNoKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	works := w.Market
	var err error
	w.Market, err = market.Open(t.Context(), market.Config{Store: w.store, Records: w.Records, Now: w.clock,
		Dial: func(string, market.Dial) (market.Cloud, error) { return nil, errors.New("the key cannot be read") }})
	w.must(err)
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy, Hurry: true})))
	w.pass(5 * time.Minute)
	if l := w.lease("1"); l.State != providers.LeaseEnding || !strings.Contains(l.Why, "the key of the account acme cannot be used") {
		t.Errorf("the lease is %s: %s", l.State, l.Why)
	}
	w.Market = works
	w.pass(15 * time.Minute)
	w.wantState("when it can", "1", providers.LeaseEnded)
}

// TestRun: a service looks again and again whether all nodes are known, and ends with its context.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		asked := 0
		s := Open(Config{World: World{Ready: func() bool { asked++; return false }}})
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		<-time.After(4 * roundEvery)
		stop()
		if err := <-done; err != nil || asked < 3 {
			t.Errorf("got %v, and it looked %d times", err, asked)
		}
		if s.Away(start, start.Add(time.Hour)) != 0 || s.Elapsed() <= 0 || s.Now().IsZero() {
			t.Error("the clocks are not complete")
		}
	})
}

// TestForeign: no lease ends a machine that another gateway has rented, unless a person ends it by name.
func TestForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	lease := func(act string) error {
		return errOf(w.SetLease(t.Context(), "platform", providers.LeaseRequest{Provider: "acme", Instance: "1", TTLSeconds: 60, Act: act}, ada,
			maySpend))
	}
	w.must(lease(providers.ActDestroy)) // while it is a node here
	w.company.set(func() { w.company.machines["1"].Name = rentals.NamePrefix + "theirs" })
	w.must(w.act("retire", wire.StateRetired)(t.Context(), "n-1"))
	w.look()
	for _, act := range []string{"", providers.ActStop, providers.ActDestroy} {
		w.refused("a lease with "+act, wire.CodeIllegalMove, lease(act))
	}
	w.pass(30 * time.Minute)
	if l := w.lease("1"); l.State != providers.LeaseLive || l.Act != providers.ActKeep || l.Why != "another gateway has rented it" {
		t.Errorf("after its end the lease is %+v", l)
	}
	w.must(lease(providers.ActKeep))
	w.pass(30 * time.Minute)
	if w.company.asked("destroy 1")+w.company.asked("stop 1") != 0 {
		t.Errorf("the company was asked: %v", w.company.calls)
	}
	w.must(errOf(w.End(t.Context(), Ending{Account: "acme", Instance: "1", Act: providers.ActDestroy, By: ada})))
	w.pass(10 * time.Minute)
	w.wantState("that a person has ended", "1", providers.LeaseEnded)
}

// TestKept: a machine that is kept is never ended, whether its time is over, it is idle, or it was about to be ended.
func TestKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	w.add("1")
	w.add("2")
	w.nodes["n-1"].IdleSince = new(start)
	w.put(providers.LeaseRequest{Node: "node-1", TTLSeconds: 36000, Act: providers.ActKeep, IdleSeconds: new(600)})
	w.put(providers.LeaseRequest{Node: "node-2", TTLSeconds: 60})
	w.busy["n-2"] = []string{"task 7"}
	w.pass(5 * time.Minute)
	w.wantState("after its end", "2", providers.LeaseDraining)
	w.put(providers.LeaseRequest{Node: "node-2", Act: providers.ActKeep})
	w.pass(30 * time.Minute)
	if l := w.lease("1"); l.State != providers.LeaseLive || l.Why != "it was idle for 10m0s" || l.EndsAt.After(w.clock()) {
		t.Errorf("the lease of what is idle is %+v", l)
	}
	w.wantState("what was about to be ended", "2", providers.LeaseLive)
	if len(w.company.calls) == 0 || w.company.asked("destroy 1")+w.company.asked("stop 2")+w.company.asked("destroy 2") != 0 {
		t.Errorf("the company was asked: %v", w.company.calls)
	}
}
