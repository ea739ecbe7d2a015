package metrics

import (
	"net/http"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/help"
)

// TestDetail: what a GPU does not say is absent, the details are left out if nobody wants them, and another answer than yes or no is
// refused.
func TestDetail(t *testing.T) {
	d := full(t)
	d.rows[0].GPUs[0].Row = &wire.GPU{}
	d.rows[0].Xids = &wire.Xids{State: wire.KernelNotAvailable}
	d.rows[1].GPUs[0].Row = nil
	got := names(read(t, d.scrape()))
	for _, f := range detailFamilies() {
		if got[f.name] != 0 {
			t.Errorf("%s: %d samples of what is not known", f.name, got[f.name])
		}
	}
	d = full(t)
	token := d.account("", api.ScopeMetricsRead)
	brief := d.get(Path+"?detail=no", token).Body.String()
	if strings.Contains(brief, "muster_gpu_sm_clock_hertz") || !strings.Contains(brief, "muster_gpu_power_watts{") {
		t.Errorf("without details:\n%s", brief)
	}
	if whole := d.get(Path+"?detail=yes", token).Body.String(); !strings.Contains(whole, "muster_gpu_sm_clock_hertz{") {
		t.Error("with details: they are not there")
	}
	if w := d.get(Path+"?detail=some", token); w.Code != http.StatusBadRequest || code(w) != wire.CodeBadRequest {
		t.Errorf("detail=some: %d %s", w.Code, w.Body)
	}
}

// TestDCGMTable: help names every metric of GPUs' details.
func TestDCGMTable(t *testing.T) {
	page := help.Text("metrics")
	for _, f := range detailFamilies() {
		if name := strings.TrimSuffix(f.name, "_max"); !strings.Contains(page, "`"+name+"`") {
			t.Errorf("help metrics does not name %s", f.name)
		}
	}
}
