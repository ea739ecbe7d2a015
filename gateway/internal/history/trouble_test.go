package history_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/history"
	"muster/gateway/internal/view"
	store "muster/store/history"
)

// TestNoPlace: a file that cannot be opened is said once. Samples wait, the oldest are dropped, and all goes on when the place is there.
func TestNoPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	d := storeAt(t, filepath.Join(dir, "history.db"), gib)
	for range 20 {
		d.flood(100, 100)
	}
	waiting, dropped := d.Waiting()
	if waiting > 65_536 || dropped != 200_000-waiting {
		t.Errorf("%d samples wait, %d are dropped", waiting, dropped)
	}
	if said := strings.Count(d.log.String(), "does not open"); said != 1 {
		t.Errorf("said %d times that there is no file:\n%s", said, d.log.String())
	}
	must(t, os.Mkdir(dir, 0o700))
	d.Turn(t.Context())
	if waiting, _ := d.Waiting(); waiting > 10_000 {
		t.Errorf("%d samples wait although there is a file", waiting)
	}
}

// flood takes heartbeats of so many nodes, each more than once within a minute, and does a turn.
func (d *fixture) flood(nodes, times int) {
	for range times {
		samples := make([]view.Sample, 0, nodes)
		for i := range nodes {
			samples = append(samples, d.beat(string(rune('a'+i)), 0))
		}
		d.Take(d.Context(), samples)
		d.now = d.now.Add(time.Second)
	}
	d.Turn(d.Context())
}

// TestFullDisk: a full disk is said once, drops nothing at first, and costs the gateway nothing; all is written when there is room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs root: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	d := storeAt(t, filepath.Join(dir, "history.db"), gib)
	d.live(5*time.Minute, 8, nil)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	d.live(30*time.Minute, 8, nil)
	if said := strings.Count(d.log.String(), "takes no writes"); said != 1 {
		t.Errorf("said %d times that the disk is full:\n%s", said, d.log.String())
	}
	must(t, os.Remove(ballast))
	d.live(10*time.Minute, 8, nil)
	s := d.series(api.SeriesQuery{Metric: "heard", Since: noon(), Until: d.now, Step: 60})
	if got := text(s.Series[0]); strings.Contains(got, "-") || len(s.Series[0].Points) != 45 {
		t.Errorf("after a full disk: %s", got)
	}
	if !strings.Contains(d.log.String(), "takes writes again") {
		t.Errorf("the log does not say that it is over:\n%s", d.log.String())
	}
}

// TestDamagedWhileOpen: the file is put aside, a new one is begun, and the log says so once.
func TestDamagedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	d := storeAt(t, path, gib)
	d.live(10*time.Minute, 8, nil)
	must(t, d.Store.Close(t.Context())) // all is in the file now, and nothing in the -wal
	d.Turn(t.Context())
	raw, err := os.ReadFile(path)
	must(t, err)
	for i := 4096; i < len(raw); i++ {
		raw[i] = 0xee
	}
	must(t, os.WriteFile(path, raw, 0o600))
	if _, err := d.Series(t.Context(), "n", api.SeriesQuery{Metric: "load1"}); err == nil {
		t.Fatal("a damaged file was read")
	}
	d.live(10*time.Minute, 8, nil)
	s := d.series(api.SeriesQuery{Metric: "gpu_power_watts", Since: d.now.Add(-5 * time.Minute), Step: 60})
	if got := text(s.Series[0]); strings.Contains(got, "-") || len(s.Series) != 8 {
		t.Errorf("the new file has %d tracks: %s", len(s.Series), got)
	}
	if said := strings.Count(d.log.String(), "put aside"); said != 1 {
		t.Errorf("said %d times that the file is damaged:\n%s", said, d.log.String())
	}
	if _, err := os.Stat(path + ".damaged"); err != nil {
		t.Error(err)
	}
}

