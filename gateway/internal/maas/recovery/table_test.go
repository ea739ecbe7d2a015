package recovery_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/maas/recovery"
	records "muster/store/maas"
)

// TestTable provokes every row, and has a case for each beside which the row is not true.
func TestTable(t *testing.T) {
	t.Parallel()
	node := func(state string) *records.Node {
		return &records.Node{Name: "box", State: state, Profile: "p", EnrolledAt: at(-time.Hour), LastSeen: at(-time.Second)}
	}
	silent := node(wire.StateActive)
	silent.LastSeen = at(-5 * minute)
	ours := recovery.Machine{Owner: "muster", Ours: true, Acquired: true, Since: start.Add(-48 * time.Hour), Tags: []string{"p"}}
	deployed := ours
	deployed.Status = 6
	with := func(change func(*recovery.Facts)) recovery.Facts {
		f := recovery.Facts{Machine: deployed, Node: node(wire.StateActive), Now: start, Profiles: []string{"p", "q"}}
		change(&f)
		return f
	}
	status := func(s int) func(*recovery.Facts) {
		return func(f *recovery.Facts) { f.Status, f.Node = s, node(wire.StateCommissioned) }
	}
	deploy := records.Work{Act: machines.ActDeploy, Step: recovery.Installs, Begun: start.Add(-46 * minute), Deadline: start.Add(-minute)}
	free := func(state string) func(*recovery.Facts) {
		return func(f *recovery.Facts) { f.Status, f.Owner, f.Ours, f.Node = 4, "", false, node(state) }
	}
	if found := recovery.Find(recovery.Table(), with(func(*recovery.Facts) {})); len(found) != 0 {
		t.Errorf("of a machine that works: %v", found)
	}
	cases := map[string]recovery.Facts{
		"reports_but_ready":  with(func(f *recovery.Facts) { f.Status = 4 }),
		"installed_no_more":  with(func(f *recovery.Facts) { f.Status, f.Node = 4, silent }),
		"system_id_changed":  with(func(f *recovery.Facts) { f.Gone, f.Twin = true, "b" }),
		"gone":               with(func(f *recovery.Facts) { f.Gone = true }),
		"never_reports":      with(func(f *recovery.Facts) { f.Node = node(wire.StateDeploying) }),
		"acquired_elsewhere": with(func(f *recovery.Facts) { f.Acquired = false }),
		"node_silent":        with(func(f *recovery.Facts) { f.Node = silent }),
		"deploy_hangs":       with(func(f *recovery.Facts) { f.Work, f.Mine, f.Node = &deploy, true, node(wire.StateDeploying) }),
		"deploy_failed": with(func(f *recovery.Facts) {
			f.Work, f.Mine, f.Status, f.Node = &deploy, true, 11, node(wire.StateDeploying)
		}),
		"deploy_failed_elsewhere": with(status(11)),
		"release_failed":          with(status(15)),
		"release_hangs":           with(status(12)),
		"erase_hangs":             with(status(14)),
		"commissioning_failed":    with(status(2)),
		"rescue_failed":           with(status(18)),
		"last_work_failed":        with(func(f *recovery.Facts) { free(wire.StateReady)(f); f.Ended = "it hangs" }),
		"foreign_owner":           with(func(f *recovery.Facts) { f.Owner, f.Ours = "ann", false }),
		"locked":                  with(func(f *recovery.Facts) { f.Locked, f.Work = true, &deploy }),
		"left_installed":          with(func(f *recovery.Facts) { f.Node, f.KeptOut = nil, true }),
		"tests_failed":            with(status(22)),
		"broken":                  with(status(8)),
		"out_of_use":              with(status(3)),
		"power_error":             with(func(f *recovery.Facts) { f.Power = "error" }),
		"tag_conflict":            with(func(f *recovery.Facts) { f.Tags = []string{"q"} }),
		"tag_defined":             with(func(f *recovery.Facts) { f.Defined = true }),
		"unknown_state":           with(status(99)),
		"in_work":                 with(func(f *recovery.Facts) { f.Work = &deploy }),
		"no_node":                 with(func(f *recovery.Facts) { f.Node = nil }),
		"not_commissioned":        with(func(f *recovery.Facts) { free(wire.StateCommissioned)(f); f.Status = 0 }),
		"not_ready":               with(func(f *recovery.Facts) { f.Status, f.Node = 8, node(wire.StateReady) }),
		"node_retired":            with(func(f *recovery.Facts) { f.Node = node(wire.StateRetired) }),
		"deploying_alone":         with(free(wire.StateDeploying)),
		"no_profile":              with(func(f *recovery.Facts) { free(wire.StateCommissioned)(f); f.Node.Profile = "" }),
		"no_tag":                  with(func(f *recovery.Facts) { f.Tags = nil }),
		"old_tag":                 with(func(f *recovery.Facts) { f.Tags, f.Wrote = []string{"p", "q"}, "q" }),
		"tagged":                  with(free(wire.StateCommissioned)),
	}
	names := map[string]bool{}
	for _, row := range recovery.Table() {
		if f, ok := cases[row.Name]; !ok || !row.When(f) || names[row.Name] {
			t.Errorf("%s: no case provokes it, or there are two", row.Name)
		}
		names[row.Name] = true
		if row.When(with(func(*recovery.Facts) {})) {
			t.Errorf("%s: true of a machine that works", row.Name)
		}
		if row.Text == "" || row.Severity != "" && row.Severity != wire.SeverityWarn && row.Severity != wire.SeveritySevere ||
			row.Severity != "" && row.Does == "" && row.Next == "" && row.Acts == nil {
			t.Errorf("%s does not say what comes next: %+v", row.Name, row)
		}
	}
	if len(names) != len(cases) {
		t.Errorf("%d rows, %d cases", len(names), len(cases))
	}
}

