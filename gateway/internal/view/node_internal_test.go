package view

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"muster/agent/wire"
	"muster/store"
)

// TestRowIsLetGo: the view keeps nothing of the row that a node was read from. The row's JSON would be a second copy of the reading.
func TestRowIsLetGo(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	p := Open(Config{Ref: func() store.StatusRef { return store.StatusRef{Now: now} }})
	row := &store.Node{ID: "n", Name: "a", LastSeen: &now, GPUsExpected: 8, Certificate: store.Certificate{Fingerprint: "f", OverdueAt: &now},
		Labels: map[string]string{"tier": "x"}, Hardware: `{"probe":{"state":"ok"},"gpus":[]}`}
	ref := p.Ref()
	p.mu.Lock()
	p.put(read(row, nil, ref))
	p.mu.Unlock()
	held := weak.Make(row)
	row = nil
	runtime.GC()
	if held.Value() != nil {
		t.Error("the row stays in memory")
	}
	if n, ok := p.Row("n"); !ok || *n.GPUsExpected != 8 {
		t.Errorf("got %+v, %v", n, ok)
	}
}

// TestAnotherEnrolment: what was heard stays when its node is read again, and not when another machine has taken the node over.
func TestAnotherEnrolment(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	ref := store.StatusRef{Now: now}
	row := store.Node{ID: "n", EnrolmentID: "first", LastSeen: &now, Interval: time.Minute, Hardware: `{"probe":{"state":"ok"},"gpus":[{}]}`}
	earlier := read(&row, nil, ref)
	row.Hardware = `{"probe":{"state":"ok"},"gpus":[]}`
	for enrolment, want := range map[string]int{"first": 1, "second": 0} {
		row.EnrolmentID = enrolment
		if n := read(&row, earlier, ref); n.row.GPUs == nil || len(n.row.GPUs) != want {
			t.Errorf("%s enrolment: %+v, want %d", enrolment, n.row.GPUs, want)
		}
	}
}

// TestNoAgent: the silence of a node that has no agent, because it was given back or is installed, is no silence.
func TestNoAgent(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	ref := store.StatusRef{Now: now.Add(time.Hour)}
	for state, want := range map[string]string{wire.StateCommissioned: wire.StatusPending, wire.StateReady: wire.StatusPending,
		wire.StateDeploying: wire.StatusPending, wire.StateActive: wire.StatusStale, wire.StateDrained: wire.StatusStale} {
		n := read(&store.Node{ID: "n", State: state, EnrolmentID: "first", LastSeen: &now, Interval: time.Minute}, nil, ref)
		if n.row.Status != want || n.row.LastSeen == nil {
			t.Errorf("%s: %s, want %s", state, n.row.Status, want)
		}
	}
}
