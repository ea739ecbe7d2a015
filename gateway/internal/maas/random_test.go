package maas_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/kit/maassim"
)

// TestRandom has chance fail MAAS, machines, gateways and people, also while works go on beside each other. Nothing that works, is held or
// is another's is touched, nothing is deployed twice, and when all is well again every work ends and the two sides agree.
func TestRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newChaos(t, seed).run(150)
		})
	}
}

// chaos is a world in which chance rules.
type chaos struct {
	*world
	r       *rand.Rand
	ids     []string
	deploys int             // that were begun
	empty   int             // that may have found no free address: they count as done, and are asked for again
	held    map[string]bool // nodes
	cut     func()          // ends the gateway; nil: it is not about to end
	cutIn   int             // operations until it does
}

func newChaos(t *testing.T, seed uint64) *chaos {
	c := &chaos{world: newWorld(t), r: rand.New(rand.NewPCG(seed, 7)), held: map[string]bool{}}
	c.sim = maassim.New(maassim.Config{Now: c.clock.Now, OnBoot: c.boot, Between: c.between})
	c.server.Config.Handler = c.sim
	c.restart()
	for range 4 {
		c.ids = append(c.ids, c.sim.Add(maassim.Machine{Status: 4, Passed: c.r.IntN(4) > 0}))
	}
	c.pass(30 * time.Second)
	for _, id := range c.ids {
		c.profile(c.machine(id).NodeID, api.ProfileBareMetal)
	}
	c.pass(2 * time.Minute)
	return c
}