// TestNext: what a person does names the profile that is meant, gives no command that only shows, and says the gravest only once.
func TestNext(t *testing.T) {
	t.Parallel()
	failed := "it is broken in MAAS, while it is installed"
	for name, c := range map[string]struct {
		facts recovery.Facts
		row   recovery.Row // the first one: its name, and what its text and its next end with
	}{
		"another tag": {recovery.Facts{Machine: recovery.Machine{Status: 4, Tags: []string{"q"}}, Profiles: []string{"p", "q"},
			Node: &records.Node{State: wire.StateCommissioned, Profile: "p"}}, recovery.Row{Name: "tag_conflict",
			Text: "q, which muster did not set", Next: "or give its node that profile: muster profile assign q NODE"}},
		"elsewhere": {recovery.Facts{Machine: recovery.Machine{Status: 6, Owner: "muster", Ours: true}}, recovery.Row{Name: "acquired_elsewhere",
			Next: "give it back only where nobody does: muster maas release SYSTEM --force"}},
		"failed": {recovery.Facts{Machine: recovery.Machine{Status: 4}, Ended: "it hangs",
			Node: &records.Node{State: wire.StateCommissioned, Profile: "p"}}, recovery.Row{Name: "last_work_failed",
			Text: "failed: it hangs", Next: "muster maas reset SYSTEM"}},
		"failed and broken": {recovery.Facts{Machine: recovery.Machine{Status: 8}, Ended: failed,
			Node: &records.Node{State: wire.StateCommissioned, Profile: "p"}}, recovery.Row{Name: "broken",
			Next: "mend it; then muster maas reset SYSTEM"}},
		"new": {recovery.Facts{}, recovery.Row{Name: "not_commissioned", Next: "muster maas commission SYSTEM"}},
	} {
		got := recovery.Find(recovery.Table(), c.facts)
		if len(got) == 0 || got[0].Name != c.row.Name || !strings.HasSuffix(got[0].Text, c.row.Text) ||
			!strings.HasSuffix(got[0].Next, c.row.Next) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	f := recovery.Facts{Machine: recovery.Machine{Status: 8, Owner: "muster", Ours: true, Mine: true},
		Node: &records.Node{State: wire.StateCommissioned}, Work: &records.Work{Act: machines.ActDeploy, Step: recovery.Installs,
			Failed: failed}}
	if o := f.Step(); o.Why != failed {
		t.Errorf("a deployment that broke: %+v", o)
	}
}

// TestTableHarmless goes through all combinations: what is done by itself is done to nothing that works, that is held, or that others have.
func TestTableHarmless(t *testing.T) {
	t.Parallel()
	broken, table := 0, recovery.Table()
	each(t, begun(), func(f recovery.Facts) {
		if f.Work.Act == machines.ActDeploy {
			f.Work = nil
		}
		for _, row := range recovery.Find(table, f) {
			bad := false
			switch row.Does {
			case recovery.Accepts:
				bad = f.Status != 4 || f.Node.State != wire.StateCommissioned || f.Owner != "" || f.Work != nil || !slices.Contains(f.Tags, "p")
			case recovery.Withdraws:
				bad = f.Node.State != wire.StateReady && f.Node.State != wire.StateDeploying || f.Work != nil
			case recovery.Adds:
				bad = f.Node != nil || f.Owner == "ann" || f.Gone || theirs(f)
			case recovery.Tags:
				bad = f.Owner == "ann" || f.Gone || f.Locked || theirs(f)
			case recovery.Undoes, recovery.Continues:
				bad = f.Work == nil
			}
			if bad {
				if broken++; broken < 6 {
					t.Errorf("%s: %s", row.Name, describe(f, recovery.Order{}))
				}
			}
		}
		if f.Work == nil && f.State() == "" {
			t.Fatal("no state")
		}
	})
}

// theirs is true for a machine that something else has acquired with our key.
func theirs(f recovery.Facts) bool {
	return f.Ours && !f.Mine && !f.Acquired && slices.Contains([]int{5, 6, 8, 9, 10, 11, 12, 13, 14, 15}, f.Status)
}

// TestUnsure: while the user of our key is not known, nobody is said to be another owner.
func TestUnsure(t *testing.T) {
	t.Parallel()
	table := recovery.Table()
	for status := -1; status <= 23; status++ {
		f := recovery.Facts{Machine: recovery.Machine{Status: status, Owner: "muster", Unsure: true}, Now: start}
		for _, f.Node = range nodes() {
			for _, row := range recovery.Find(table, f) {
				if row.Name == "foreign_owner" || row.Name == "acquired_elsewhere" {
					t.Errorf("%s: %s", row.Name, describe(f, recovery.Order{}))
				}
			}
		}
	}
}

// TestStates is the mapping of states.
func TestStates(t *testing.T) {
	t.Parallel()
	want := strings.Fields(`unknown new commissioning failed broken ready allocated installed broken broken deploying allocated failed
		releasing
		failed releasing failed rescue rescue failed rescue failed testing failed unknown`)
	for i, state := range want {
		f := recovery.Facts{Machine: recovery.Machine{Status: i - 1}}
		if got := f.State(); got != state {
			t.Errorf("%d: %s, want %s", i-1, got, state)
		}
	}
	f := recovery.Facts{Machine: recovery.Machine{Status: 6}, Node: &records.Node{State: wire.StateActive, EnrolledAt: at(0), LastSeen: at(1)}}
	if f.State() != machines.StateDeployed {
		t.Error(f.State())
	}
	f.Gone = true
	if f.State() != machines.StateGone {
		t.Error(f.State())
	}
}
