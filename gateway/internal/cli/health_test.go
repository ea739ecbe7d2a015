package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health"
	"muster/gateway/internal/view"
	records "muster/store/health"
)

// withHealth is the example whose H100 has worn out its memory.
func withHealth(t *testing.T) *house {
	h := example(t)
	h.api.Overview.Load(t.Context())
	desk, err := health.Open(t.Context(), health.Config{
		Records: records.New(h.store.Records()), Ready: h.api.Overview.Ready,
		Nodes: func() []*api.NodeRow { return nil }, Node: h.api.Overview.Row,
		Judge: func(context.Context, string, map[string]string, []string) error { return nil }, Now: func() time.Time { return h.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	h.api.Health = desk
	h.dir = h.listen()
	failed := true
	desk.Take(t.Context(), []view.Sample{{NodeID: "id-vast-h100-39467543", At: h.now, Interval: time.Minute, Hardware: &wire.Hardware{
		Probe: wire.Probe{State: wire.ProbeOK, SampledAt: &h.now},
		GPUs:  []wire.GPU{{UUID: "GPU-0", RemappedRows: &wire.Remaps{Failure: &failed}}}}}})
	if err := desk.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.now = h.now.Add(5 * time.Second)
	return h
}

func TestHealth(t *testing.T) {
	h := withHealth(t)
	for _, c := range []struct {
		args      string
		code      int
		out, says string
	}{
		{"health ls", 0, "vast-h100-39467543  platform  severe    remap_failed  5s     GPU 0: a row of its memory could not be remapped\n", ""},
		{"health ls --severe -l tier=sovereign -o wide", 0, "Have the board replaced.", ""},
		{"health ls -l tier=lab", 0, "", "nothing is found"},
		{"health ls -o json", 0, `"rule":"remap_failed"`, ""},
		{"health ls --severe=perhaps", 2, "", ""},
		{"health rules", 0, "gpu_hot            warn      90 C", ""},
		{"health rules -o json", 0, `"rule":"gpu_hot"`, ""},
		{"health set gpu_hot --limit 85", 0, "gpu_hot: 85 C for all.\n", ""},
		{"health set gpu_hot -l tier=lab --off", 0, "gpu_hot: off for tier=lab.\n", ""},
		{"health set gpu_hot -l tier=lab --limit 80 -o json", 0, `"limit":80`, ""},
		{"health rules -o wide", 0, "80 C for tier=lab; 85 C for all", ""},
		{"health set gpu_hot", 2, "", "give --limit, --for or both, or --off alone"},
		{"health set gpu_hot --limit 85 --off", 2, "", "give --limit, --for or both, or --off alone"},
		{"health set gpu_hot --limit warm", 2, "", "is no number"},
		{"health set gpu_idle --limit 5 --for 2h", 0, "gpu_idle: 5 % over 2h for all.\n", ""},
		{"health set gpu_hot -l tier=lab --for 30m", 0, "gpu_hot: over 30m for tier=lab.\n", ""},
		{"health set gpu_hot --for 30m --off", 2, "", "give --limit, --for or both, or --off alone"},
		{"health set gpu_hot --for ever", 2, "", ""},
		{"health set gpu_sad --off", 1, "", "no rule of health is called"},
		{"health unset gpu_hot", 0, "gpu_hot: the setting is dropped.\n", ""},
		{"health unset gpu_hot", 1, "", "has no setting"},
		{"node show vast-h100-39467543", 0, "severe, remap_failed, since 5s: GPU 0: a row of its memory could not be remapped", ""},
		{"node show vast-h100-39467543", 0, "Have the board replaced. muster help gpus", ""},
		{"node bill", 0, "0 nodes, 0.0 hours: 0.00\n", ""}, // nobody has joined
		{"node bill --by tier -o json", 0, `"groups":[]`, ""},
	} {
		code, out, errs := h.muster(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d\n%s\n%s", c.args, code, out, errs)
		}
	}
}
