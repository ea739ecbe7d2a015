package rollout

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/store/releases"
)

// changes are what is different from a node that is well.
type changes []func(*View, *releases.Node, *Standing)

// TestUnwell has what speaks against a release on a node that has taken it, and for how long.
func TestUnwell(t *testing.T) {
	commit := now.Add(-30 * time.Second) // as view has it
	ended := func(ago time.Duration) func(*View, *releases.Node, *Standing) {
		return func(v *View, _ *releases.Node, _ *Standing) {
			at := now.Add(-ago)
			v.Rollout.State = releases.Done
			v.Rollout.EndedAt = &at
		}
	}
	crashed := func(v *View, _ *releases.Node, n *Standing) { n.Vitals = Vitals{Crashes: 1, Crashed: "panic: luck"} }
	long := func(v *View, row *releases.Node, _ *Standing) { row.ChangedAt = now.Add(-2 * time.Hour) }
	for name, c := range map[string]struct {
		change changes
		want   string // "": it is well
	}{
		"well":    {nil, ""},
		"crashed": {changes{crashed}, "since then its agent ended by itself (1): panic: luck"},
		"crashed, no word": {changes{func(_ *View, _ *releases.Node, n *Standing) { n.Crashes = 2 }},
			"since then its agent ended by itself (2), and left no word"},
		"crashed before": {changes{crashed, func(_ *View, row *releases.Node, _ *Standing) { row.Crashes = 1 }}, ""},
		"crashed before and since": {changes{func(_ *View, row *releases.Node, n *Standing) {
			row.Crashes = 1
			n.Crashes = 3
		}}, "since then its agent ended by itself (2), and left no word"},
		"crashed, and those before are forgotten": {changes{crashed,
			func(_ *View, row *releases.Node, n *Standing) {
				row.Crashes = 5
				row.ChangedAt = now.Add(-wire.StartsWindow - 2*time.Minute)
			}}, "since then its agent ended by itself (1): panic: luck"},
		"a finding": {changes{func(_ *View, _ *releases.Node, n *Standing) { n.Severe = "probe_failed" }},
			"with it came probe_failed"},
		"memory": {changes{func(_ *View, row *releases.Node, n *Standing) {
			row.MemoryKiB = 13 << 10
			n.MemoryKiB = 100 << 10
		}}, "its agent's memory grew from 13 to 100 MiB"},
		"little memory": {changes{func(_ *View, row *releases.Node, n *Standing) {
			row.MemoryKiB = 10 << 10
			n.MemoryKiB = 99 << 10
		}}, ""},
		"much memory before": {changes{func(_ *View, row *releases.Node, n *Standing) {
			row.MemoryKiB = 60 << 10
			n.MemoryKiB = 240 << 10
		}}, ""},
		"memory of before is unknown": {changes{func(_ *View, _ *releases.Node, n *Standing) {
			n.MemoryKiB = 900 << 10
		}}, ""},
		"an earlier wave": {changes{crashed, func(v *View, _ *releases.Node, _ *Standing) { v.Rollout.Wave = 1 }},
			"since then its agent ended by itself (1): panic: luck"},
		"an hour after the end": {changes{crashed, long, ended(59 * time.Minute)}, "since then its agent ended by itself (1): panic: luck"},
		"more than that":        {changes{crashed, long, ended(61 * time.Minute)}, ""},
		"it came later":         {changes{crashed, ended(61 * time.Minute)}, "since then its agent ended by itself (1): panic: luck"},
		"aborted": {changes{crashed, ended(0), func(v *View, _ *releases.Node, _ *Standing) {
			v.Rollout.State = releases.Aborted
		}}, ""},
		"pinned":              {changes{crashed, func(_ *View, _ *releases.Node, n *Standing) { n.Belongs = false }}, ""},
		"runs something else": {changes{crashed, func(_ *View, _ *releases.Node, n *Standing) { n.Runs = false }}, ""},
		"not heard yet":       {changes{crashed, func(_ *View, _ *releases.Node, n *Standing) { n.Heard = false }}, ""},
	} {
		v := view(Committed)
		row, n := v.Rows["n"], v.Nodes["n"]
		row.ChangedAt = commit
		n.Runs = true
		n.Seen = now
		for _, change := range c.change {
			change(&v, &row, &n)
		}
		v.Rows["n"], v.Nodes["n"] = row, n
		r := &round{View: v, o: v.Rollout, changed: map[string]releases.Node{}}
		r.judge()
		got, changed := r.changed["n"]
		switch {
		case c.want == "" && changed && got.State != Committed:
			t.Errorf("%s: it is %s, %s", name, got.State, got.Why)
		case c.want != "" && (got.State != Unwell || got.Why != c.want || !got.ChangedAt.Equal(now)):
			t.Errorf("%s: it is %+v, want %s", name, got, c.want)
		case c.want != "" && (len(r.told) != 1 || r.told[0] != Told{Kind: ToldUnwell, Why: c.want, Node: "n"}):
			t.Errorf("%s: told %+v", name, r.told)
		}
		if name == "memory of before is unknown" && got.MemoryKiB != 900<<10 {
			t.Error("what it takes is not learnt")
		}
	}
}

