package report_test

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet/report"
	"muster/gateway/internal/view"
	"muster/store"
)

// TestPast: of an agent's cost in an earlier heartbeat the starts alone still count, and of the last one all does.
func TestPast(t *testing.T) {
	at := time.Now()
	const cost = `{"rss_kib":6400,"starts":{"recent":2}}`
	for _, c := range []struct {
		reported *time.Time
		want     string
	}{
		{&at, `{"rss_kib":null,"cpu_ms":null,"probe_ms":null,"starts":{"recent":2,"crashes":null}}`},
		{nil, cost},
	} {
		n := store.Node{ReportedAt: c.reported, Cost: cost}
		if report.Past(&n); n.Cost != c.want || n.Hardware != "" {
			t.Errorf("got %s and %s, want %s", n.Cost, n.Hardware, c.want)
		}
	}
	n := store.Node{ReportedAt: &at, Cost: cost}
	rss := int64(7)
	report.Show(&n, &view.Sample{Cost: &wire.Cost{RSSKiB: &rss}}, nil)
	if n.Cost != `{"rss_kib":7,"cpu_ms":null,"probe_ms":null,"starts":null}` {
		t.Errorf("shown: %s", n.Cost)
	}
}

// TestDigest: each part of a report is a change, and no figure of a reading or of the agent's cost is one.
func TestDigest(t *testing.T) {
	number := int64(7)
	load := 1.5
	count := 1
	first := report.Of(&view.Sample{}, nil)
	seen := map[report.Digest]string{first: "nothing"}
	for what, c := range map[string]struct {
		s    view.Sample
		last *wire.Hardware
	}{
		"interval": {s: view.Sample{Interval: time.Second}},
		"address":  {s: view.Sample{Address: "192.0.2.1"}},
		"agent":    {s: view.Sample{Agent: &wire.AgentInfo{Version: "2"}}},
		"starts":   {s: view.Sample{Cost: &wire.Cost{Starts: &wire.Starts{Crashes: &count}}}},
		"notices":  {s: view.Sample{Notices: []string{"no GPU"}}},
		"reading":  {last: &wire.Hardware{CPUs: &count}},
	} {
		d := report.Of(&c.s, c.last)
		if other, twice := seen[d]; twice {
			t.Errorf("%s is no change beside %s", what, other)
		}
		seen[d] = what
	}
	same := view.Sample{NodeID: "n", At: time.Now(), RunID: "r", Counter: 9, SkewMillis: 3, Cost: &wire.Cost{RSSKiB: &number}}
	if report.Of(&same, nil) != first {
		t.Error("a sign of life and a figure of the cost are a change")
	}
	if report.Of(&same, &wire.Hardware{Load1: &load}) != report.Of(&same, &wire.Hardware{}) {
		t.Error("a figure of the machine is a change")
	}
}
