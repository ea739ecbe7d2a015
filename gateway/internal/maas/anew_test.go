package maas_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas"
)

// TestActsLookAnew: nothing is begun or refused for what was so at the last view alone. While MAAS tells nothing, the view says it.
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
	w.pass(10 * time.Minute)
	w.move(w.machine(id).Node, fleet.Drain)
	w.sim.Change(id, func(m *maassim.Machine) { m.Locked = true })
	for _, dry := range []bool{true, false} {
		w.refused(machines.Act{Act: machines.ActRelease, Machines: []string{id}, DryRun: dry}, "it is locked in MAAS")
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
	if s := w.Sync(t.Context()); !s.Known || s.FailedAt != nil || s.AskedAt != nil {
		t.Errorf("%+v", s)
	}
	asked, answers := make(chan bool, 1), make(chan bool)
	w.watching(func(op string) {
		if op == "list" {
			asked <- true
			<-answers
		}
	})
	w.clock.Forward(time.Second)
	leaves, leave := context.WithCancel(t.Context())
	said := make(chan machines.State)
	go func() { said <- w.Sync(leaves) }()
	<-asked
	leave()
	if s := <-said; !s.Known || s.AskedAt == nil {
		t.Errorf("while it goes on: %+v", s)
	}
	w.watching(nil)
	answers <- true
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
	w.Region = nil // MAAS is off
	begun := time.Now()
	if w.Sync(t.Context()); time.Since(begun) > 15*time.Second {
		t.Error("it waits for a view that nobody takes")
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

// TestNoImage: what MAAS has no image of is refused, and what is no series. If MAAS does not tell its images, MAAS itself refuses: once,
// and the machine is taken back.
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
	var refused *wire.ErrorDetail
	if _, err := w.Act(t.Context(), act, ann); !errors.As(err, &refused) || refused.Code != wire.CodeNotFound ||
		refused.Message != "MAAS has no image of ubuntu/warty" || !strings.HasPrefix(refused.Hint, "it has ubuntu/jammy, ubuntu/noble;") {
		t.Errorf("got %v", err)
	}
	w.is(id, machines.StateReady, wire.StateReady)
	w.sim.Fail("images", maassim.ErrorBefore, -1)
	w.act(act)
	w.pass(2 * time.Minute)
	m := w.is(id, machines.StateReady, wire.StateReady)
	if m.Work != nil || m.Ended == nil || !strings.Contains(m.Ended.Why, "is not a valid distro_series") ||
		w.sim.Count("release") != 1 || m.Ended.At.Sub(begun) > time.Minute {
		t.Errorf("%+v, ended %+v, %v", m.Work, m.Ended, w.sim.Counts())
	}
}

// TestNoImageToServe: an allocation gets no machine while MAAS has no image of what the settings name. It is told so, and gets one when the
// image is there.
func TestNoImageToServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, node := w.ready()
	w.Series = "custom/h200-570"
	q := maas.Wanted{Allocation: "al", Tenant: "platform", Count: 1, Fits: func(machines.Machine) bool { return true }}
	const says = "MAAS has no image of custom/h200-570 (it has ubuntu/jammy, ubuntu/noble;"
	if could, err := w.Could(t.Context(), q); could || err == nil || !strings.HasPrefix(err.Error(), says) {
		t.Errorf("it could: %t, %v", could, err)
	}
	if got := w.served(1, false); len(got) > 0 || w.machine(id).Work != nil || !strings.HasPrefix(w.Later(t.Context(), q), "an image: "+says) {
		t.Errorf("it has %v, and waits for %s", got, w.Later(t.Context(), q))
	}
	w.sim.SetImages("ubuntu/noble", "custom/h200-570")
	if could, err := w.Could(t.Context(), q); !could || err != nil {
		t.Errorf("with the image it could: %t, %v", could, err)
	}
	if got := w.served(1, false); len(got) != 1 || got[0] != node {
		t.Errorf("with the image it has %v", got)
	}
	w.pass(10 * time.Minute)
	if m := w.is(id, machines.StateDeployed, wire.StateActive); m.Series != "h200-570" {
		t.Errorf("it is %+v", m)
	}
}
