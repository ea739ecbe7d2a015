package picture_test

import (
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/health/condition"
)

func noon() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

// TestReasons: each reason has its meaning, and what a finding says already is left out. A word of another version stands alone.
func TestReasons(t *testing.T) {
	covered := condition.All()[0]
	n := &api.NodeDetail{}
	n.StateDetails = map[string]string{"tea": "cold"}
	n.StateReasons = []string{wire.ReasonConflict, wire.ReasonExpired, wire.ReasonSuspended, covered.Name, "tea"}
	all := picture.ReasonsOf(n, nil)
	if len(all) != 5 || all[3].Meaning != covered.Meaning || all[4] != (picture.Reason{Word: "tea", Detail: "cold"}) {
		t.Errorf("got %+v", all)
	}
	for _, r := range all[:4] {
		if r.Meaning == "" {
			t.Errorf("%s has no meaning", r.Word)
		}
	}
	if left := picture.ReasonsOf(n, []picture.Finding{{Finding: api.Finding{Rule: covered.Name}}}); len(left) != 4 {
		t.Errorf("beside its finding: %+v", left)
	}
}

// TestFindings: a finding has the name of its GPU, the GPU has its findings, and the silence is not told twice.
func TestFindings(t *testing.T) {
	n := &api.NodeDetail{}
	n.Findings = []api.Finding{{Rule: "hot", GPU: "GPU-b", Text: "GPU 1: it is hot"}, {Rule: condition.NodeStale}, {Rule: "old",
		GPU: "GPU-gone"}}
	gpus := []picture.GPU{{GPU: wire.GPU{UUID: "GPU-a"}}, {GPU: wire.GPU{UUID: "GPU-b", Index: 1}}}
	all := picture.FindingsOf(n, gpus, nil)
	if len(all) != 3 || all[0].Place != "GPU 1" || all[0].Text != "it is hot" || all[2].Place != "" || len(gpus[0].Found) != 0 ||
		len(gpus[1].Found) != 1 {
		t.Errorf("got %+v, %+v", all, gpus)
	}
	if all := picture.FindingsOf(n, nil, &picture.Silence{}); len(all) != 2 {
		t.Errorf("beside the silence: %+v", all)
	}
}

// TestSilence: what is told of a silent node is its last time, what it has cost since, and what was on record then.
func TestSilence(t *testing.T) {
	heard := noon().Add(-90 * time.Minute)
	price := 2.0
	n := &api.NodeDetail{}
	n.Name, n.Status, n.State, n.LastSeen, n.PricePerHour, n.Notices = "gpu-1", wire.StatusStale, wire.StateActive, &heard, &price,
		[]string{"low disk"}
	last := picture.Last{Starts: &wire.Starts{Why: "a signal"}, Sample: []string{"GPUs: ok"},
		Events: []api.Event{{At: noon()}, {At: heard}, {At: heard}, {At: heard}, {At: heard}}}
	s := picture.SilenceOf(n, last, noon())
	if s == nil || s.Cost != "3.00" || strings.Join(s.Words, ", ") != "low disk, its agent had ended before: a signal" || len(s.Events) != 3 ||
		!s.Events[0].At.Equal(heard) || s.Meaning == "" || !strings.Contains(s.WhatToDo, "gpu-1") || strings.Contains(s.WhatToDo, "NAME") {
		t.Fatalf("got %+v", s)
	}
	n.DownCost = new(0.25)
	if s := picture.SilenceOf(n, picture.Last{}, noon()); s.Cost != "" || s.Price != nil ||
		strings.Join(s.Words, ", ") != "low disk, its company says that it does not run: it costs 0.25 an hour now" {
		t.Errorf("stopped there: %+v", s)
	}
	n.PricePerHour, n.DownCost = nil, nil
	if s := picture.SilenceOf(n, picture.Last{}, noon()); s == nil || s.Cost != "" {
		t.Errorf("without a price: %+v", s)
	}
	for what, change := range map[string]func(*api.NodeDetail){
		"online":      func(n *api.NodeDetail) { n.Status = wire.StatusOnline },
		"given back":  func(n *api.NodeDetail) { n.State = wire.StateRetired },
		"never heard": func(n *api.NodeDetail) { n.LastSeen = nil },
	} {
		other := *n
		change(&other)
		if s := picture.SilenceOf(&other, last, noon()); s != nil {
			t.Errorf("%s: %+v", what, s)
		}
	}
}

func TestSample(t *testing.T) {
	if got := picture.SampleOf(nil, nil, nil); got != nil {
		t.Errorf("without a reading: %q", got)
	}
	h := &wire.Hardware{}
	for i := range 20 {
		h.GPUs = append(h.GPUs, wire.GPU{Index: i})
	}
	got := picture.SampleOf(h, picture.GPUsOf(h, nil), picture.HostOf(h))
	if len(got) != 12 || got[0] != "GPUs: –" || !strings.HasPrefix(got[1], "GPU 0: ") {
		t.Errorf("got %q", got)
	}
}
