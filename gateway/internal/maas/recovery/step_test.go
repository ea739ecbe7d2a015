package recovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/recovery"
	"muster/gateway/internal/maas/region"
	records "muster/store/maas"
)

var start = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *time.Time {
	t := start.Add(d)
	return &t
}

const minute = time.Minute

// nodes are nodes in all states, never heard, heard before the work began, and heard since; and none.
func nodes() []*records.Node {
	all := []*records.Node{nil}
	for _, state := range []string{wire.StateCommissioned, wire.StateReady, wire.StateDeploying, wire.StateEnrolled, wire.StateActive,
		wire.StateDrained, wire.StateUnavailable, wire.StateRetired} {
		for _, heard := range [][2]*time.Time{{nil, nil}, {at(-9 * minute), at(-5 * minute)}, {at(2 * minute), at(10 * minute)}} {
			for _, held := range []bool{false, true} {
				if held && heard[0] == nil {
					continue
				}
				all = append(all, &records.Node{ID: "n-1", Name: "box", State: state, EnrolledAt: heard[0], LastSeen: heard[1],
					Interval: 30 * time.Second, Held: held, Profile: "p"})
			}
		}
	}
	return all
}

// hosts are machines in all statuses and hands.
func hosts() []recovery.Machine {
	var all []recovery.Machine
	for status := -1; status <= 23; status++ {
		for _, m := range []recovery.Machine{{}, {Owner: "muster", Ours: true}, {Owner: "muster", Ours: true, Acquired: true},
			{Owner: "muster", Ours: true, Mine: true, Acquired: true}, {Owner: "ann"},
			{Owner: "muster", Ours: true, Mine: true, Locked: true}, {Gone: true}} {
			m.Status, m.Tags = status, []string{"p"}
			all = append(all, m)
		}
	}
	return all
}

func works() []*records.Work {
	var all []*records.Work
	all = append(all, &records.Work{Act: machines.ActDeploy, Begun: start, Deadline: start.Add(45 * minute), Profile: "q"},
		&records.Work{Act: machines.ActDeploy, Begun: start, Deadline: start.Add(45 * minute), Profile: "q", Reimage: true})
	for _, act := range []string{machines.ActDeploy, machines.ActRelease, machines.ActReset, machines.ActDecommission,
		machines.ActCommission} {
		for _, step := range []string{"", recovery.AskTag, recovery.AskAcquire, recovery.AskDeploy, recovery.AskRelease, recovery.AskCommission,
			recovery.Installs, recovery.Commissions} {
			for _, failed := range []string{"", "it hangs"} {
				for _, more := range []bool{false, true} {
					all = append(all, &records.Work{Act: act, Step: step, Failed: failed, Begun: start, Deadline: start.Add(45 * minute),
						Reimage: more && act == machines.ActDeploy, Force: more && act != machines.ActDeploy})
				}
			}
		}
	}
	return all
}

// begun are works that have done nothing.
func begun() []*records.Work {
	return slices.DeleteFunc(works(), func(w *records.Work) bool { return w.Step != "" || w.Failed != "" })
}

// each has look see all combinations.
func each(t *testing.T, works []*records.Work, look func(f recovery.Facts)) {
	t.Helper()
	for _, w := range works {
		for _, m := range hosts() {
			for _, n := range nodes() {
				for _, now := range []time.Duration{11 * minute, 46 * minute} {
					look(recovery.Facts{Machine: m, Node: n, Work: w, Now: start.Add(now), Profiles: []string{"p", "q"}, Wrote: "p"})
				}
			}
		}
	}
}

func describe(f recovery.Facts, o recovery.Order) string {
	return fmt.Sprintf("%+v\nof %+v\nnode %+v, work %+v at %s", o, f.Machine, f.Node, f.Work, f.Now.Sub(start))
}

