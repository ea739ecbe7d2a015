package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/history"
	"muster/gateway/internal/view"
)

// TestCopies: another gateway has the same history, though it numbers nodes and GPUs otherwise and some minutes come twice.
func TestCopies(t *testing.T) {
	one, other := newStore(t, 1<<30), newStore(t, 1<<30)
	first := other.beat("of its own", 3)
	first.Hardware.GPUs[0].UUID = "GPU-2" // so that this node's numbers are others
	other.Take(t.Context(), []view.Sample{first})
	var passed int
	one.Copy = func(_ context.Context, minutes []history.Minute) error {
		passed += len(minutes)
		text, err := json.Marshal(minutes)
		must(t, err)
		for range 2 {
			var got []history.Minute
			must(t, json.Unmarshal(text, &got))
			must(t, other.Put(got))
		}
		return nil
	}
	one.live(3*time.Hour, 2, nil)
	other.now = one.now
	for range 20 {
		other.Turn(t.Context())
	}
	if passed < 170 {
		t.Errorf("%d minutes are passed", passed)
	}
	for _, q := range []api.SeriesQuery{{Metric: "gpu_utilization_percent", Since: noon(), Until: one.now.Add(-time.Minute), Step: 60},
		{Metric: "load1", Since: noon(), Until: noon().Add(2 * time.Hour), Step: 3600}} {
		mine, its := one.series(q), other.series(q)
		if !reflect.DeepEqual(mine, its) || len(mine.Series) == 0 {
			t.Errorf("%s: this one has %s, the other one %s", q.Metric, text(mine.Series[0]), text(its.Series[0]))
		}
	}
}

// TestCopyFails: what another gateway does not take is kept here all the same, and is not tried again.
func TestCopyFails(t *testing.T) {
	d := newStore(t, 1<<30)
	asked := 0
	d.Copy = func(context.Context, []history.Minute) error {
		asked++
		return errors.New("it is away")
	}
	d.live(10*time.Minute, 1, nil)
	q := api.SeriesQuery{Metric: "load1", Since: noon(), Until: d.now.Add(-2 * time.Minute), Step: 60}
	if got := text(d.series(q).Series[0]); !strings.HasPrefix(got, "1.25 1.25") || asked < 8 || asked > 10 {
		t.Errorf("asked %d times; the series is %s", asked, got)
	}
}

// TestCopiesWait: another gateway that takes nothing does not keep this one from its own work, and not for long from its end.
func TestCopiesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fixture{TB: t}
		asked := 0
		d.Store = history.New(history.Config{Path: filepath.Join(t.TempDir(), "h.db"), Bound: 1 << 30,
			Copy: func(ctx context.Context, _ []history.Minute) error {
				asked++
				<-ctx.Done()
				return ctx.Err()
			}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		for range 20 {
			d.now = time.Now()
			d.Take(ctx, []view.Sample{d.beat("n", 1)})
			time.Sleep(30 * time.Second)
		}
		synctest.Wait()
		q := api.SeriesQuery{Metric: "load1", Since: time.Now().Add(-8 * time.Minute), Until: time.Now().Add(-2 * time.Minute), Step: 60}
		if got := text(d.series(q).Series[0]); strings.Contains(got, "-") || asked != 1 {
			t.Errorf("asked %d times; the series is %s", asked, got)
		}
		stop()
		before := time.Now()
		must(t, <-done)
		if took := time.Since(before); took != 5*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}

// TestCopiesAtTheEnd: what still waits at the end goes to the other gateways.
func TestCopiesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fixture{TB: t, now: time.Now()}
		passed := 0
		d.Store = history.New(history.Config{Path: filepath.Join(t.TempDir(), "h.db"), Bound: 1 << 30,
			Copy: func(_ context.Context, minutes []history.Minute) error {
				time.Sleep(time.Second)
				passed += len(minutes)
				return nil
			}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		d.Take(ctx, []view.Sample{d.beat("n", 1)})
		synctest.Wait()
		stop()
		must(t, <-done)
		if passed != 1 || time.Since(d.now) != time.Second {
			t.Errorf("%d minutes are passed after %v", passed, time.Since(d.now))
		}
	})
}

// TestTooManyCopies: if too many minutes wait for other gateways, the oldest are missing there. The log says how many, and not each time.
func TestTooManyCopies(t *testing.T) {
	d := newStore(t, 1<<30)
	var starts []int64
	d.Copy = func(_ context.Context, minutes []history.Minute) error {
		starts = append(starts, minutes[0].Start)
		return errors.New("it is away")
	}
	for range 71 {
		d.Take(t.Context(), []view.Sample{d.beat("n", 1)})
		d.Turn(t.Context())
		d.now = d.now.Add(time.Minute)
	}
	d.GiveCopies(t.Context())
	first := noon().Unix()/60 + 6
	if len(starts) != 64 || starts[0] != first || starts[63] != first+63 {
		t.Errorf("%d are passed: %v", len(starts), starts)
	}
	if said := d.log.String(); strings.Count(said, "some minutes of nodes") != 1 || !strings.Contains(said, "minutes=7 ") {
		t.Errorf("the log says: %s", said)
	}
	d.Take(t.Context(), []view.Sample{d.beat("n", 1)})
	d.now = d.now.Add(time.Minute)
	d.Turn(t.Context())
	d.GiveCopies(t.Context())
	if said := d.log.String(); strings.Count(said, "some minutes of nodes") != 2 || !strings.Contains(said, "minutes=65 ") {
		t.Errorf("a minute later the log says: %s", said)
	}
}

// TestPutRefuses: minutes that cannot be right are not kept, and none that came with them.
func TestPutRefuses(t *testing.T) {
	good := func() history.Minute {
		d := newStore(t, 1<<30)
		var kept history.Minute
		d.Copy = func(_ context.Context, minutes []history.Minute) error { kept = minutes[0]; return nil }
		d.live(2*time.Minute, 2, nil)
		return kept
	}()
	d := storeAt(t, filepath.Join(t.TempDir(), "h.db"), 1<<30)
	for what, change := range map[string]func(*history.Minute){
		"no node":         func(m *history.Minute) { m.Node = "" },
		"no samples":      func(m *history.Minute) { m.Samples = nil },
		"damaged":         func(m *history.Minute) { m.Samples = append([]byte{}, m.Samples[:len(m.Samples)-1]...) },
		"another minute":  func(m *history.Minute) { m.Start++ },
		"an unnamed GPU":  func(m *history.Minute) { m.GPUs = m.GPUs[:1] },
		"too many of GPU": func(m *history.Minute) { m.GPUs = make([]string, 300) },
	} {
		bad := good
		change(&bad)
		if err := d.Put([]history.Minute{good, bad}); err == nil {
			t.Errorf("%s: it is kept", what)
		}
	}
	d.now = d.now.Add(time.Hour)
	d.Turn(t.Context())
	for _, track := range d.series(api.SeriesQuery{Metric: "load1", Since: noon(), Until: d.now, Step: 60}).Series {
		if got := strings.Trim(text(track), "- "); got != "" {
			t.Errorf("something is kept: %s", got)
		}
	}
}

func FuzzPut(f *testing.F) {
	f.Add([]byte(`[{"node":"n","gpus":["GPU-1"],"start":1,"samples":"AAAA"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var minutes []history.Minute
		if json.Unmarshal(text, &minutes) != nil {
			return
		}
		_ = history.New(history.Config{}).Put(minutes)
	})
}