// TestCommitCounts: what a node's agent had crashed before is noted when it has the release.
func TestCommitCounts(t *testing.T) {
	v := view(Begun)
	n := v.Nodes["n"]
	n.Runs = true
	n.Crashes = 4
	v.Nodes["n"] = n
	if rows := Look(v).Rows; len(rows) != 1 || rows[0].State != Committed || rows[0].Crashes != 4 {
		t.Errorf("got %+v", rows)
	}
}

// TestEarlierWave: what fails in an earlier wave while a later one is under way halts by the bound of its own wave. What had failed before
// was within bounds.
func TestEarlierWave(t *testing.T) {
	waves, err := Plan{Canary: "1", Steps: []string{"50%", "100%"}, MaxFailed: "50%"}.Read()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		canary, second []string
		forgiven       int
		before         bool // it failed before the wave began
		want           string
	}{
		"all well":             {[]string{Committed}, []string{Committed, Committed}, 0, false, ""},
		"the canary":           {[]string{Unwell}, []string{Committed, Committed}, 0, false, "1 of wave 1's 1 nodes"},
		"the canary, accepted": {[]string{Unwell}, []string{Committed, Committed}, 1, false, ""},
		"the canary, before":   {[]string{Unwell}, []string{Committed, Committed}, 0, true, ""},
		"the canary is away":   {[]string{Silent}, []string{Committed, Committed}, 0, false, ""},
		"the canary went back": {[]string{RolledBack}, []string{Committed, Committed}, 0, false, "1 of wave 1's 1 nodes"},
		"within its bound":     {[]string{Committed}, []string{Committed, Unwell}, 0, false, ""},
		"beyond its bound":     {[]string{Committed}, []string{Unwell, RolledBack}, 0, false, "2 of wave 2's 2 nodes"},
	} {
		v := view(Committed)
		v.Waves = waves
		v.Rollout.Wave = 2
		v.Rollout.Forgiven = c.forgiven
		v.Rollout.WaveAt = now.Add(-time.Minute)
		v.Rows = map[string]releases.Node{"third": {NodeID: "third", Wave: 2, State: Admitted, AdmittedAt: now, ChangedAt: now}}
		v.Nodes = map[string]Standing{"third": {Belongs: true, Takes: true, Online: true, Heard: true}}
		for wave, states := range [][]string{c.canary, c.second} {
			for i, state := range states {
				id := string(rune('a' + 10*wave + i))
				row := releases.Node{NodeID: id, Wave: wave, State: state, ChangedAt: now.Add(-30 * time.Second), Why: "of luck"}
				if c.before {
					row.ChangedAt = now.Add(-time.Hour)
				}
				v.Rows[id] = row
				v.Nodes[id] = Standing{Name: id, Belongs: true, Online: state != Silent, Heard: true, Runs: state == Committed}
			}
		}
		out, halted := Halt(v)
		if halted != (c.want != "") || !strings.HasPrefix(out.Rollout.Why, c.want) {
			t.Errorf("%s: halted %t: %s, want %q", name, halted, out.Rollout.Why, c.want)
		}
		if name == "the canary" && !strings.HasSuffix(out.Rollout.Why, "; not well with it: a (of luck)") {
			t.Errorf("nobody says who: %s", out.Rollout.Why)
		}
	}
}