// TestBound: the file stays below its bound, the oldest samples go first, and a lower bound makes it smaller.
func TestBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.db")
	const bound = 2 << 20
	d := storeAt(t, path, bound)
	round := func() {
		var samples []view.Sample
		for i := range 20 {
			samples = append(samples, d.beat(string(rune('a'+i)), 8))
		}
		d.Take(t.Context(), samples)
		d.now = d.now.Add(30 * time.Second)
		d.Turn(t.Context())
	}
	size := func() int64 {
		info, err := os.Stat(path)
		must(t, err)
		return info.Size()
	}
	for d.now.Before(noon().Add(8 * time.Hour)) {
		round()
		if n := size(); n > bound {
			t.Fatalf("the file has %d bytes at %s", n, d.now)
		}
	}
	raw, err := d.File().Oldest(t.Context(), store.Raw)
	must(t, err)
	if kept := d.now.Sub(raw); kept < 110*time.Minute || kept > 7*time.Hour {
		t.Errorf("samples of %s are left", kept)
	}
	if minutes, err := d.File().Oldest(t.Context(), store.Minutes); err != nil || !minutes.Equal(noon()) {
		t.Errorf("the minutes begin at %s, %v", minutes, err)
	}
	d.Bound = bound / 2
	for range 60 {
		round()
	}
	must(t, d.Store.Close(t.Context())) // the -wal goes into the file
	if n := size(); n > bound/2 {
		t.Errorf("the file has %d bytes with a bound of %d", n, bound/2)
	}
}

// steadies lets a day pass in which nobody sets the clock.
func (d *fixture) steadies() {
	for range 24 * 6 {
		d.Turn(d.Context())
		d.now = d.now.Add(10 * time.Minute)
	}
	d.Turn(d.Context())
}

// TestAge: what is older than it is kept goes, tier by tier, with the names of nodes that have nothing left.
func TestAge(t *testing.T) {
	d := newStore(t, gib)
	d.steadies()
	now := d.now
	d.live(2*time.Minute, 1, nil)
	names, err := d.File().Name(t.Context(), "old", []string{"GPU-old"}, now.Add(-500*24*time.Hour))
	must(t, err)
	w := newWorkload(1, 1)
	today := now.Truncate(24 * time.Hour)
	for _, before := range []time.Duration{13 * time.Hour, 11 * time.Hour, (8*24 + 2) * time.Hour, (8*24 - 2) * time.Hour,
		401 * 24 * time.Hour, 399 * 24 * time.Hour} {
		fill(t, d.File(), w, 1, today.Add(12*time.Hour-before), time.Hour)
	}
	for range 3 {
		d.now = d.now.Add(time.Minute)
		d.Turn(t.Context())
	}
	for tier, want := range map[store.Tier]time.Time{store.Raw: now.Add(-11 * time.Hour), store.Minutes: now.Add(-(8*24 - 2) * time.Hour),
		store.Hours: today.Add(-399 * 24 * time.Hour)} {
		if oldest, err := d.File().Oldest(t.Context(), tier); err != nil || !oldest.Equal(want) {
			t.Errorf("tier %d begins at %s, %v: want %s", tier, oldest, err, want)
		}
	}
	if left, err := d.File().Named(t.Context(), "old"); err != nil || left.Node == names.Node {
		t.Errorf("a node without rows is still named: %+v, %v", left, err)
	}
	if left, err := d.File().Named(t.Context(), "n"); err != nil || left.Node == 0 {
		t.Errorf("a node with rows is forgotten: %v", err)
	}
}

// restart ends the store, and begins another one with its file.
func (d *fixture) restart(away time.Duration) {
	must(d, d.Store.Close(d.Context()))
	d.now = d.now.Add(away)
	d.Store = history.New(d.Store.Config)
	d.Turn(d.Context())
}

