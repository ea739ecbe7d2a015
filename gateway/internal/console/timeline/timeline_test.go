package timeline_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/console/timeline"
)

func now() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC) }

// held is an allocation of GPUs on nodes, from and to so many hours after now.
func held(owner, tenant string, from, to float64, on ...string) api.Allocation {
	at := func(hours float64) *time.Time {
		t := now().Add(time.Duration(hours * float64(time.Hour)))
		return &t
	}
	a := api.Allocation{ID: "a-" + owner, Owner: owner, Tenant: tenant, State: api.AllocationAllocated, ClaimedAt: at(from), EndsAt: at(to)}
	for _, node := range on {
		a.Slots = append(a.Slots, api.AllocatedSlot{Node: node, NodeID: "id-" + node, GPUs: []string{"GPU"}, State: api.SlotAllocated})
	}
	return a
}

// ended is the same after its end, with its slots in a state.
func ended(a api.Allocation, state string) api.Allocation {
	a.State, a.EndedAt = api.AllocationReleasing, a.EndsAt
	for i := range a.Slots {
		a.Slots[i].State = state
	}
	if state == api.AllocationReleased {
		a.State = state
	}
	return a
}

// told is a drawing as text: each row, and each of its bars with its place.
func told(c timeline.Chart) string {
	var out strings.Builder
	fmt.Fprintf(&out, "now %.1f, %d ticks, %d left\n", c.Now, len(c.Ticks), c.Left)
	for _, k := range c.Keys {
		fmt.Fprintf(&out, "%s is %s\n", k.Class, k.Name)
	}
	for _, r := range c.Rows {
		fmt.Fprintf(&out, "%s: %d GPUs, %d high\n", r.Node, r.GPUs, r.Height)
		for _, b := range r.Bars {
			fmt.Fprintf(&out, "  %q at %.1f,%d room %.1f, %s\n   ", b.Text, b.X, b.Y, b.Room, b.Class)
			for _, p := range b.Parts {
				fmt.Fprintf(&out, " %s %.1f+%.1f,", p.Class, p.X, p.Width)
			}
			fmt.Fprintf(&out, " begins %v, goes %v\n", b.Begins, b.Goes)
		}
	}
	return out.String()
}

// TestDraw is one drawing of everything: what is short and what goes on, what is cleaned, what is stuck and what is over.
func TestDraw(t *testing.T) {
	waits := held("ken", "b", 0, 0)
	waits.State, waits.ClaimedAt, waits.EndsAt = api.AllocationWaiting, nil, nil
	list := []api.Allocation{held("ada", "a", -48, 72, "n2", "n2", "n1"), held("grace", "b", -12, -6, "n3"), held("late", "b", -12, -1, "n4"),
		ended(held("rob", "c", -12, -6, "n2"), api.SlotBlocked), ended(held("brian", "a", -6, -1, "n2"), api.SlotCleaning),
		ended(held("old", "b", -20, -18, "n3"), api.AllocationReleased), ended(held("past", "b", -50, -30, "n3"), api.AllocationReleased),
		held("next", "b", 12, 240, "n3"), waits}
	list[1] = ended(list[1], api.AllocationReleased)
	const want = `now 12.5, 8 ticks, 0 left
hue-a is a
hue-b is b
hue-c is c
n1: 1 GPUs, 24 high
  "ada · a · 1 GPU" at 0.0,0 room 100.0, hue-a allocated
    held 0.0+50.0, begins false, goes false
n2: 4 GPUs, 72 high
  "ada · a · 2 GPUs" at 0.0,0 room 100.0, hue-a allocated
    held 0.0+50.0, begins false, goes false
  "■ cleanup blocked: rob · c · 1 GPU" at 6.2,24 room 93.8, hue-c cleanup_blocked
    held 0.0+3.3, cleanup_blocked 3.3+96.7, begins true, goes true
  "◐ cleaning: brian · a · 1 GPU" at 9.4,48 room 90.6, hue-a cleaning
    held 0.0+2.9, cleaning 0.0+3.4, begins true, goes false
n3: 1 GPUs, 24 high
  "◌ released: old · b · 1 GPU" at 2.1,0 room 4.2, hue-b released
    held 0.0+25.2, begins true, goes false
  "◌ released: grace · b · 1 GPU" at 6.2,0 room 12.5, hue-b released
    held 0.0+25.0, begins true, goes false
  "next · b · 1 GPU" at 18.8,0 room 81.2, hue-b allocated
    held 0.0+100.0, begins true, goes true
n4: 1 GPUs, 24 high
  "late · b · 1 GPU" at 6.2,0 room 93.8, hue-b allocated
    held 0.0+6.7, begins true, goes false
`
	if got := told(timeline.Draw(list, now(), timeline.ToWeek, timeline.ByTenant)); got != want {
		t.Errorf("got\n%s", got)
	}
	says := timeline.Draw(list, now(), timeline.ToWeek, timeline.ByTenant).Rows[1].Bars[1].Says
	if says != "a-rob: 1 GPU of n2 for rob of c, from 2026-11-20 22:00 UTC to 2026-11-21 04:00 UTC, cleanup blocked" {
		t.Errorf("it says %q", says)
	}
}

