package region_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/api/machines"
	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// Test24Faults: what each fault looks like to a write, and whether the write was done. A write is sent once.
func Test24Faults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[maassim.Fault]struct {
		kind   region.Kind
		status int
		again  time.Duration
	}{
		maassim.DatabaseConflict: {region.Unclear, 409, 5 * time.Second},
		maassim.RackAway:         {region.Unclear, 503, 10 * time.Second},
		maassim.RegionDown:       {region.Unclear, 502, 0},
		maassim.ErrorBefore:      {region.Unclear, 500, 0},
		maassim.ErrorAfter:       {region.Unclear, 504, 0},
		maassim.LostBefore:       {region.Unclear, 0, 0},
		maassim.LostAfter:        {region.Unclear, 0, 0},
		maassim.HalfAfter:        {region.Unclear, 200, 0},
		maassim.PageInstead:      {region.Unclear, 200, 0},
		maassim.MovedInstead:     {region.NotMAAS, 302, 0},
		maassim.SilentBefore:     {region.Unclear, 0, 0},
		maassim.SilentAfter:      {region.Unclear, 0, 0},
		maassim.NoAddresses:      {region.Unclear, 503, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := bubbleLab(t)
			id := l.held()
			l.Fail("deploy", fault, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := l.client.Deploy(ctx, id, script)
			cancel()
			e := refused(t, err, want.kind, want.status, "")
			if e.Again != want.again || strings.Contains(err.Error(), "secret") {
				t.Errorf("%d: %v, again in %s", fault, err, e.Again)
			}
			if got := l.Count("deploy"); got != map[bool]int{true: 1}[fault.Done() || fault == maassim.NoAddresses] || l.clock.waited != 0 {
				t.Errorf("%d: it was done %d times", fault, got)
			}
			m := l.good(l.client.Machine(t.Context(), id))
			if (m.Status == 9) != fault.Done() || m.Owner != "muster" {
				t.Errorf("%d: afterwards %+v", fault, m)
			}
		})
	}
}

// Test24Reads: a read is sent again while MAAS says that it cannot answer now: three times, and after what it asks to wait.
func Test24Reads(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault  maassim.Fault
		times  int
		kind   region.Kind // empty: it answers in the end
		status int
		waits  time.Duration // at least
	}{
		{maassim.DatabaseConflict, 3, "", 0, 15 * time.Second},
		{maassim.RackAway, 2, "", 0, 20 * time.Second},
		{maassim.RackAway, 4, region.Unclear, 503, 30 * time.Second},
		{maassim.RegionDown, 3, "", 0, 3 * time.Second},
		{maassim.RegionDown, 4, region.Unclear, 502, 3 * time.Second},
		{maassim.ErrorBefore, 1, region.Unclear, 500, 0},
		{maassim.LostBefore, 1, region.Unclear, 0, 0},
		{maassim.HalfAfter, 1, region.Unclear, 200, 0},
		{maassim.PageInstead, 1, region.NotMAAS, 200, 0},
		{maassim.MovedInstead, 1, region.NotMAAS, 302, 0},
	} {
		l := newLab(t, maassim.Config{})
		id := l.ready()
		for op, read := range map[string]func() error{
			"read": func() error { _, err := l.client.Machine(t.Context(), id); return err },
			"list": func() error {
				return l.client.Machines(t.Context(), region.Filter{}, func(region.Machine) error { return nil })
			},
		} {
			l.clock.waited = 0
			l.Fail(op, test.fault, test.times)
			err := read()
			switch {
			case test.kind == "" && err != nil:
				t.Errorf("%s, %+v: %v", op, test, err)
			case test.kind != "":
				refused(t, err, test.kind, test.status, "")
			}
			if l.clock.waited < test.waits || (test.waits == 0) != (l.clock.waited == 0) {
				t.Errorf("%s, %+v: waited %s", op, test, l.clock.waited)
			}
			l.Heal()
		}
	}
}