// TestStuckTag: a tag that MAAS does not take away ends the work, and asks for nothing without end.
func TestStuckTag(t *testing.T) {
	t.Parallel()
	f := recovery.Facts{Machine: recovery.Machine{Status: 4, Tags: []string{"p"}}, Now: start, Profiles: []string{"p", "q"}, Wrote: "p",
		Node: &records.Node{ID: "n-1", Name: "box", State: wire.StateCommissioned, Profile: "p"},
		Work: &records.Work{Act: machines.ActDeploy, Begun: start, Deadline: start.Add(45 * minute), Profile: "q"}}
	for tries := range 4 {
		o := f.Step()
		if ends := tries == 3; o.End != ends || !ends && o.Ask != recovery.AskUntag || ends && !strings.Contains(o.Why, "the tag p") {
			t.Errorf("after %d tries: %+v", tries, o)
		}
		f.Work.Step, f.Work.Tries = recovery.AskUntag, tries+1
	}
	f.Work.Act = machines.ActDecommission
	if o := f.Step(); !o.End || !strings.Contains(o.Why, "the tag p") {
		t.Errorf("a decommission: %+v", o)
	}
	f.Wrote, f.Work.Act, f.Work.Step = "", machines.ActDeploy, ""
	if o := f.Step(); !o.End || !strings.Contains(o.Why, ": p, which muster did not set") {
		t.Errorf("a tag that muster did not write: %+v", o)
	}
}

// works tells whether an agent may be at work on the node.
func atWork(n *records.Node) bool {
	return n != nil && n.LastSeen != nil && slices.Contains([]string{wire.StateEnrolled, wire.StateActive, wire.StateDrained,
		wire.StateUnavailable}, n.State)
}

// TestStepHarmless goes through all combinations: nothing that works, is held, or is in other hands is touched, and nothing is done twice.
func TestStepHarmless(t *testing.T) {
	t.Parallel()
	broken := 0
	each(t, works(), func(f recovery.Facts) {
		o := f.Step()
		bad := ""
		set := 0
		for _, is := range []bool{o.Move != "", o.Ask != "", o.Note != "", o.Fail != "", o.End, o.Wait != ""} {
			if is {
				set++
			}
		}
		m, n, w := f.Machine, f.Node, f.Work
		acts := o.Ask != "" && o.Ask != recovery.AskUntag && o.Ask != recovery.AskTag && o.Ask != recovery.AskAssign
		switch {
		case set != 1:
			bad = "not one thing"
		case acts && (m.Gone || m.Locked || m.Owner == "ann"):
			bad = "it is not ours to touch"
		case (acts || o.Move != "" && w.Failed == "") && theirs(f) && !w.Force:
			bad = "another gateway has it"
		case o.Move != "" && w.Act != machines.ActDeploy && m.Locked && !m.Gone:
			bad = "its node is left, and MAAS refuses the rest"
		case o.Move != "" && w.Act != machines.ActDeploy && w.Act != machines.ActDecommission && (m.Owner == "ann" || m.Gone):
			bad = "its node is left, and somebody else has it"
		case o.Move != "" && w.Act == machines.ActCommission && !region.StatusOf(m.Status).Commissions:
			bad = "its node is left, and MAAS cannot commission it"
		case acts && atWork(n):
			bad = "its agent works"
		case acts && n != nil && n.Held && !w.Force && slices.Contains([]string{wire.StateReady, wire.StateEnrolled, wire.StateActive,
			wire.StateDrained, wire.StateUnavailable}, n.State):
			bad = "it is held"
		case o.Ask == recovery.AskDeploy && (m.Status != 10 || !m.Mine || w.Step == recovery.Installs || w.Failed != ""):
			bad = "it is not acquired, or was installed already"
		case o.Ask == recovery.AskAcquire && (m.Status != 4 || m.Owner == "muster" && m.Mine):
			bad = "it is not ready"
		case o.Ask == recovery.AskAcquire && (w.Step == recovery.AskDeploy || w.Step == recovery.Installs):
			bad = "it was acquired already"
		case o.Ask == recovery.AskCommission && (m.Status == 1 || w.Step == recovery.Commissions):
			bad = "it is, or was, commissioned"
		case (o.Ask == recovery.AskRelease || o.Ask == recovery.AskAbort) && !releasable(m.Status):
			bad = "MAAS refuses that"
		case o.Move != "" && n == nil:
			bad = "there is no node"
		case moves(o.Move) && n.Held && !w.Force && w.Failed == "":
			bad = "its node is held"
		case o.Move == recovery.MoveRedeploy && !w.Reimage:
			bad = "nobody asked for that"
		case (o.Move == recovery.MoveDrain || o.Move == recovery.MoveDecommission && n.State == wire.StateActive) && !w.Force && w.Failed == "":
			bad = "nobody forced it"
		case o.End && o.Why == "" && w.Act == machines.ActDeploy && (m.Status != 6 || !m.Mine || !atWork(n)):
			bad = "it is not deployed"
		case o.End && w.Act == machines.ActDeploy && n != nil && n.State == wire.StateDeploying:
			bad = "its node stays deploying for ever"
		}
		if bad != "" {
			if broken++; broken < 6 {
				t.Errorf("%s: %s", bad, describe(f, o))
			}
		}
	})
}

