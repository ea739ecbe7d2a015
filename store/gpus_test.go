package store_test

import (
	"fmt"
	"testing"
	"time"

	"muster/store"
)

// TestGPURowsAreBounded: a node that invents UUIDs cannot fill the database, and no other node loses its rows.
func TestGPURowsAreBounded(t *testing.T) {
	s := enrolled(t, "n", "other")
	report := func(node, kind string, count, minute int) {
		t.Helper()
		beat := store.Beat{NodeID: "id-" + node, At: after(time.Duration(minute) * time.Minute), RunID: "r", Enrolment: "enrolment-" + node}
		for i := range count {
			beat.GPUs = append(beat.GPUs, store.GPU{UUID: fmt.Sprintf("GPU-%s-%d-%d", kind, minute, i), Name: "made up", Index: i})
		}
		must(t, s.SaveBeats(t.Context(), []store.Beat{beat}, day()))
	}
	report("other", "real", 8, 1)
	report("n", "real", 8, 1)
	for minute := 2; minute < 9; minute++ {
		report("n", "odd", 1024, minute)
	}
	report("n", "real", 8, 9)
	for uuid, want := range map[string]int{"GPU-real-1-0": 0, "GPU-odd-2-0": 0, "GPU-odd-8-0": 1, "GPU-real-9-7": 1} {
		if found, err := s.NodesByGPU(t.Context(), uuid); err != nil || countOf(found, "id-n") != want {
			t.Errorf("%s: %d rows of the node, %v; want %d", uuid, countOf(found, "id-n"), err, want)
		}
	}
	if found, err := s.NodesByGPU(t.Context(), "GPU-real-1-7"); err != nil || countOf(found, "id-other") != 1 {
		t.Errorf("the other node: %d rows, %v", countOf(found, "id-other"), err)
	}
}

func countOf(nodes []store.Node, id string) (n int) {
	for _, node := range nodes {
		if node.ID == id {
			n++
		}
	}
	return n
}
