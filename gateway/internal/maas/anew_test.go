package maas_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/kit/maassim"
)

// TestActsLookAnew: nothing is refused for what was so at the last view alone. While MAAS tells nothing, the view says it.
func TestActsLookAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	w.sim.Change(id, func(m *maassim.Machine) { m.Locked = true })
	w.pass(30 * time.Second)
	deploy := machines.Act{Act: machines.ActDeploy, Machines: []string{id}}
	w.refused(deploy, "it is locked in MAAS")
	w.sim.Change(id, func(m *maassim.Machine) { m.Locked = false })
	w.sim.Fail("read", maassim.ErrorBefore, -1)
	w.refused(deploy, "it is locked in MAAS")
	w.sim.Heal()
	w.act(deploy)
	if w.machine(id).Locked {
		t.Error("it is shown as it was")
	}
}

// TestSync: MAAS that is back is seen at once when somebody asks, and until then it is known when it is looked at again.
func TestSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sim.Fail("*", maassim.RegionDown, -1)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	for w.State().NextAt == nil {
		runtime.Gosched()
	}
	if s := w.State(); s.FailedAt == nil || s.Known || !s.NextAt.After(w.clock.Now()) || s.AskedAt != nil {
		t.Errorf("%+v", s)
	}
	w.sim.Heal()
	w.clock.Forward(time.Second)
	if s := w.Sync(t.Context()); !s.Known || s.FailedAt != nil {
		t.Errorf("%+v", s)
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
	now, over := context.WithCancel(t.Context())
	over()
	w.clock.Forward(time.Hour)
	if s := w.Sync(now); s.Known {
		t.Errorf("nobody looked: %+v", s)
	}
}

// TestFirstViewSilent: while the first view gets no answer, it is known since when it is waited for.
func TestFirstViewSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sim.Fail("*", maassim.SilentBefore, -1)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	for w.State().AskedAt == nil {
		runtime.Gosched()
	}
	if s := w.State(); s.Known || s.NextAt != nil || !s.AskedAt.Equal(w.clock.Now()) {
		t.Errorf("%+v", s)
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestNoImage: what MAAS has no image of is refused once, and the machine is taken back. What is no series is refused before.
func TestNoImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, _ := w.ready()
	act := machines.Act{Act: machines.ActDeploy, Machines: []string{id}, Series: "bad;x y"}
	if _, err := w.Act(t.Context(), act, ann); err == nil || !strings.Contains(err.Error(), "is no series") {
		t.Errorf("got %v", err)
	}
	begun := w.clock.Now()
	act.Series = "ubuntu/warty"
	w.act(act)
	w.pass(2 * time.Minute)
	m := w.is(id, machines.StateReady, wire.StateReady)
	if m.Work != nil || m.Ended == nil || !strings.Contains(m.Ended.Why, "is not a valid distro_series") ||
		w.sim.Count("release") != 1 || m.Ended.At.Sub(begun) > time.Minute {
		t.Errorf("%+v, ended %+v, %v", m.Work, m.Ended, w.sim.Counts())
	}
}
