package health_test

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
)

// TestForeign: what is said of a process on a GPU that is allocated. What is not known is neither found nor cured.
func TestForeign(t *testing.T) {
	held := []api.GPUHold{{GPU: "GPU-3", Allocation: "a", Owner: "ada", State: api.SlotAllocated, Since: start.Add(-time.Hour)},
		{GPU: "GPU-4", Allocation: "b", Owner: "bob", State: api.SlotAllocated, Since: start}}
	bob := wire.GPUProcess{PID: 7, User: "bob", Program: "python3", Container: "3f1c2a90beef", Allocation: "b"}
	for name, c := range map[string]struct {
		holds []api.GPUHold
		list  wire.Processes
		parts []wire.MIGInstance
		want  string // of the finding; empty: there is none
	}{
		"of another": {held, wire.Processes{Count: to(2), List: []wire.GPUProcess{{PID: 6, Allocation: "a"}, bob}}, nil,
			"GPU 3: process 7 (python3) of the user bob in the container 3f1c2a90beef for the allocation b of bob works on it, " +
				"and it belongs to the allocation a of ada"},
		"of one that has ended": {held, wire.Processes{Count: to(1), List: []wire.GPUProcess{{PID: 7, Allocation: "c"}}}, nil,
			"GPU 3: process 7 for the allocation c that has no GPU here works on it, and it belongs to the allocation a of ada"},
		"its own":         {held, wire.Processes{Count: to(1), List: []wire.GPUProcess{{PID: 7, Allocation: "a"}}}, nil, ""},
		"of nobody knows": {held, wire.Processes{Count: to(1), List: []wire.GPUProcess{{PID: 7, User: "bob"}}}, nil, ""},
		"none":            {held, wire.Processes{Count: to(0)}, nil, ""},
		"not known":       {held, wire.Processes{}, nil, ""},
		"seen before that": {[]api.GPUHold{{GPU: "GPU-3", Allocation: "a", Owner: "ada", Since: start}},
			wire.Processes{Count: to(1), At: start.Add(-time.Second), List: []wire.GPUProcess{bob}},
			nil, ""},
		"its own part": {[]api.GPUHold{{GPU: "MIG-1", Allocation: "b", Owner: "bob"}},
			wire.Processes{Count: to(1), List: []wire.GPUProcess{bob}}, []wire.MIGInstance{{UUID: "MIG-1"}}, ""},
		"another's part": {[]api.GPUHold{{GPU: "MIG-1", Allocation: "a", Owner: "ada"}},
			wire.Processes{Count: to(1), List: []wire.GPUProcess{bob}}, []wire.MIGInstance{{UUID: "MIG-1"}},
			"GPU 3: process 7 (python3) of the user bob in the container 3f1c2a90beef for the allocation b " +
				"that has no GPU here works on it, and it belongs to the allocation a of ada"},
	} {
		d := newWorld(t, "n-1")
		d.place(&api.NodePlacement{Capacity: api.CapacityFull, Holds: c.holds}, 0)
		said := reading(func(_ *wire.Hardware, g *wire.GPU) { g.Processes, g.MIGInstances = &c.list, c.parts })
		for range 5 {
			d.hear("n-1", said)
		}
		got := ""
		for _, f := range d.Findings("n-1") {
			got += f.Text
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestUnclaimedText: whoever works on a GPU that nobody has is named, three of them at most.
func TestUnclaimedText(t *testing.T) {
	d := newWorld(t, "n-1")
	d.place(&api.NodePlacement{Capacity: api.CapacityOpen, Holds: []api.GPUHold{{GPU: "GPU-4", Allocation: "b", Owner: "bob"}}}, 0)
	p := &wire.Processes{Count: to(4), List: []wire.GPUProcess{{PID: 7, User: "eve", Program: "miner"}, {PID: 8, Allocation: "b"}, {PID: 9},
		{PID: 10}}}
	d.until("n-1", reading(func(_ *wire.Hardware, g *wire.GPU) { g.Processes = p }), []string{condition.GPUUnclaimed})
	const want = "GPU 3: 4 processes work on it, and it is not allocated: process 7 (miner) of the user eve, " +
		"process 8 for the allocation b of bob, process 9"
	if got := d.Findings("n-1")[0].Text; got != want {
		t.Errorf("got %q", got)
	}
}
