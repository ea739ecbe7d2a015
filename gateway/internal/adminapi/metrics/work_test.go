package metrics

import (
	"regexp"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/view"
	"muster/store"
)

// TestWork: tasks of each open status, also those that nobody has; rollouts with a state.
func TestWork(t *testing.T) {
	got := map[string]float64{}
	for _, s := range read(t, full(t).scrape()) {
		switch s.name {
		case "muster_tasks":
			got[s.labels["status"]] = s.value
		case "muster_rollout_state", "muster_rollout_nodes":
			got[s.labels["channel"]+" "+s.labels["state"]+s.labels["where"]] = s.value
		}
	}
	want := map[string]float64{wire.TaskQueued: 7, wire.TaskDispatched: 0, wire.TaskRunning: 0, "stable halted": 1, "stable failed": 2}
	for what, value := range want {
		if v, there := got[what]; !there || v != value {
			t.Errorf("%s: got %v", what, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
}

// TestLag: a feed that is late is behind, also if nothing was lost yet, and one that keeps up is not.
func TestLag(t *testing.T) {
	for _, want := range []float64{0, 1} {
		d := full(t)
		d.gateway.Feed = view.Lag{Waiting: 15577, Offered: 20000}
		if want == 1 {
			d.gateway.Feed.Since = d.at
		}
		got := map[string]float64{}
		for _, s := range read(t, d.scrape()) {
			got[s.name] = s.value
		}
		if got["muster_gateway_feed_behind"] != want || got["muster_gateway_feed_waiting"] != 15577 {
			t.Errorf("behind: %v of %v, waiting: %v", got["muster_gateway_feed_behind"], want, got["muster_gateway_feed_waiting"])
		}
	}
}

// TestTally: an event that stands for many counts as many, and kinds beyond the bound count together.
func TestTally(t *testing.T) {
	tally := &Tally{}
	tally.Take(t.Context(), []store.Event{{Kind: "a", Outcome: "ok"}, {Kind: "a", Outcome: "ok", Detail: map[string]string{"more": "7"}},
		{Kind: "a", Outcome: "forbidden", Detail: map[string]string{"more": "many"}}})
	got := tally.all()
	if got[happening{"a", "ok"}] != 8 || got[happening{"a", "forbidden"}] != 1 {
		t.Errorf("got %v", got)
	}
	for i := range mostHappenings + 10 {
		tally.Take(t.Context(), []store.Event{{Kind: string(rune(0x4e00 + i))}})
	}
	if got := tally.all(); len(got) != mostHappenings+1 || got[happening{kind: other}] != 12 {
		t.Errorf("%d counters, %d of them beyond", len(got), got[happening{kind: other}])
	}
}

// TestProcess: this process has a size, has used the processor and has open files.
func TestProcess(t *testing.T) {
	p := readProcess()
	if p.heap == nil || *p.heap <= 0 || p.goroutines == nil || *p.goroutines <= 0 || p.cpuSeconds == nil || *p.cpuSeconds <= 0 {
		t.Errorf("got %+v", p)
	}
	if p.resident == nil || *p.resident < 1<<20 || p.descriptors == nil || *p.descriptors < 3 || p.goVersion == "" {
		t.Errorf("got %+v", p)
	}
}

var metricName = regexp.MustCompile(`\bmuster_[a-z0-9_]+`)

// TestFiles: every metric that the dashboard and the rules name is in an answer where all is known.
func TestFiles(t *testing.T) {
	d := full(t)
	there := names(read(t, d.scrape()))
	token := d.account("platform", api.ScopeMetricsRead)
	for path, mediaType := range map[string]string{"/dashboard.json": "application/json", "/alerts.yaml": "application/yaml; charset=utf-8"} {
		w := d.get(Path+path, token)
		if w.Code != 200 || w.Header().Get("Content-Type") != mediaType {
			t.Fatalf("%s: got %d %v", path, w.Code, w.Header())
		}
		found := metricName.FindAllString(w.Body.String(), -1)
		if len(found) < 10 {
			t.Errorf("%s names %d metrics", path, len(found))
		}
		for _, name := range found {
			if there[name] == 0 {
				t.Errorf("%s names %s, which no answer has", path, name)
			}
		}
	}
}
