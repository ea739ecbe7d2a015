package history_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/history"
	"muster/gateway/internal/httpserver/outage"
	"muster/gateway/internal/view"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func noon() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) }

// fixture is a Store with a clock that the test moves.
type fixture struct {
	testing.TB
	*history.Store
	now time.Time
	log lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func newStore(t testing.TB, bound int64) *fixture {
	return storeAt(t, filepath.Join(t.TempDir(), "history.db"), bound)
}

func storeAt(t testing.TB, path string, bound int64) *fixture {
	d := &fixture{TB: t, now: noon()}
	d.Store = history.New(history.Config{Path: path, Bound: bound, Now: func() time.Time { return d.now },
		Logger: slog.New(outage.Quiet(slog.NewTextHandler(&d.log, nil)))})
	t.Cleanup(func() { must(t, d.Store.Close(t.Context())) })
	return d
}

func ref[T any](v T) *T { return &v }

// beat is a heartbeat of now, of a node with some GPUs at work.
func (d *fixture) beat(node string, gpus int) view.Sample {
	at := d.now
	h := &wire.Hardware{
		Probe: wire.Probe{State: wire.ProbeOK, SampledAt: &at}, MemoryUsedMiB: ref[int64](21_500), DiskUsedMiB: ref[int64](120_000),
		Load1: ref(1.25),
	}
	for i := range gpus {
		h.GPUs = append(h.GPUs, wire.GPU{Index: i, UUID: fmt.Sprintf("GPU-%d", i), MemoryUsedMiB: ref[int64](39_233),
			UtilizationPercent: ref(float64(50 + i)), TemperatureCelsius: ref(64.0), PowerWatts: ref(612.5),
			Clocks: &wire.Clocks{SMMHz: ref[int64](1980)}})
	}
	return view.Sample{NodeID: node, At: at, RunID: "0123456789abcdef", Interval: 30 * time.Second, Hardware: h,
		Cost: &wire.Cost{RSSKiB: ref[int64](6400), ProbeMillis: ref[int64](41)}}
}

// live takes a heartbeat every 30 seconds for a while, and does the turns between. change may be nil.
func (d *fixture) live(span time.Duration, gpus int, change func(*view.Sample)) {
	d.Helper()
	for end := d.now.Add(span); d.now.Before(end); d.now = d.now.Add(30 * time.Second) {
		s := d.beat("n", gpus)
		if change != nil {
			change(&s)
		}
		d.Take(d.Context(), []view.Sample{s})
		d.Turn(d.Context())
		d.GiveCopies(d.Context())
	}
}

func (d *fixture) series(q api.SeriesQuery) api.Series {
	d.Helper()
	return d.seriesOf("n", q)
}

func (d *fixture) seriesOf(node string, q api.SeriesQuery) api.Series {
	d.Helper()
	s, err := d.Series(d.Context(), node, q)
	must(d, err)
	return s
}

// text writes a track's values, - for what is missing.
func text(t api.SeriesTrack) string {
	out := ""
	for i, p := range t.Points {
		if i > 0 {
			out += " "
		}
		if p[1] == nil {
			out += "-"
		} else {
			out += fmt.Sprint(*p[1])
		}
	}
	return out
}
