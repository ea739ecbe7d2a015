package main

import (
	"encoding/json"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
)

// TestForeignProcess: a program of one allocation that works on the GPU of another is found, and who it is stays on record, also over a
// restart of the gateway.
func TestForeignProcess(t *testing.T) {
	t.Parallel()
	if ns, _ := os.Readlink("/proc/self/ns/pid"); ns != "pid:[4026531836]" {
		t.Skip("in a PID namespace of its own an agent believes no list of processes")
	}
	l := newRented(t)
	l.approve()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	theirs, mine := l.create("--count", "1"), l.create("--count", "1")
	l.muster("run", "--alloc", mine.ID, "--name", "train", "--", "sleep", "600")
	var kept struct{ Main struct{ PID int } }
	l.until("the program runs", func() bool {
		raw, err := os.ReadFile(filepath.Join(l.data, "agent-gpu-1", "runs", "train", "keeper.json"))
		return err == nil && json.Unmarshal(raw, &kept) == nil && kept.Main.PID > 0
	})
	gpu := theirs.Slots[0].GPUs[0]
	l.set("app='" + gpu + ", " + decimal(kept.Main.PID) + "'")
	l.muster("health", "set", condition.GPUForeign, "--for", "1s")
	l.node.stop() // a new one looks at the processes at once
	l.join("")
	l.until("it is found", func() bool { return strings.Contains(l.muster("node", "show", "gpu-1"), condition.GPUForeign) })
	for _, f := range answerOf[api.NodeDetail](l, "node", "show", "gpu-1", "-o", "json").Findings {
		want := "process " + decimal(kept.Main.PID) + " (sleep) of the user " + me.Username + " for the allocation " + mine.ID + " of " +
			mine.Owner + " works on it, and it belongs to the allocation " + theirs.ID + " of " + theirs.Owner
		if f.Rule == condition.GPUForeign && (f.GPU != gpu || !strings.HasSuffix(f.Text, want)) {
			t.Errorf("found %+v, want %s", f, want)
		}
	}
	check := func(what string) {
		t.Helper()
		list := answerOf[api.GPUUseList](l, "gpu", "history", "gpu-1", "-o", "json")
		if len(list.Uses) != 1 || list.Uses[0].GPU != gpu || list.Uses[0].Program != "sleep" || list.Uses[0].Allocation != mine.ID ||
			list.Uses[0].Owner != mine.Owner || *list.Uses[0].MemoryMiB != 700 || !list.Uses[0].Now {
			t.Errorf("%s: %+v", what, list)
		}
	}
	check("at once")
	l.gateway.stop()
	l.open()
	l.until("the node is heard again", func() bool { return l.online("gpu-1") })
	check("after a restart")
	l.muster("run", "stop", "train")
}
