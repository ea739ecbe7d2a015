package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
)

// TestPlacementSession goes the way of an operator: approve, allocate, explain, run, release. What runs ends with its allocation.
func TestPlacementSession(t *testing.T) {
	t.Parallel()
	l := newRented(t)
	if table := l.muster("slot", "ls"); strings.Count(table, "gpu-1") != 9 {
		t.Errorf("slot ls:\n%s", table)
	}
	l.refused("approv", "alloc", "create", "--gpu", "h100")
	l.approve()
	a := l.create("--count", "2", "--ttl", "2h", "--wait")
	if a.State != api.AllocationAllocated || len(a.Slots) != 2 || a.EndsAt == nil || a.EndsAt.Sub(*a.ClaimedAt).Hours() != 2 {
		t.Errorf("allocated: %+v", a)
	}
	if said := l.muster("sku", "explain", "h100-sxm-baremetal-8g"); !strings.Contains(said, "taken") {
		t.Errorf("sku explain:\n%s", said)
	}
	params := filepath.Join(t.TempDir(), "params.json")
	text := `{"name":"other","command":["sleep","60"],"gpus":["` + a.Slots[0].GPUs[0] + `"]}`
	if err := os.WriteFile(params, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.refused("belongs to an allocation of operator:socket", "task", "run", "gpu-1", wire.TaskWorkloadProcess, "--params", params)
	l.muster("run", "--alloc", a.ID, "--name", "train", "--", "sleep", "600")
	l.until("the program runs", func() bool { return strings.Contains(l.muster("run", "ls", "gpu-1"), "running") })
	ask := `{"name":"second","command":["sleep","600"],"allocation":"` + a.ID + `"}`
	task := posted[api.Task](l, api.PathTasks, api.NewTask{Type: wire.TaskWorkloadProcess, Params: []byte(ask)})
	for _, s := range a.Slots {
		if task.Node != "gpu-1" || !strings.Contains(string(task.Params), s.GPUs[0]) {
			t.Errorf("the allocation's node and GPUs: %s %s", task.Node, task.Params)
		}
	}
	if said := l.muster("task", "run", wire.TaskWorkloadProcess, "name=third", "command=sleep", "command=60", "allocation="+a.ID,
		"--wait"); !strings.
		Contains(said, "third runs as") {
		t.Errorf("task run without a node:\n%s", said)
	}
	l.muster("alloc", "release", a.ID)
	l.clean(a.ID)
	l.until("the program has ended", func() bool { return !strings.Contains(l.muster("run", "ls", "gpu-1"), "running") })
	if events := l.muster("events"); !strings.Contains(events, "allocation.claimed") || !strings.Contains(events, "gpu.cleaned") {
		t.Errorf("events:\n%s", events)
	}
}

// TestPlacementKilled: the same request again gives the same allocation, also after the gateway was killed.
func TestPlacementKilled(t *testing.T) {
	t.Parallel()
	l := newRented(t)
	l.approve()
	ask := api.NewAllocation{ID: wire.NewTaskID(), Wish: api.Wish{GPU: "h100", Count: 3}}
	first := l.post(ask)
	l.gateway.kill()
	l.open()
	l.until("the node is heard again", func() bool { return l.online("gpu-1") })
	again := l.post(ask)
	gpus := func(a api.Allocation) (all []string) {
		for _, s := range a.Slots {
			all = append(all, s.GPUs...)
		}
		return slices.Sorted(slices.Values(all))
	}
	if len(gpus(first)) != 3 || !slices.Equal(gpus(first), gpus(again)) || again.ID != first.ID {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if s := l.states(); s[api.SlotApproved] != 5 {
		t.Errorf("slots: %v", s)
	}
}

// TestPlacementDrift: a node that comes back with other GPUs takes no claims, and what was allocated stays, until a person has looked.
func TestPlacementDrift(t *testing.T) {
	t.Parallel()
	l := newRented(t)
	l.approve()
	a := l.create("--count", "1")
	l.set("seed=00000000bbbb")
	l.muster("node", "check", "gpu-1")
	l.refused("changed", "alloc", "create", "--gpu", "h100")
	if got := l.show(a.ID); got.State != api.AllocationAllocated || got.Slots[0].GPUs[0] != a.Slots[0].GPUs[0] {
		t.Errorf("what was allocated: %+v", got)
	}
	if events := l.muster("events"); !strings.Contains(events, "slot.drift") {
		t.Errorf("events:\n%s", events)
	}
	l.approve()
	if b := l.create("--count", "1"); !strings.Contains(b.Slots[0].GPUs[0], "bbbb") {
		t.Errorf("after the approval: %+v", b)
	}
	l.set("seed=00000000bbbb count=7")
	if code, said, _ := l.try("node", "check", "gpu-1"); code != exitFailed || !strings.Contains(said, "7 of 8 expected GPUs") {
		t.Errorf("a check of seven GPUs: exit %d\n%s", code, said)
	}
	l.refused("0 free", "alloc", "create", "--gpu", "h100")
}

// TestPlacementWaitsForTheProcess: a process that stays on a GPU keeps it from being free, and is never ended by the agent.
func TestPlacementWaitsForTheProcess(t *testing.T) {
	t.Parallel()
	l := newRented(t)
	l.approve()
	a := l.create("--count", "8")
	other := start(t, "a stranger's program", nil, "sleep", "600")
	l.set("by=" + decimal(other.cmd.Process.Pid))
	l.muster("alloc", "release", a.ID)
	l.until("the agent waits for the process", func() bool {
		tasks := l.show(a.ID).Tasks
		return len(tasks) > 0 && strings.Contains(l.muster("task", "show", tasks[0].ID), "waiting: process")
	})
	if s := l.states(); s[api.SlotCleaning] != 9 {
		t.Errorf("slots: %v", s)
	}
	l.refused("taken", "alloc", "create", "--gpu", "h100")
	if !alive(other) {
		t.Error("the program of somebody else was ended")
	}
	other.kill()
	l.set("")
	l.clean(a.ID)
}

// TestPlacementTenants: an account of another tenant sees no allocation, no slot and no SKU, and gets nothing.
func TestPlacementTenants(t *testing.T) {
	t.Parallel()
	l := newRented(t)
	l.approve()
	a := l.create()
	made := answerOf[struct{ Token string }](l, "account", "create", "other", "--tenant", "other", "--scope", "*", "-o", "json")
	other := &rented{house: l.house, env: map[string]string{"MUSTER_URL": l.url, "MUSTER_API_TOKEN": made.Token,
		"MUSTER_ROOT_PIN": l.ca().Roots[0].Pin}}
	if s := other.slots(); len(s) != 0 {
		t.Errorf("it sees the slots %+v", s)
	}
	if list := answerOf[api.AllocationList](other, "alloc", "ls", "--all", "-o", "json"); len(list.Allocations) != 0 {
		t.Errorf("it sees %+v", list)
	}
	if list := answerOf[api.SKUList](other, "sku", "ls", "-o", "json"); len(list.SKUs) != 0 {
		t.Errorf("it sees %+v", list)
	}
	for _, args := range [][]string{{"alloc", "show", a.ID}, {"alloc", "release", a.ID}, {"slot", "approve", "--node", "gpu-1", "--yes"},
		{"alloc", "extend", a.ID, "--for", "1h"}, {"alloc", "create", "--gpu", "h100"}, {"node", "check", "gpu-1"}} {
		other.refused("no", args...)
	}
	if got := l.show(a.ID); got.State != api.AllocationAllocated {
		t.Errorf("it is %+v", got)
	}
}

// TestPlacementRestored: a restore ends approvals: nobody knows what has happened to the machines since the copy.
func TestPlacementRestored(t *testing.T) {
	t.Parallel()
	l := newRented(t)
	l.approve()
	file := filepath.Join(t.TempDir(), "backup.db")
	l.muster("backup", file)
	l.gateway.stop()
	l.muster("restore", file, "--force")
	l.open()
	l.until("the node is back", func() bool { return l.online("gpu-1") })
	l.until("no slot is approved", func() bool { return l.states()[api.SlotProposed] == 9 })
	l.until("nothing is given", func() bool {
		code, _, errs := l.try("alloc", "create", "--gpu", "h100")
		return code != 0 && strings.Contains(errs, "not approved")
	})
}