// TestMoved: a redirect is an error that says where it leads, without what stands in the query.
func TestMoved(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	l.Fail("whoami", maassim.MovedInstead, 1)
	_, err := l.client.WhoAmI(t.Context())
	e := refused(t, err, region.NotMAAS, 302, "")
	if e.Text != "it sends callers to https://login.example/: give the URL of MAAS itself, with /MAAS at its end" {
		t.Error(e.Text)
	}
}

// TestTruth: whatever fails, a client that acts on what it has read alone, and reads again after each error that is unclear, ends with the
// state that it wants, knows the true one, and has done nothing twice.
func TestTruth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 28))
			l := bubbleLab(t)
			id := l.ready()
			for range rnd.IntN(25) {
				op := []string{"allocate", "deploy", "release", "read", "list", "*"}[rnd.IntN(6)]
				faults := maassim.Faults()
				l.Fail(op, faults[rnd.IntN(len(faults))], 1+rnd.IntN(2))
			}
			w := walk{lab: l, id: id, name: "muster-" + time.Duration(seed).String()}
			w.until("deployed", w.deploy)
			w.until("ready", w.release)
			if t.Failed() {
				t.Fatalf("seed %d: %v", seed, l.Counts())
			}
			got, want := l.good(w.read()), func() maassim.Machine { m, _ := l.Machine(id); return m }()
			if got.Status != want.Status || got.Owner != want.Owner || want.Status != 4 {
				t.Fatalf("seed %d: the client knows %+v, it is %+v", seed, got, want)
			}
			for op, times := range map[string]int{"allocate": 1, "release": 1, "deploy": 1 + w.noAddresses} {
				if n := l.Count(op); n != times {
					t.Fatalf("seed %d: %s was done %d times: %v", seed, op, n, l.Counts())
				}
			}
		})
	}
}

// walk leads one machine through its life.
type walk struct {
	*lab
	id, name    string
	noAddresses int // deployments that MAAS took back
}

// until does a step until it says that the state is reached.
func (w *walk) until(what string, step func(ctx context.Context, m region.Machine) (bool, error)) {
	w.t.Helper()
	for range 300 {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		m, err := w.readIn(ctx)
		if err == nil {
			var done bool
			if done, err = step(ctx, m); done {
				cancel()
				return
			}
		}
		cancel()
		var failed *region.Error
		if errors.As(err, &failed) && failed.Kind != region.Unclear && failed.Kind != region.NotMAAS && failed.Kind != region.Unreached {
			w.t.Errorf("%s: %v", what, err)
			return
		}
		w.pass(time.Second)
	}
	w.t.Errorf("it is never %s", what)
}

func (w *walk) read() (region.Machine, error) {
	w.Heal()
	return w.readIn(w.t.Context())
}

func (w *walk) readIn(ctx context.Context) (region.Machine, error) {
	return w.client.Machine(ctx, w.id)
}

// deploy takes the next step to a deployed machine. What nobody has acquired under this name is acquired.
func (w *walk) deploy(ctx context.Context, m region.Machine) (bool, error) {
	var err error
	switch region.StatusOf(m.Status).State {
	case machines.StateReady:
		_, err = w.client.Acquire(ctx, w.id, w.name, "")
	case machines.StateAllocated:
		ours := false
		err = w.client.Machines(ctx, region.Filter{AgentName: w.name}, func(m region.Machine) error { ours = m.ID == w.id; return nil })
		if err == nil && !ours {
			w.t.Error("a machine that we have acquired is not found by its agent name")
		}
		if err == nil {
			_, err = w.client.Deploy(ctx, w.id, script)
			var failed *region.Error
			if errors.As(err, &failed) && strings.Contains(failed.Text, "Unable to allocate static IP") {
				w.noAddresses++
			}
		}
	case machines.StateDeploying:
		w.pass(10 * time.Second)
		_, err = w.Fetch(w.id)
	case machines.StateInstalled:
		return true, nil
	}
	return false, err
}

func (w *walk) release(ctx context.Context, m region.Machine) (bool, error) {
	switch region.StatusOf(m.Status).State {
	case machines.StateInstalled:
		_, err := w.client.Release(ctx, w.id, true, "")
		return false, err
	case machines.StateReady:
		return true, nil
	}
	w.pass(time.Minute)
	return false, nil
}