func moves(move string) bool {
	return move == recovery.MoveDeploy || move == recovery.MoveRedeploy || move == recovery.MoveDecommission
}

// releasable is true in the statuses in which MAAS takes a release or an abort.
func releasable(status int) bool {
	return slices.Contains([]int{1, 5, 6, 8, 9, 10, 11, 13, 14, 15, 21}, status)
}

// TestDeploy goes through the deployments that end well, and through those that do not.
func TestDeploy(t *testing.T) {
	t.Parallel()
	node := func(state string, heard ...*time.Time) *records.Node {
		n := &records.Node{Name: "box", State: state}
		if len(heard) > 0 {
			n.EnrolledAt, n.LastSeen = heard[0], heard[0]
		}
		return n
	}
	mine, before := recovery.Machine{Owner: "muster", Ours: true, Mine: true}, recovery.Machine{Owner: "muster", Ours: true, Acquired: true}
	is := func(m recovery.Machine, status int) recovery.Machine { m.Status = status; return m }
	with := func(state, profile string) *records.Node {
		return &records.Node{Name: "box", State: state, Profile: profile}
	}
	tagged := recovery.Machine{Status: 4, Tags: []string{"p"}}
	deploying, since := node(wire.StateDeploying), node(wire.StateActive, at(20*minute))
	for _, c := range []struct {
		m    recovery.Machine
		n    *records.Node
		w    records.Work
		now  time.Duration
		want string
	}{
		{is(recovery.Machine{}, 4), node(wire.StateReady), records.Work{}, 0, "move deploy"},
		{is(recovery.Machine{}, 4), node(wire.StateCommissioned), records.Work{}, 0, "end its node has no firmware profile"},
		{is(recovery.Machine{}, 4), node(wire.StateCommissioned), records.Work{Profile: "p"}, 0, "ask assign"},
		{is(recovery.Machine{}, 4), node(wire.StateReady), records.Work{Profile: "p"}, 0, "move decommission"},
		{is(recovery.Machine{}, 4), with(wire.StateCommissioned, "p"), records.Work{Step: "assign"}, 0, "ask tag"},
		{is(recovery.Machine{}, 4), with(wire.StateCommissioned, "p"), records.Work{Step: "tag", Tries: 3}, 0,
			"end MAAS does not keep the tag p"},
		{tagged, with(wire.StateCommissioned, "p"), records.Work{Step: "tag"}, 0, "move accept"},
		{tagged, with(wire.StateCommissioned, "p"), records.Work{Profile: "q"}, 0, "ask untag"},
		{tagged, with(wire.StateReady, "p"), records.Work{Step: "tag"}, 0, "move deploy"},
		{recovery.Machine{Status: 4, Locked: true}, with(wire.StateReady, "p"), records.Work{}, 0, "wait somebody locked the machine in MAAS"},
		{recovery.Machine{Status: 4, Locked: true}, with(wire.StateReady, "p"), records.Work{}, 46 * minute,
			"end somebody locked the machine in MAAS"},
		{is(recovery.Machine{}, 4), deploying, records.Work{}, 0, "ask acquire"},
		{is(mine, 10), deploying, records.Work{Step: "acquire"}, 0, "ask deploy"},
		{is(mine, 10), deploying, records.Work{Step: "deploy"}, 0, "ask deploy"},
		{is(mine, 9), deploying, records.Work{Step: "deploy"}, 0, "note install"},
		{is(mine, 9), deploying, records.Work{Step: "install"}, 0, "wait its agent"},
		{is(mine, 6), deploying, records.Work{Step: "install"}, 30 * minute, "wait its agent"},
		{is(mine, 6), since, records.Work{Step: "install"}, 30 * minute, "end "},
		{is(mine, 6), since, records.Work{Step: "deploy"}, 46 * minute, "end "},
		{is(mine, 6), deploying, records.Work{Step: "install"}, 45 * minute, "fail its agent was not heard by 2026-11-28T12:45:00Z"},
		{is(mine, 6), deploying, records.Work{Step: "install", Failed: "x"}, 46 * minute, "move decommission"},
		{is(mine, 6), node(wire.StateCommissioned), records.Work{Step: "install", Failed: "x"}, 46 * minute, "ask release"},
		{is(mine, 9), node(wire.StateCommissioned), records.Work{Step: "install", Failed: "x"}, 46 * minute, "ask abort"},
		{is(mine, 10), node(wire.StateCommissioned), records.Work{Step: "abort", Failed: "x"}, 46 * minute, "ask release"},
		{is(mine, 12), node(wire.StateCommissioned), records.Work{Step: "release", Failed: "x"}, 46 * minute, "wait MAAS releases it"},
		{is(recovery.Machine{}, 4), node(wire.StateCommissioned), records.Work{Step: "release", Failed: "x"}, 46 * minute, "end x"},
		{is(recovery.Machine{}, 0), node(wire.StateCommissioned), records.Work{Step: "release", Failed: "x"}, 46 * minute, "ask commission"},
		{is(mine, 6), since, records.Work{Step: "install", Failed: "x"}, 46 * minute, "end "},
		{is(mine, 11), since, records.Work{Step: "install", Failed: "x"}, 46 * minute, "end x; and its agent reports: it stays as it is"},
		{is(mine, 11), deploying, records.Work{Step: "install"}, 9 * minute, "fail MAAS could not install it"},
		{is(mine, 10), deploying, records.Work{Step: "install"}, 9 * minute, "fail somebody aborted it in MAAS"},
		{is(recovery.Machine{}, 4), deploying, records.Work{Step: "install"}, 9 * minute, "fail somebody took it away in MAAS: it is ready"},
		{is(recovery.Machine{Owner: "ann"}, 10), deploying, records.Work{Step: "acquire"}, 0, "fail ann has the machine in MAAS"},
		{is(recovery.Machine{Owner: "ann"}, 10), node(wire.StateCommissioned), records.Work{Failed: "x"}, 0, "end x"},
		{is(recovery.Machine{Owner: "muster", Ours: true}, 10), deploying, records.Work{Step: "acquire"}, 0,
			"fail it was acquired with muster's key, and not by this gateway"},
		{is(before, 10), deploying, records.Work{Step: "acquire"}, 0, "fail it is allocated in MAAS, and not ready"},
		{is(mine, 6), node(wire.StateDrained, at(-minute)), records.Work{}, 0, "end node box is drained now"},
		{is(mine, 6), node(wire.StateActive, at(-minute)), records.Work{Reimage: true}, 0, "end node box is active now"},
		{is(mine, 6), node(wire.StateDrained, at(-minute)), records.Work{Reimage: true}, 0, "move redeploy"},
		{is(recovery.Machine{Owner: "muster", Ours: true}, 6), node(wire.StateDrained, at(-minute)), records.Work{Reimage: true}, 0,
			"end it was acquired with muster's key, and not by this gateway"},
		{is(before, 6), deploying, records.Work{Reimage: true}, 0, "ask release"},
		{is(before, 14), deploying, records.Work{Reimage: true, Step: "release"}, 0,
			"wait MAAS releases it"},
		{is(recovery.Machine{}, 0), deploying, records.Work{Reimage: true, Step: "release"}, 0, "ask commission"},
		{is(recovery.Machine{Owner: "muster", Ours: true}, 1), deploying, records.Work{Reimage: true, Step: "commission"}, 0,
			"note commissioning"},
		{is(recovery.Machine{}, 4), deploying, records.Work{Reimage: true, Step: "commissioning"}, 0, "ask acquire"},
		{is(before, 15), deploying, records.Work{Reimage: true, Step: "release"}, 0,
			"fail MAAS could not release it"},
	} {
		c.w.Act, c.w.Begun, c.w.Deadline = machines.ActDeploy, start, start.Add(45*minute)
		f := recovery.Facts{Machine: c.m, Node: c.n, Work: &c.w, Now: start.Add(c.now), Wrote: "p"}
		if got := text(f.Step()); got != c.want {
			t.Errorf("got %q, want %q: %s", got, c.want, describe(f, f.Step()))
		}
	}
}

