package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"muster/gateway/api"
)

// seriesHouse answers every request with the same series: an hour of two GPUs, one of which was away for a while.
func seriesHouse(t *testing.T, tracks ...api.SeriesTrack) (h *house, asked *string) {
	h = newHouse(t)
	asked = new(string)
	h.dir = listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = r.URL.String()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.Series{Metric: "gpu_power_watts", Unit: "W", StepSeconds: 300, Series: tracks})
	}))
	return h, asked
}

// track has a point each five minutes of the last hour; below 0: missing.
func track(h *house, gpu string, values ...float64) api.SeriesTrack {
	t := api.SeriesTrack{GPU: gpu}
	for i, v := range values {
		at := float64(h.now.Unix() - 3600 + int64(i)*300)
		p := api.SeriesPoint{&at, &v}
		if v < 0 {
			p[1] = nil
		}
		t.Points = append(t.Points, p)
	}
	return t
}

func TestNodeSeries(t *testing.T) {
	h := newHouse(t)
	rising := track(h, "GPU-1", 100, 200, 300, 400, 500, 600, 700, 800, 800, 800, 800, 800)
	away := track(h, "GPU-\x1b[2J2", 100, 100.5, -1, -1, -1, -1, 800, 800, 800, 800, 800, -1)
	h, asked := seriesHouse(t, rising, away)
	const line = "▁▁▁▁▁▂▂▂▂▂▃▃▃▃▃▄▄▄▄▄▅▅▅▅▅▆▆▆▆▆▇▇▇▇▇██████████"
	out := h.done("node", "series", "gpu 1", "gpu_power_watts", "--since", "1h", "--step", "5m", "--value", "most")
	if want := "/api/v1/admin/nodes/gpu%201/series?metric=gpu_power_watts&since=2026-11-21T09%3A00%3A00Z&step=300&" +
		"until=2026-11-21T10%3A00%3A00Z&value=most"; *asked != want {
		t.Errorf("asked for %s\nwant %s", *asked, want)
	}
	lines := strings.Split(out, "\n")
	if !strings.HasPrefix(lines[0], "GPU ") || !strings.Contains(lines[1], line) || !strings.Contains(lines[1], "800") {
		t.Errorf("got:\n%s", out)
	}
	gap := strings.Repeat("·", 20)
	if strings.Count(lines[2], "·") != 25 || !strings.Contains(lines[2], gap) || strings.Contains(out, "\x1b") {
		t.Errorf("the second GPU is %q, want a gap of a third, and one at the end", lines[2])
	}
	if !strings.Contains(lines[3], "gpu_power_watts in W") || !strings.Contains(lines[3], "▁ is 100, █ is 800, · is a gap") {
		t.Errorf("the last line is %q", lines[3])
	}
	h, _ = seriesHouse(t, track(h, "GPU-1", 30, 30, 30))
	if out = h.done("node", "series", "n", "gpu_power_watts"); !strings.Contains(out, "it was always 30") || strings.Contains(out, "█") {
		t.Errorf("of a constant:\n%s", out)
	}
	h, _ = seriesHouse(t, rising, away)
	h.screen = 60
	for _, narrow := range strings.Split(h.done("node", "series", "n", "gpu_power_watts"), "\n")[:3] {
		if len([]rune(narrow)) > 60 {
			t.Errorf("on a screen of 60 columns: %q", narrow)
		}
	}
	csv := h.done("node", "series", "n", "gpu_power_watts", "-o", "csv")
	for _, want := range []string{"time,gpu,gpu_power_watts\n",
		"2026-11-21T09:00:00Z,GPU-1,100\n", "2026-11-21T09:05:00Z,GPU-\\x1b[2J2,100.5\n",
		"2026-11-21T09:10:00Z,GPU-\\x1b[2J2,\n"} {
		if !strings.Contains(csv, want) {
			t.Errorf("%q is not in the csv:\n%s", want, csv)
		}
	}
	var back api.Series
	text := h.done("node", "series", "n", "gpu_power_watts", "-o", "json")
	if err := json.Unmarshal([]byte(text), &back); err != nil || len(back.Series) != 2 || back.Series[1].Points[2][1] != nil {
		t.Errorf("%v in %s", err, text)
	}
}

func TestNodeSeriesRefusals(t *testing.T) {
	h, asked := seriesHouse(t)
	for args, want := range map[string]string{
		"node series n":                             "of which metric?",
		"node series n load1 --since never":         "duration",
		"node series n load1 --since 1h --until 2h": "ends before it begins",
		"node series n load1 --step 10ms":           "too short",
		"node series n load1 --value median":        "mean, least, most",
		"node series n load1 -o wide":               "table, json, csv",
	} {
		code, _, stderr := h.muster(strings.Fields(args)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", args, code, stderr)
		}
	}
	if *asked != "" {
		t.Errorf("asked the gateway for %s", *asked)
	}
	_, stdout, stderr := h.muster("node", "series", "n", "load1")
	if !strings.Contains(stderr, "muster help history") || !strings.Contains(stdout, "GPU") {
		t.Errorf("nothing was heard, and it says %q, %q", stdout, stderr)
	}
}