// TestRange: it ends where it was asked to, or with the last bar if that is earlier; never at once.
func TestRange(t *testing.T) {
	list := []api.Allocation{held("ada", "a", 0, 72, "n1")}
	for _, c := range []struct {
		list  []api.Allocation
		to    string
		hours float64
	}{{nil, timeline.ToWeek, 12}, {list, timeline.ToDay, 24}, {list, timeline.ToWeek, 72}, {list, timeline.ToEnd, 72},
		{append(list, held("b", "a", 0, 500, "n1")), timeline.ToWeek, 168}, {append(list, held("b", "a", 0, 500, "n1")), timeline.ToEnd, 500}} {
		got := timeline.Draw(c.list, now(), c.to, "")
		if hours := got.Until.Sub(now()).Hours(); hours != c.hours || got.Since != now().Add(-24*time.Hour) || len(got.Ticks) == 0 {
			t.Errorf("%s: until %v, wanted %v", c.to, hours, c.hours)
		}
	}
	early := held("b", "a", 0, 500, "n1")
	early.State = api.AllocationReleased
	if got := timeline.Draw([]api.Allocation{early}, now(), timeline.ToEnd, ""); got.Until.Sub(now()) != 12*time.Hour {
		t.Errorf("what was given back early lets it end at %v", got.Until)
	}
	day := timeline.Draw(list, now(), timeline.ToDay, "").Ticks
	if day[0].Text != "12:00" || day[3].Text != "Sat 21" {
		t.Errorf("ticks %v", day)
	}
}

// TestManyColours: names by their order, by tenant or owner; the ninth has the first colour again, dashed.
func TestManyColours(t *testing.T) {
	var list []api.Allocation
	for i := range 17 {
		list = append(list, held(fmt.Sprintf("o%02d", i), "one", 0, 10, fmt.Sprintf("n%03d", i)))
	}
	if keys := timeline.Draw(list, now(), "", timeline.ByTenant).Keys; len(keys) != 1 || keys[0].Name != "one" {
		t.Errorf("by tenant: %v", keys)
	}
	keys := timeline.Draw(list, now(), "", timeline.ByOwner).Keys
	if len(keys) != 17 || keys[0] != (timeline.Key{Class: "hue-a", Name: "o00"}) || keys[8].Class != "hue-a dashed" ||
		keys[16].Class != "hue-a" {
		t.Errorf("by owner: %v", keys)
	}
}

// TestManyNodes: as many rows as a person can look at are drawn, and the rest is counted.
func TestManyNodes(t *testing.T) {
	var list []api.Allocation
	for i := range 130 {
		list = append(list, held("ada", "a", 0, 10, fmt.Sprintf("n%03d", 129-i)))
	}
	c := timeline.Draw(list, now(), "", "")
	if len(c.Rows) != 100 || c.Left != 30 || c.Rows[0].Node != "n000" || c.Rows[99].Node != "n099" {
		t.Errorf("%d rows, %d left", len(c.Rows), c.Left)
	}
}

// FuzzDraw: whatever is allocated, each bar is within the drawing, and no two bars of a line are there at one time.
func FuzzDraw(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint8(seed*7))
	}
	f.Fuzz(func(t *testing.T, seed uint64, count uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		states := []string{api.SlotAllocated, api.SlotCleaning, api.SlotBlocked, api.AllocationReleased}
		var list []api.Allocation
		for i := range count {
			from := r.Float64()*400 - 200
			a := held(fmt.Sprint("o", i), fmt.Sprint("t", i%3), from, from+r.Float64()*300-10, fmt.Sprint("n", r.IntN(5)))
			if state := states[r.IntN(4)]; state != api.SlotAllocated {
				a = ended(a, state)
			}
			if r.IntN(9) == 0 {
				a.EndsAt = nil
			}
			list = append(list, a)
		}
		c := timeline.Draw(list, now(), timeline.ToWeek, timeline.ByOwner)
		for _, row := range c.Rows {
			edge := map[int]float64{} // where the bars of a line have come to
			for _, b := range row.Bars {
				if b.X < edge[b.Y] || b.X > 100 || b.Room < 0 || b.X+b.Room > 100.001 || b.Y < 0 || b.Y+24 > row.Height {
					t.Errorf("%s: the bar %+v is outside, or on another", row.Node, b)
				}
				for _, p := range b.Parts {
					if p.X < 0 || p.Width < -.001 || p.X+p.Width > 100.001 {
						t.Errorf("%s: the part %+v of %+v is outside", row.Node, p, b)
					}
					edge[b.Y] = max(edge[b.Y], b.X+(p.X+p.Width)*b.Room/100-.001)
				}
			}
		}
	})
}
