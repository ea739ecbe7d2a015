package history_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/history"
	"muster/gateway/internal/view"
	store "muster/store/history"
)

const gib = 1 << 30

// TestMetrics: each metric that is listed comes back with the value that was said.
func TestMetrics(t *testing.T) {
	d := newStore(t, gib)
	cpu := int64(0)
	d.live(5*time.Minute, 2, func(s *view.Sample) {
		cpu += 15 // milliseconds in 30 seconds
		s.Cost.CPUMillis = ref(cpu)
	})
	want := map[string]float64{
		"gpu_utilization_percent": 50, "gpu_memory_used_mib": 39_233, "gpu_temperature_celsius": 64, "gpu_power_watts": 612.5, "gpu_sm_mhz": 1980,
		"load1": 1.25, "memory_used_mib": 21_500, "disk_used_mib": 120_000, "agent_rss_kib": 6400, "agent_cpu_percent": 0.05, "probe_ms": 41,
		"heard": 1,
	}
	for _, m := range history.Metrics() {
		for _, step := range []int64{0, 60, 3600} {
			s := d.series(api.SeriesQuery{Metric: m.Name, Since: noon(), Step: step})
			if tracks := map[bool]int{true: 2, false: 1}[m.PerGPU]; len(s.Series) != tracks {
				t.Fatalf("%s has %d tracks, want %d", m.Name, len(s.Series), tracks)
			}
			last := s.Series[0].Points[len(s.Series[0].Points)-1]
			if v := last[1]; v == nil || *v != want[m.Name] {
				t.Errorf("%s in steps of %d is %s, want %v", m.Name, step, text(s.Series[0]), want[m.Name])
			}
			if gpu := s.Series[0].GPU; m.PerGPU != (gpu == "GPU-0") {
				t.Errorf("%s is of GPU %q", m.Name, gpu)
			}
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("no metric is listed for %v", want)
	}
}

// TestCPUThatFalls: an agent cannot have taken less time than before. What it took is not known then.
func TestCPUThatFalls(t *testing.T) {
	d := newStore(t, gib)
	cpu := int64(10_000)
	d.live(5*time.Minute, 0, func(s *view.Sample) {
		cpu -= 15
		s.Cost.CPUMillis = ref(cpu)
	})
	for _, track := range d.series(api.SeriesQuery{Metric: "agent_cpu_percent", Since: noon(), Step: 60}).Series {
		if got := strings.Trim(text(track), "- "); got != "" {
			t.Errorf("it took %s", text(track))
		}
	}
}

// TestRefused: each query that cannot be answered is refused, and says what to write.
func TestRefused(t *testing.T) {
	d := newStore(t, gib)
	d.Turn(t.Context())
	for _, q := range []api.SeriesQuery{
		{Metric: "nothing"}, {}, {Metric: "load1", Value: "median"}, {Metric: "load1", Since: d.now},
		{Metric: "load1", Since: d.now.Add(-48 * time.Hour), Step: 1},
		{Metric: "load1", Until: d.now.AddDate(7000, 0, 0), Since: d.now}, {Metric: "load1", Since: time.Time{}.Add(time.Second)},
		{Metric: "load1", Since: d.now.AddDate(-200, 0, 0), Step: 365 * 86400},
	} {
		_, err := d.Series(t.Context(), "n", q)
		var refusal *wire.ErrorDetail
		if !errors.As(err, &refusal) || refusal.Code != wire.CodeBadRequest || refusal.Hint == "" {
			t.Errorf("%+v: got %v", q, err)
		}
	}
	closed := history.New(history.Config{})
	_, err := closed.Series(t.Context(), "n", api.SeriesQuery{Metric: "load1"})
	var refusal *wire.ErrorDetail
	if !errors.As(err, &refusal) || refusal.Code != wire.CodeUnavailable {
		t.Errorf("without a file: got %v", err)
	}
	if s := d.seriesOf("nobody", api.SeriesQuery{Metric: "gpu_power_watts"}); len(s.Series) != 0 {
		t.Errorf("a node without samples has %v", s.Series)
	}
}

// TestManyGPUs: an answer is bounded for all GPUs together.
func TestManyGPUs(t *testing.T) {
	d := newStore(t, gib)
	d.live(2*time.Minute, 200, nil)
	week := api.SeriesQuery{Metric: "gpu_power_watts", Since: d.now.Add(-7 * 24 * time.Hour), Until: d.now, Step: 60}
	var refusal *wire.ErrorDetail
	if _, err := d.Series(t.Context(), "n", week); !errors.As(err, &refusal) || refusal.Code != wire.CodeBadRequest {
		t.Errorf("2,000,000 points: %v", err)
	}
	week.Metric = "heard"
	if _, err := d.Series(t.Context(), "n", week); err != nil {
		t.Errorf("10,080 points: %v", err)
	}
	week.Metric, week.Step = "gpu_power_watts", 0
	if s := d.series(week); len(s.Series) != 200 {
		t.Errorf("%d tracks", len(s.Series))
	}
}

// TestMissingStaysMissing: a gap, a GPU that vanishes and a value that is not said are null in samples, minutes and hours, and never 0.
func TestMissingStaysMissing(t *testing.T) {
	d := newStore(t, gib)
	d.live(30*time.Minute, 2, nil)
	d.live(30*time.Minute, 2, func(s *view.Sample) { s.Hardware.GPUs[1].PowerWatts = nil }) // null for half of the hour
	d.now = d.now.Add(time.Hour)                                                            // a gap
	d.live(time.Hour, 1, nil)                                                               // a GPU vanished
	d.now = d.now.Add(3 * time.Minute)
	d.Turn(t.Context())
	if due, err := d.File().Due(t.Context(), d.now.Add(-2*time.Minute), 10); err != nil || len(due) != 0 {
		t.Fatalf("%d hours are due, %v", len(due), err)
	}
	hours := d.series(api.SeriesQuery{Metric: "gpu_power_watts", Since: noon(), Until: noon().Add(3 * time.Hour), Step: 3600})
	if first, second := text(hours.Series[0]), text(hours.Series[1]); first != "612.5 - 612.5" || second != "612.5 - -" {
		t.Errorf("hours are %q and %q", first, second)
	}
	minutes := d.series(api.SeriesQuery{Metric: "gpu_power_watts", Since: noon(), Until: noon().Add(3 * time.Hour), Step: 60})
	second := strings.Fields(text(minutes.Series[1]))
	if len(second) != 180 || second[29] != "612.5" || slices.ContainsFunc(second[30:], func(s string) bool { return s != "-" }) {
		t.Errorf("minutes of the second GPU are %v", second)
	}
	first := strings.Fields(text(minutes.Series[0]))
	if first[59] != "612.5" || first[60] != "-" || first[119] != "-" || first[120] != "612.5" {
		t.Errorf("minutes of the first GPU are %v", first)
	}
	raw := d.series(api.SeriesQuery{Metric: "gpu_power_watts", Since: noon().Add(50 * time.Minute), Until: noon().Add(130 * time.Minute),
		Step: 30})
	if first := text(raw.Series[0]); !strings.Contains(first, "612.5 - 612.5") || strings.Count(first, "-") != 1 {
		t.Errorf("samples of the first GPU are %v, want one gap", first)
	}
	if second := text(raw.Series[1]); strings.Trim(second, "- ") != "" {
		t.Errorf("samples of the second GPU are %v, want none", second)
	}
}

// TestOldRows: rows of GPUs that were not read anew are no samples, as after nvidia-smi hangs.
func TestOldRows(t *testing.T) {
	d := newStore(t, gib)
	read := d.now
	d.live(10*time.Minute, 1, func(s *view.Sample) {
		if s.At.Before(noon().Add(time.Minute)) {
			return
		}
		s.Hardware.Probe.SampledAt = &read
		s.Hardware.Probe.State = wire.ProbeHung
		s.Hardware.Probe.Since = ref(noon().Add(5 * time.Minute))
		s.Hardware.Probe.IntervalSeconds = ref(120.0)
	})
	s := d.series(api.SeriesQuery{Metric: "gpu_power_watts", Since: noon(), Step: 60})
	if got := text(s.Series[0]); got != "612.5 - - - - - - - - -" {
		t.Errorf("rows from before the probe hung: %s", got)
	}
	d = newStore(t, gib)
	d.live(10*time.Minute, 1, func(s *view.Sample) {
		s.Hardware.Probe.SampledAt = ref(noon().Add(-time.Hour)) // by a clock that is an hour behind
		s.SkewMillis = time.Hour.Milliseconds()
	})
	s = d.series(api.SeriesQuery{Metric: "gpu_power_watts", Since: noon(), Step: 60})
	if got := text(s.Series[0]); got != "612.5 612.5 - - - - - - - -" {
		t.Errorf("rows that grow old: %s", got)
	}
}

// TestEdges: since counts and until does not; steps are whole in UTC; a step that is too fine for the node's interval grows.
func TestEdges(t *testing.T) {
	d := newStore(t, gib)
	d.live(time.Hour, 1, nil)
	s := d.series(api.SeriesQuery{Metric: "load1", Since: noon().Add(90 * time.Second), Until: noon().Add(5 * time.Minute),
		Step: 120})
	points := s.Series[0].Points
	if len(points) != 3 || *points[0][0] != float64(noon().Unix()) || *points[2][0] != float64(noon().Add(4*time.Minute).Unix()) {
		t.Errorf("points %v", points)
	}
	raw := d.series(api.SeriesQuery{Metric: "load1", Since: noon().Add(time.Minute), Until: noon().Add(2 * time.Minute)})
	if points := raw.Series[0].Points; len(points) != 2 || *points[0][0] != float64(noon().Add(time.Minute).Unix()) || raw.StepSeconds != 30 {
		t.Errorf("samples %v, step %d", points, raw.StepSeconds)
	}
	if s := d.series(api.SeriesQuery{Metric: "load1", Since: noon(), Step: 90}); s.StepSeconds != 120 {
		t.Errorf("a step of 90 seconds became %d", s.StepSeconds)
	}
	slow := newStore(t, gib)
	slow.live(time.Hour, 1, func(s *view.Sample) { s.Interval = 5 * time.Minute })
	if s := slow.series(api.SeriesQuery{Metric: "load1", Since: noon(), Step: 60}); s.StepSeconds != 600 {
		t.Errorf("with an interval of 5 minutes the step is %d", s.StepSeconds)
	}
}

// TestValues: least and most outlive the roll-up, and the mean counts each sample.
func TestValues(t *testing.T) {
	d := newStore(t, gib)
	i := 0
	d.live(time.Hour, 1, func(s *view.Sample) {
		s.Hardware.GPUs[0].UtilizationPercent = ref(map[bool]float64{true: 100, false: 20}[i < 30])
		i++
	})
	d.now = d.now.Add(3 * time.Minute)
	d.Turn(t.Context())
	for value, want := range map[string]string{"": "40", history.Mean: "40", history.Least: "20", history.Most: "100"} {
		s := d.series(api.SeriesQuery{Metric: "gpu_utilization_percent", Since: noon(), Until: noon().Add(time.Hour),
			Step: 3600, Value: value})
		if got := text(s.Series[0]); got != want {
			t.Errorf("%q is %s, want %s", value, got, want)
		}
	}
}

// TestClockSetBack: points stay in order and none is doubled, in samples and in roll-ups, also if an hour is written twice.
func TestClockSetBack(t *testing.T) {
	d := newStore(t, gib)
	d.live(70*time.Minute, 1, nil)
	d.now = d.now.Add(-30 * time.Minute) // back into the first hour, which is rolled up
	d.live(90*time.Minute, 1, nil)
	d.now = d.now.Add(3 * time.Minute)
	d.Turn(t.Context())
	for _, step := range []int64{30, 60, 3600} {
		s := d.series(api.SeriesQuery{Metric: "heard", Since: noon(), Until: noon().Add(2 * time.Hour), Step: step})
		points := s.Series[0].Points
		for i := 1; i < len(points); i++ {
			if *points[i][0] <= *points[i-1][0] {
				t.Fatalf("step %d: %.0f stands after %.0f", step, *points[i][0], *points[i-1][0])
			}
		}
		if strings.Contains(text(s.Series[0]), "-") {
			t.Errorf("step %d: gaps in %s", step, text(s.Series[0]))
		}
	}
	hours, err := d.File().Points(t.Context(), store.Hours, 1, store.Hours.Number(noon()), store.Hours.Number(noon()))
	must(t, err)
	if hours[0].Heard != 120 {
		t.Errorf("%d samples in the first hour, want 120", hours[0].Heard)
	}
}

// TestNodesApart: nodes do not mix, whatever their GPUs are called.
func TestNodesApart(t *testing.T) {
	d := newStore(t, gib)
	for range 10 {
		one := d.beat("one", 1)
		other := d.beat("other", 2)
		other.Hardware.GPUs[0].PowerWatts = ref(1.0)
		d.Take(t.Context(), []view.Sample{one, other})
		d.now = d.now.Add(30 * time.Second)
		d.Turn(t.Context())
	}
	for node, want := range map[string]string{"one": "612.5", "other": "1"} {
		s := d.seriesOf(node, api.SeriesQuery{Metric: "gpu_power_watts", Since: noon(), Step: 300})
		if got := text(s.Series[0]); got != want {
			t.Errorf("%s has %s, want %s", node, got, want)
		}
	}
}
