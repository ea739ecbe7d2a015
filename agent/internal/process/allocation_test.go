package process_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestAllocation: what a program with an allocation starts belongs to that, also in a session of its own; what others start does not.
func TestAllocation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const allocation = "7f2kq3xw5dhz6m4a"
	o := b.start(wire.WorkloadProcess{Name: "a", Allocation: allocation, Command: []string{"sh", "-c",
		`setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000`}})
	if o.Error != "" {
		t.Fatalf("%+v", o)
	}
	_, main := b.keeping("a")
	child, err := strconv.Atoi(strings.TrimSpace(b.awaitText("a", "\n")))
	if err != nil {
		t.Fatal(err)
	}
	b.sh("b", "exec sleep 1000")
	_, other := b.keeping("b")
	for pid, want := range map[int]string{main: allocation, child: allocation, other: "", os.Getpid(): "", 1 << 30: ""} {
		if got := b.Allocation(pid); got != want {
			t.Errorf("process %d: got %q, want %q", pid, got, want)
		}
	}
}