// text is an order in words.
func text(o recovery.Order) string {
	for word, what := range map[string]string{"move": o.Move, "ask": o.Ask, "note": o.Note, "fail": o.Fail, "wait": o.Wait} {
		if what != "" {
			return word + " " + what
		}
	}
	return "end " + o.Why
}

// TestGiveBack is the way of the other acts.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	node := func(state string) *records.Node { return &records.Node{Name: "box", State: state, Profile: "p"} }
	ours, theirs := recovery.Machine{Owner: "muster", Ours: true, Acquired: true}, recovery.Machine{Owner: "muster", Ours: true}
	is := func(m recovery.Machine, status int) recovery.Machine { m.Status = status; return m }
	free, gone := node(wire.StateCommissioned), recovery.Machine{Gone: true}
	tagged := recovery.Machine{Status: 4, Tags: []string{"p"}}
	for _, c := range []struct {
		m    recovery.Machine
		n    *records.Node
		w    records.Work
		want string
	}{
		{is(ours, 6), node(wire.StateDrained), records.Work{Act: machines.ActRelease}, "move decommission"},
		{is(ours, 6), node(wire.StateActive), records.Work{Act: machines.ActRelease}, "end node box works: drain it first"},
		{is(ours, 6), node(wire.StateActive), records.Work{Act: machines.ActRelease, Force: true}, "move drain"},
		{is(ours, 6), free, records.Work{Act: machines.ActRelease}, "ask release"},
		{is(ours, 6), nil, records.Work{Act: machines.ActRelease}, "ask release"},
		{is(ours, 13), free, records.Work{Act: machines.ActRelease, Step: "release"}, "end MAAS could not release it"},
		{is(recovery.Machine{}, 4), free, records.Work{Act: machines.ActRelease, Step: "release"}, "end "},
		{is(recovery.Machine{}, 0), free, records.Work{Act: machines.ActRelease, Step: "release"}, "ask commission"},
		{is(recovery.Machine{}, 0), free, records.Work{Act: machines.ActRelease, Step: "commissioning"},
			"end somebody aborted its commissioning in MAAS"},
		{is(recovery.Machine{Owner: "ann"}, 6), free, records.Work{Act: machines.ActRelease}, "end ann has the machine in MAAS"},
		{is(theirs, 6), free, records.Work{Act: machines.ActRelease}, "end it was acquired with muster's key, and not by this gateway"},
		{is(theirs, 6), free, records.Work{Act: machines.ActDecommission}, "end it was acquired with muster's key, and not by this gateway"},
		{is(theirs, 6), free, records.Work{Act: machines.ActRelease, Force: true}, "ask release"},
		{is(recovery.Machine{Owner: "ann"}, 6), node(wire.StateDrained), records.Work{Act: machines.ActRelease},
			"end ann has the machine in MAAS"},
		{is(recovery.Machine{Owner: "ann"}, 6), node(wire.StateDrained), records.Work{Act: machines.ActDecommission}, "move decommission"},
		{is(ours, 6), node(wire.StateDrained), records.Work{Act: machines.ActCommission},
			"end it is installed in MAAS, which cannot be commissioned"},
		{is(ours, 8), free, records.Work{Act: machines.ActRelease}, "end it is broken in MAAS"},
		{is(ours, 8), free, records.Work{Act: machines.ActReset}, "ask release"},
		{is(recovery.Machine{}, 8), free, records.Work{Act: machines.ActReset}, "ask fix"},
		{is(recovery.Machine{}, 2), free, records.Work{Act: machines.ActReset}, "ask commission"},
		{is(recovery.Machine{}, 2), free, records.Work{Act: machines.ActReset, Step: "commissioning"}, "end its commissioning failed"},
		{is(recovery.Machine{}, 22), free, records.Work{Act: machines.ActReset}, "end it is failed in MAAS"},
		{is(recovery.Machine{}, 4), node(wire.StateReady), records.Work{Act: machines.ActReset}, "end "},
		{is(recovery.Machine{}, 21), free, records.Work{Act: machines.ActReset}, "wait MAAS tests it"},
		{is(ours, 7), free, records.Work{Act: machines.ActDecommission}, "move retire"},
		{is(recovery.Machine{}, 3), node(wire.StateDrained), records.Work{Act: machines.ActDecommission}, "move decommission"},
		{is(recovery.Machine{}, 22), free, records.Work{Act: machines.ActDecommission}, "move retire"},
		{is(ours, 13), free, records.Work{Act: machines.ActDecommission, Step: "release"}, "end MAAS could not release it"},
		{tagged, free, records.Work{Act: machines.ActRelease, Step: "release"}, "move accept"},
		{tagged, node(wire.StateReady), records.Work{Act: machines.ActRelease, Step: "release"}, "end "},
		{tagged, free, records.Work{Act: machines.ActDecommission}, "ask untag"},
		{is(recovery.Machine{}, 4), free, records.Work{Act: machines.ActDecommission}, "move retire"},
		{is(recovery.Machine{}, 4), node(wire.StateRetired), records.Work{Act: machines.ActDecommission}, "end "},
		{gone, free, records.Work{Act: machines.ActDecommission}, "move retire"},
		{gone, free, records.Work{Act: machines.ActRelease}, "end MAAS has the machine no more"},
		{is(recovery.Machine{}, 4), node(wire.StateReady), records.Work{Act: machines.ActCommission}, "move decommission"},
		{is(recovery.Machine{}, 4), free, records.Work{Act: machines.ActCommission}, "ask commission"},
		{is(ours, 1), free, records.Work{Act: machines.ActCommission, Step: "commission"}, "note commissioning"},
		{is(ours, 1), free, records.Work{Act: machines.ActCommission, Step: "commissioning"}, "wait MAAS commissions it"},
		{is(recovery.Machine{}, 4), free, records.Work{Act: machines.ActCommission, Step: "commissioning"}, "end "},
		{is(recovery.Machine{}, 2), free, records.Work{Act: machines.ActCommission, Step: "commissioning"},
			"end its commissioning failed: it is failed in MAAS"},
		{is(ours, 6), free, records.Work{Act: machines.ActCommission}, "end it is installed in MAAS, which cannot be commissioned"},
		{is(ours, 6), free, records.Work{Act: "explode"}, "end there is no act explode"},
	} {
		c.w.Begun, c.w.Deadline = start, start.Add(time.Hour)
		f := recovery.Facts{Machine: c.m, Node: c.n, Work: &c.w, Now: start, Wrote: "p"}
		if got := text(f.Step()); got != c.want {
			t.Errorf("got %q, want %q: %s", got, c.want, describe(f, f.Step()))
		}
	}
}

