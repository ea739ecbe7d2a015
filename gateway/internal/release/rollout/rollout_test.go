package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/store/releases"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// view is a running rollout of one wave, where a tenth may fail, with a node n that was let in half a minute ago.
func view(state string) View {
	waves, err := AllAtOnce().Read()
	if err != nil {
		panic(err)
	}
	row := releases.Node{Rollout: 1, NodeID: "n", State: state, AdmittedAt: now.Add(-30 * time.Second), ChangedAt: now.Add(-30 * time.Second)}
	return View{Now: now, Since: now.Add(-time.Hour), Waves: waves, Rollout: releases.Rollout{Number: 1, Digest: "d", State: releases.Running},
		Rows:  map[string]releases.Node{"n": row},
		Nodes: map[string]Standing{"n": {Name: "name", Interval: 30 * time.Second, Belongs: true, Takes: true, Online: true, Heard: true}}}
}

// TestJudged has what becomes of a node by itself, for each state and each thing that is known of it.
func TestJudged(t *testing.T) {
	know := func(change func(*Standing)) func(*View) {
		return func(v *View) {
			n := v.Nodes["n"]
			change(&n)
			v.Nodes["n"] = n
		}
	}
	since := func(d time.Duration) func(*View) {
		return func(v *View) {
			row := v.Rows["n"]
			row.AdmittedAt = now.Add(-d)
			row.ChangedAt = now.Add(-d)
			v.Rows["n"] = row
			v.Since = now.Add(-2 * d)
		}
	}
	gone := func(v *View) { delete(v.Nodes, "n") }
	left := know(func(n *Standing) { n.Belongs = false })
	away := know(func(n *Standing) { n.Online = false })
	runs := know(func(n *Standing) { n.Runs = true })
	tries := know(func(n *Standing) {
		n.Runs = true
		n.Trying = true
	})
	shut := know(func(n *Standing) { n.Shut = true })
	busy := know(func(n *Standing) { n.Busy = true })
	done := func(v *View) { v.Rollout.State = releases.Done }
	paused := func(v *View) { v.Rollout.State = releases.Paused }
	started := func(v *View) { v.Since = now }
	all := func(change ...func(*View)) []func(*View) { return change }
	for _, c := range []struct {
		name   string
		state  string
		change []func(*View)
		want   string
	}{
		{"nothing new", Admitted, nil, Admitted},
		{"retired", Begun, all(gone), Out},
		{"retired and through", Committed, all(gone), Committed},
		{"pinned", Late, all(left), Out},
		{"runs it", Admitted, all(runs), Committed},
		{"runs it at last", Late, all(runs), Committed},
		{"on trial", Begun, all(tries), Begun},
		{"back, on trial", Silent, all(tries), Begun},
		{"back", Silent, nil, Admitted},
		{"away", Begun, all(away), Silent},
		{"away while it soaks", Committed, all(away), Silent},
		{"away when all is done", Committed, all(away, done), Committed},
		{"away before it began, when all is done", Admitted, all(away, done), Silent},
		{"late and away", Late, all(away), Late},
		{"window closed", Admitted, all(shut), Out},
		{"window closed after it began", Begun, all(shut), Begun},
		{"window closed too late", Late, all(shut), Late},
		{"late", Admitted, all(since(9 * time.Minute)), Late},
		{"late when all is done", Admitted, all(since(9*time.Minute), done), Late},
		{"late while it is paused", Admitted, all(since(9*time.Minute), paused), Admitted},
		{"the gateway was away", Admitted, all(since(9*time.Minute), started), Admitted},
		{"busy", Admitted, all(since(time.Hour), busy), Admitted},
		{"busy too long", Admitted, all(since(7*time.Hour), busy), Late},
		{"at it", Begun, all(since(time.Hour)), Begun},
		{"at it too long", Begun, all(since(7 * time.Hour)), Late},
		{"went back", RolledBack, all(since(7 * time.Hour)), RolledBack},
	} {
		v := view(c.state)
		for _, change := range c.change {
			change(&v)
		}
		r := &round{View: v, o: v.Rollout, changed: map[string]releases.Node{}}
		r.judge()
		got := c.state
		if row, changed := r.changed["n"]; changed {
			got = row.State
			if !row.ChangedAt.Equal(now) || row.State == Admitted && !row.AdmittedAt.Equal(now) {
				t.Errorf("%s: the row has other times: %+v", c.name, row)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s becomes %s, want %s", c.name, c.state, got, c.want)
		}
	}
}

// TestStates: each state is open, through, or fallen, as the counts and the offers take it.
func TestStates(t *testing.T) {
	for state, want := range map[string]string{Admitted: "active open", Begun: "active open", Committed: "", RolledBack: "fallen",
		Failed: "fallen", Unwell: "fallen", Silent: "open fallen", Late: "open fallen", Out: ""} {
		var is []string
		for word, yes := range map[string]bool{"active": Active(state), "open": Open(state), "fallen": Fallen(state)} {
			if yes {
				is = append(is, word)
			}
		}
		if len(is) != len(strings.Fields(want)) {
			t.Errorf("%s is %v, want %s", state, is, want)
		}
		for _, word := range is {
			if !strings.Contains(want, word) {
				t.Errorf("%s is %s, want %s", state, word, want)
			}
		}
	}
}

// TestWhyNamesLate: the reason of a halt names nodes that say nothing themselves, a few of many.
func TestWhyNamesLate(t *testing.T) {
	v := view(Committed)
	for i := range 9 {
		id := fmt.Sprint("n", i)
		v.Rows[id] = releases.Node{Rollout: 1, NodeID: id, State: Late}
		v.Nodes[id] = Standing{Name: fmt.Sprint("node", i), Belongs: true, Online: true}
	}
	out := Look(v)
	if out.Rollout.State != releases.Halted || !strings.Contains(out.Rollout.Why, ": node0, node1, node2, node3, node4 and 4 more") {
		t.Errorf("%s: %s", out.Rollout.State, out.Rollout.Why)
	}
	if len(out.Told) != 1 || out.Told[0].Kind != ToldHalted || out.Told[0].Why != out.Rollout.Why {
		t.Errorf("told %+v", out.Told)
	}
	if strings.Contains(Look(view(Admitted)).Rollout.Why, "online") {
		t.Error("nobody is late, and is named")
	}
}

// TestForgivenOnce: who fell silent, was accepted and came back is not accepted when it fails after that.
func TestForgivenOnce(t *testing.T) {
	v := view(Silent)
	v.Rollout.Forgiven = 1
	v.Rollout = Look(v).Rollout
	row := v.Rows["n"]
	row.State = Failed
	v.Rows["n"] = row
	if out := Look(v); v.Rollout.State != releases.Running || out.Rollout.State != releases.Halted {
		t.Errorf("it came back: %+v; it failed: %+v", v.Rollout, out.Rollout)
	}
}

// TestStagger: many nodes spread, and not without bound.
func TestStagger(t *testing.T) {
	for nodes, want := range map[int]time.Duration{0: 0, 4: 0, 100: 20 * time.Second, 1 << 20: 10 * time.Minute} {
		if got := Stagger(nodes); got != want {
			t.Errorf("%d nodes spread over %s, want %s", nodes, got, want)
		}
	}
}

// TestLastShare: a node whose share of the stagger comes last is not late when nearly all others are through.
func TestLastShare(t *testing.T) {
	const nodes = 2500
	for waited, want := range map[time.Duration]string{499 * time.Second: Admitted, 20 * time.Minute: Late} {
		v := view(Admitted)
		row := v.Rows["n"]
		row.AdmittedAt = now.Add(-waited)
		v.Rows["n"] = row
		for i := range nodes {
			id := fmt.Sprint("through-", i)
			v.Rows[id] = releases.Node{Rollout: 1, NodeID: id, State: Committed, AdmittedAt: row.AdmittedAt, ChangedAt: now}
			v.Nodes[id] = Standing{Name: id, Interval: 30 * time.Second, Belongs: true, Takes: true, Online: true, Heard: true, Runs: true}
		}
		got := Admitted
		for _, changed := range Look(v).Rows {
			if changed.NodeID == "n" {
				got = changed.State
			}
		}
		if got != want {
			t.Errorf("after %s: %s, want %s", waited, got, want)
		}
	}
}

// TestBusyChannel: on a channel that gets another node every minute, a wave of so many percent ends all the same, and so does the last one.
func TestBusyChannel(t *testing.T) {
	waves, err := Plan{Steps: []string{"50%", "100%"}, SoakSeconds: 600, MaxFailed: "10%"}.Read()
	if err != nil {
		t.Fatal(err)
	}
	v := view(Committed)
	v.Waves = waves
	v.Rows = map[string]releases.Node{}
	v.Nodes = map[string]Standing{}
	v.Rollout.WaveAt = now
	var ended time.Duration
	second := now
	for minute := range 120 {
		v.Nodes[fmt.Sprint("n", minute)] = Standing{Interval: 30 * time.Second, Belongs: true, Takes: true, Online: true, Heard: true}
		out := Look(v)
		v.Rollout = out.Rollout
		if out.Rollout.Wave == 1 && second.Equal(now) {
			second = v.Now
		}
		if out.Rollout.State == releases.Done {
			ended = v.Now.Sub(second)
			break
		}
		for id, row := range v.Rows { // who was let in a minute ago is through now
			if n := v.Nodes[id]; row.State == Admitted && !n.Runs {
				n.Runs = true
				v.Nodes[id] = n
			}
		}
		for _, row := range out.Rows {
			v.Rows[row.NodeID] = row
		}
		v.Now = v.Now.Add(time.Minute)
	}
	if first := second.Sub(now); first < 10*time.Minute || first > joinTime+15*time.Minute || ended == 0 || ended > joinTime+5*time.Minute {
		t.Errorf("the first wave took %s, the last one %s, and it is %s", first, ended, v.Rollout.State)
	}
}

// TestWaveBegins: the soak time begins when all of a wave are through, however long that took. What was accepted in a wave is not accepted
// in the next one.
func TestWaveBegins(t *testing.T) {
	waves, err := Plan{Canary: "1", SoakSeconds: 600, MaxFailed: "1"}.Read()
	if err != nil {
		t.Fatal(err)
	}
	v := view(RolledBack)
	v.Waves = waves
	v.Rollout.WaveAt = now.Add(-time.Hour)
	v.Rollout.Forgiven = 1
	v.Nodes["next"] = Standing{Interval: 30 * time.Second, Belongs: true, Takes: true, Online: true, Heard: true}
	for _, c := range []struct {
		after          time.Duration
		wave, forgiven int
	}{{0, 0, 1}, {599 * time.Second, 0, 1}, {600 * time.Second, 1, 0}} {
		v.Now = now.Add(c.after)
		out := Look(v)
		v.Rollout = out.Rollout
		if out.Rollout.Wave != c.wave || out.Rollout.Forgiven != c.forgiven || len(out.Rows) != c.wave {
			t.Errorf("after %s: wave %d, %d forgiven, %d rows", c.after, out.Rollout.Wave, out.Rollout.Forgiven, len(out.Rows))
		}
	}
}

// TestNext: the beginning of the next wave is known while this one is watched, and else not.
func TestNext(t *testing.T) {
	waves, err := DefaultPlan().Read()
	if err != nil {
		t.Fatal(err)
	}
	still := time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		o    releases.Rollout
		want time.Time
	}{
		"watched":    {releases.Rollout{State: releases.Running, StillAt: &still}, still.Add(10 * time.Minute)},
		"on its way": {releases.Rollout{State: releases.Running}, time.Time{}},
		"the last":   {releases.Rollout{State: releases.Running, StillAt: &still, Wave: 1}, time.Time{}},
		"halted":     {releases.Rollout{State: releases.Halted, StillAt: &still}, time.Time{}},
	} {
		next := waves.Next(c.o)
		if (next == nil) != c.want.IsZero() || next != nil && !next.Equal(c.want) {
			t.Errorf("%s: %v", name, next)
		}
	}
}