// between watches, and perhaps ends the gateway while MAAS works.
func (c *chaos) between(op, id string) {
	c.watch(op, id)
	m, _ := c.sim.Machine(id)
	if m.AgentName == "other" && (op == "release" || op == "abort" || op == "deploy") {
		c.mu.Lock()
		c.wrong = append(c.wrong, op+" of what something else has acquired")
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cutIn--; c.cut != nil && c.cutIn == 0 {
		c.cut()
	}
}

func (c *chaos) run(rounds int) {
	for range rounds {
		for range c.r.IntN(3) {
			c.happen(c.ids[c.r.IntN(len(c.ids))])
		}
		c.clock.Forward(time.Duration(c.r.IntN(240)) * time.Second)
		c.sim.Tick()
		c.beat()
		ctx, cancel := context.WithCancel(c.t.Context())
		if c.r.IntN(4) == 0 {
			c.cutAfter(cancel, 1+c.r.IntN(20))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.Round(ctx)
		}()
		for range c.r.IntN(3) { // meanwhile
			c.happen(c.ids[c.r.IntN(len(c.ids))])
		}
		<-done
		if c.cutAfter(nil, 0); ctx.Err() != nil {
			c.restart()
		}
		cancel()
		c.harmless()
	}
	c.settle()
}

// cutAfter has the gateway end after so many operations.
func (c *chaos) cutAfter(cut func(), operations int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.cutIn = cut, operations
}

// happen lets one thing happen to a machine.
func (c *chaos) happen(id string) {
	m := c.machine(id)
	ops := []string{"list", "read", "allocate", "deploy", "release", "abort", "commission", "update_nodes", "*"}
	switch c.r.IntN(18) {
	case 0, 1, 2, 14, 15:
		c.ask(machines.ActDeploy, id, m.NodeState == wire.StateDrained)
	case 16, 17:
		c.fail([]string{"allocate", "deploy", "release", "abort"}[c.r.IntN(4)], []maassim.Fault{maassim.ErrorAfter, maassim.LostAfter,
			maassim.NoAddresses, maassim.HalfAfter}[c.r.IntN(4)], 1)
	case 3:
		c.ask([]string{machines.ActRelease, machines.ActReset, machines.ActCommission, machines.ActRelease}[c.r.IntN(4)], id, false)
	case 4, 5:
		faults := slices.DeleteFunc(maassim.Faults(), func(f maassim.Fault) bool { return f == maassim.SilentBefore || f == maassim.SilentAfter })
		c.fail(ops[c.r.IntN(len(ops))], faults[c.r.IntN(len(faults))], 1+c.r.IntN(3))
	case 6:
		c.sim.Heal()
	case 7:
		c.sim.Change(id, func(m *maassim.Machine) {
			m.Hangs, m.BMCAway, m.Fails = c.r.IntN(3) == 0, c.r.IntN(3) == 0, c.r.IntN(3) == 0
		})
	case 8:
		c.silence(id, c.r.IntN(2) == 0)
	case 9, 10:
		verb := fleet.Drain
		if m.NodeState == wire.StateDrained {
			verb = fleet.Resume
		}
		if m.Node != "" {
			_, _ = c.fleet.Apply(c.t.Context(), "", m.Node, verb, ann) // what it is by now may not allow it
		}
	case 11: // placement claims what works, and frees it
		if c.held[m.NodeID] {
			c.sql("UPDATE holds SET freed_at = 1 WHERE node_id = ?", m.NodeID)
			delete(c.held, m.NodeID)
		} else if m.NodeState == wire.StateActive {
			c.sql("INSERT INTO holds(allocation, node_id, unit, uuid, slot_id, tenant, state) VALUES (?, ?, 'u', '', 's', 't', 'held')",
				fmt.Sprint(c.clock.Now().UnixNano()), m.NodeID)
			c.held[m.NodeID] = true
		}
	case 12: // another gateway, with the same key
		if now, _ := c.sim.Machine(id); now.Status == 4 {
			c.sim.Change(id, func(m *maassim.Machine) { m.Status, m.Owner, m.AgentName = 10, "muster", "other" })
		}
	case 13: // it gives it back
		if now, _ := c.sim.Machine(id); now.AgentName == "other" {
			c.sim.Change(id, func(m *maassim.Machine) { m.Status, m.Owner, m.AgentName = 4, "", "" })
		}
	}
}

func (c *chaos) fail(op string, f maassim.Fault, times int) {
	if f == maassim.NoAddresses {
		c.empty += times
	}
	c.sim.Fail(op, f, times)
}

func (c *chaos) ask(act, id string, reimage bool) {
	got, err := c.Act(c.t.Context(), machines.Act{Act: act, Machines: []string{id}, Reimage: reimage}, ann)
	if err == nil && act == machines.ActDeploy {
		c.deploys += len(got.Machines)
	}
}

// settle lets all be well again. It ends when nothing was done for longer than any deadline.
func (c *chaos) settle() {
	c.t.Helper()
	c.sim.Heal()
	c.restart()
	for _, id := range c.ids {
		c.sim.Change(id, func(m *maassim.Machine) {
			m.Hangs, m.BMCAway, m.Fails = false, false, false
			if m.Status == 14 { // a person aborts an erasure that may hang: MAAS has no limit for it
				m.Status = 15
			}
		})
	}
	for step, quiet := 0, 0; step < 150 && quiet < 40; step, quiet = step+1, quiet+1 {
		c.clock.Forward(90 * time.Second)
		c.pass(30 * time.Second)
		for id, m := range c.all() {
			if m.Finding == "release_failed" {
				c.ask(machines.ActReset, id, false)
			}
			if m.Finding == "release_failed" || m.Work != nil {
				quiet = 0
			}
		}
	}
	c.harmless()
	if done := c.sim.Count("deploy"); done > c.deploys+c.empty {
		c.t.Errorf("%d deployments for %d works", done, c.deploys)
	}
	if done := c.sim.Count("allocate"); done > c.deploys {
		c.t.Errorf("%d acquisitions for %d works", done, c.deploys)
	}
	for _, id := range c.ids {
		m := c.machine(id)
		now, _ := c.sim.Machine(id)
		works := slices.Contains([]string{wire.StateActive, wire.StateDrained}, m.NodeState)
		switch {
		case m.Work != nil:
			c.t.Errorf("a work does not end: %+v of %+v", m.Work, m)
		case m.NodeState == wire.StateDeploying || m.NodeState == wire.StateEnrolled:
			c.t.Errorf("its node is %s for ever: %+v", m.NodeState, m)
		case works != (m.State == machines.StateDeployed):
			c.t.Errorf("its node is %s, and it is %s: %+v", m.NodeState, m.State, m)
		case m.NodeState == wire.StateReady && (m.State != machines.StateReady || now.Status != 4):
			c.t.Errorf("its node is ready, and it is %s", m.State)
		case m.State == machines.StateReady && m.NodeState != wire.StateReady:
			c.t.Errorf("it is ready, and its node is %s: %+v", m.NodeState, m)
		case now.Owner == "muster" && strings.HasPrefix(now.AgentName, "muster-") && !works && m.Finding == "":
			c.t.Errorf("it is ours, does nothing, and nobody says so: %+v", m)
		}
	}
}