// TestEnds follows every combination as if MAAS refused nothing and took its time: no work goes round for ever.
func TestEnds(t *testing.T) {
	t.Parallel()
	each(t, begun(), func(f recovery.Facts) {
		w := *f.Work
		f.Work = &w
		if f.Node != nil {
			n := *f.Node
			f.Node = &n
		}
		trail := ""
		for range 30 {
			o := f.Step()
			trail += text(o) + "; "
			if o.End || o.Wait != "" && strings.Contains(o.Wait, "locked") {
				return
			}
			carryOut(&f, o)
		}
		t.Fatalf("it goes round: %s\n%s", trail, describe(f, f.Step()))
	})
}

// carryOut does what an order says.
func carryOut(f *recovery.Facts, o recovery.Order) {
	switch {
	case o.Move != "":
		f.Node.State = map[string]string{recovery.MoveDeploy: wire.StateDeploying, recovery.MoveRedeploy: wire.StateDeploying,
			recovery.MoveDrain: wire.StateDrained, recovery.MoveDecommission: wire.StateCommissioned,
			recovery.MoveRetire: wire.StateRetired, recovery.MoveAccept: wire.StateReady}[o.Move]
	case o.Note != "":
		f.Work.Step = o.Note
	case o.Fail != "":
		f.Work.Failed = o.Fail
	case o.Wait != "":
		f.Now = f.Now.Add(10 * minute)
		next := map[int]int{1: 4, 9: 6, 12: 4, 14: 12, 21: 4}
		if to, moves := next[f.Status]; moves {
			f.Status = to
			if to == 4 {
				f.Owner, f.Ours, f.Mine = "", false, false
			}
		}
	default:
		f.Work.Step = o.Ask
		f.Status = map[string]int{recovery.AskAcquire: 10, recovery.AskDeploy: 9, recovery.AskAbort: 10, recovery.AskRelease: 12,
			recovery.AskCommission: 1, recovery.AskFix: 4, recovery.AskUntag: f.Status, recovery.AskTag: f.Status,
			recovery.AskAssign: f.Status}[o.Ask]
		switch o.Ask {
		case recovery.AskAcquire:
			f.Owner, f.Ours, f.Mine = "muster", true, true
		case recovery.AskUntag:
			f.Tags = nil
		case recovery.AskTag:
			f.Tags = []string{f.Node.Profile}
		case recovery.AskAssign:
			f.Node.Profile = f.Work.Profile
		}
	}
}