// TestAgeOverRestarts: the time for which the clock was steady goes on over restarts, and not where the clock may have been set
// meanwhile.
func TestAgeOverRestarts(t *testing.T) {
	for name, test := range map[string]struct {
		away []time.Duration // after each 13 hours of work
		goes bool
	}{
		"no restart":           {[]time.Duration{}, false},
		"restarts":             {[]time.Duration{5 * time.Minute, 59 * time.Minute}, true},
		"away for long":        {[]time.Duration{5 * time.Minute, 2 * time.Hour}, false},
		"set ahead meanwhile":  {[]time.Duration{5 * time.Minute, 3 * 365 * 24 * time.Hour}, false},
		"set back meanwhile":   {[]time.Duration{5 * time.Minute, -time.Hour}, false},
		"ahead, and right now": {[]time.Duration{3 * 365 * 24 * time.Hour, -3 * 365 * 24 * time.Hour}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newStore(t, gib)
			d.Turn(t.Context())
			for _, away := range append(test.away, 0) {
				for range 13 * 6 {
					d.now = d.now.Add(10 * time.Minute)
					d.Turn(t.Context())
				}
				d.restart(away)
			}
			old := d.now.Truncate(time.Hour).Add(-30 * time.Hour)
			fill(t, d.File(), newWorkload(1, 1), 1, old, time.Hour)
			d.now = d.now.Add(time.Minute)
			d.Turn(t.Context())
			oldest, err := d.File().Oldest(t.Context(), store.Raw)
			must(t, err)
			if gone := !oldest.Equal(old); gone != test.goes {
				t.Errorf("the samples begin at %s, old ones at %s", oldest, old)
			}
		})
	}
}

// TestClockAhead: a clock that is years ahead for hours costs no samples and no names.
func TestClockAhead(t *testing.T) {
	d := newStore(t, gib)
	d.steadies()
	d.live(3*time.Minute, 1, nil)
	right := d.now
	before, err := d.File().Named(t.Context(), "n")
	must(t, err)
	d.now = right.Add(3 * 365 * 24 * time.Hour)
	d.live(time.Hour, 1, nil)
	d.now = right.Add(time.Hour)
	d.live(3*time.Minute, 1, nil)
	after, err := d.File().Named(t.Context(), "n")
	must(t, err)
	oldest, err := d.File().Oldest(t.Context(), store.Raw)
	must(t, err)
	if after.Node != before.Node || !oldest.Before(right) {
		t.Errorf("number %d was %d, the samples begin at %s", after.Node, before.Node, oldest)
	}
}

// TestNamesComeAgain: a node whose name was forgotten gets another one without a restart, and one that is heard is not forgotten.
func TestNamesComeAgain(t *testing.T) {
	d := newStore(t, gib)
	d.live(2*time.Minute, 1, nil)
	d.now = d.now.Add(24 * time.Hour)
	d.live(2*time.Minute, 1, nil)
	must(t, d.File().Forget(t.Context(), d.now))
	if named, err := d.File().Named(t.Context(), "n"); err != nil || named.Node == 0 {
		t.Errorf("a node that is heard every day is forgotten: %+v, %v", named, err)
	}
	must(t, d.File().Forget(t.Context(), d.now.Add(48*time.Hour)))
	d.now = d.now.Add(24 * time.Hour)
	d.live(2*time.Minute, 1, nil)
	if named, err := d.File().Named(t.Context(), "n"); err != nil || named.Node == 0 || named.GPUs["GPU-0"] == 0 {
		t.Errorf("a day later: %+v, %v", named, err)
	}
}

// TestSteady: a clock that goes on as time does is steady. One that leapt or went back was set, and so was one that was long away.
func TestSteady(t *testing.T) {
	const before = 3 * time.Hour
	for step, want := range map[time.Duration]time.Duration{0: time.Minute, time.Second: time.Minute, -time.Second: time.Minute,
		time.Hour: -before, -time.Hour: -before, time.Minute: -before} {
		if got := history.Steady(before, noon(), noon().Add(time.Minute+step), time.Minute); got != before+want {
			t.Errorf("a step of %s: steady for %s", step, got)
		}
	}
	for passed, want := range map[time.Duration]time.Duration{10 * time.Minute: before + 10*time.Minute, 11 * time.Minute: 0, -time.Second: 0} {
		if got := history.Steady(before, noon(), noon().Add(passed), passed); got != want {
			t.Errorf("after %s: steady for %s", passed, got)
		}
	}
}
