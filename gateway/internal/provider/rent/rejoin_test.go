package rent

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/kit/cloudsim"
	lambdasim "muster/gateway/internal/kit/cloudsim/lambda"
	runpodsim "muster/gateway/internal/kit/cloudsim/runpod"
	vastsim "muster/gateway/internal/kit/cloudsim/vast"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
	"muster/gateway/internal/provider/cloud/lambda"
	"muster/gateway/internal/provider/cloud/runpod"
	"muster/gateway/internal/provider/cloud/vast"
	"muster/gateway/internal/provider/market"
	"muster/store"
	rentals "muster/store/provider"
)

// shop is a world whose company is a simulator of a real one, with one machine that runs there and whose node is silent.
type shop struct {
	*world
	sim  *cloudsim.Sim
	id   string   // of the machine
	ran  []string // tokens in the scripts that machines ran at their starts
	dead bool     // its script does nothing
}

var inScript = regexp.MustCompile(`MUSTER_TOKEN=(mse_\d+)_secret`)

func newShop(t testing.TB, kind string) *shop {
	t.Helper()
	s := &shop{}
	var made string
	s.world = newWorldOf(t, kind, func(w *world) market.Cloud {
		c, id := s.open(t, w, kind)
		made = id
		return c
	})
	s.id = made
	s.nodes["n"] = &api.NodeRow{ID: "n", Name: "gpu-1", Tenant: "platform", Provider: kind, InstanceID: s.id, State: wire.StateUnavailable,
		Status: wire.StatusStale, LastSeen: new(start.Add(-time.Hour))}
	s.pass(tick)
	return s
}

// open opens a simulator with a machine.
func (s *shop) open(t testing.TB, w *world, kind string) (c market.Cloud, id string) {
	config := cloudsim.Config{Now: w.clock, Keys: map[string][]string{"key-of-the-company": nil},
		OnStart: func(m cloudsim.Machine) { s.start(w, m) }}
	var handler http.Handler
	var err error
	open := func(account call.Account) (market.Cloud, error) { return vast.New(account) }
	order := cloud.Order{Name: "training", Script: "#!/bin/sh\n", DiskGB: 10, SSHKey: "key", Image: "ubuntu"}
	path := ""
	switch kind {
	case cloud.Vast:
		sim := vastsim.New(config, vastsim.Host{ID: 1, GPU: "H100 SXM", GPUs: 1, MiB: 81559, Price: 2_000_000, Disk: 100, Place: "NO"})
		handler, s.sim, order.Offer = sim, sim.Sim, cloud.Offer{ID: "500001"}
	case cloud.RunPod:
		sim := runpodsim.New(config, runpodsim.GPU{ID: "NVIDIA H100", Name: "H100", Memory: 80, Secure: 2, Most: 8,
			Free: map[string]int{"NO": 8}})
		handler, s.sim, order.Offer, path = sim, sim.Sim, cloud.Offer{ID: "secure//1/NVIDIA+H100"}, "/v2"
		open = func(account call.Account) (market.Cloud, error) { return runpod.New(account) }
	default:
		sim := lambdasim.New(config, lambdasim.Type{Name: "gpu_1x_h100", GPU: "H100 (80 GB)", GPUs: 1, Cents: 200,
			Free: map[string]int{"no-1": 1}})
		handler, s.sim, order.Offer, path = sim, sim.Sim, cloud.Offer{ID: "gpu_1x_h100/no-1"}, "/api/v1"
		open = func(account call.Account) (market.Cloud, error) { return lambda.New(account) }
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err = open(call.Account{URL: server.URL + path, Key: "key-of-the-company", Now: w.clock,
		Sleep: func(_ context.Context, d time.Duration) error { w.step(d); return nil }})
	if err == nil {
		id, err = c.Create(t.Context(), order)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c, id
}

// start has a machine do what its script says: one with a token that is good joins.
func (s *shop) start(w *world, m cloudsim.Machine) {
	token := inScript.FindStringSubmatch(m.Script + m.Env["MUSTER_START"])
	if token == nil {
		return
	}
	now := w.clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	s.ran = append(s.ran, token[1])
	q, minted := w.minted[token[1]]
	if !minted || w.revoked[token[1]] || s.dead {
		return
	}
	w.nodes["n"] = &api.NodeRow{ID: "n", Name: q.Name, Tenant: q.Tenant, Provider: cloud.Vast, InstanceID: m.ID, State: wire.StateActive,
		Status: wire.StatusOnline, LastSeen: new(now.Add(time.Minute))}
	if m.Env["RUNPOD_POD_ID"] != "" {
		w.nodes["n"].Provider = cloud.RunPod
	}
}

func (s *shop) rejoin() error { return s.Act(s.t.Context(), "acme", s.id, providers.ActRejoin, ada) }

// last is how far the machine is.
func (s *shop) last() rentals.Rejoin {
	s.t.Helper()
	all, err := s.records.Rejoins(s.t.Context(), "acme", s.id)
	s.must(err)
	if len(all) == 0 {
		return rentals.Rejoin{}
	}
	return all[0]
}

// TestRejoin: a machine starts again with a script whose token is of one use, is its node's alone and was made for this, and is looked at
// until it is heard. Whatever the company answers, what has come of it is on record, and can be asked for again.
func TestRejoin(t *testing.T) {
	t.Parallel()
	half := func(on string) cloudsim.Fault { return cloudsim.Fault{On: on, Kind: cloudsim.Half, Times: 1} }
	lost := func(on string) cloudsim.Fault { return cloudsim.Fault{On: on, Kind: cloudsim.Lost, Times: 1} }
	none := func(on string) cloudsim.Fault { return cloudsim.Fault{On: on, Kind: cloudsim.Nothing, Times: 1} }
	says := func(on string, status int) cloudsim.Fault {
		return cloudsim.Fault{On: on, Kind: cloudsim.Status, Status: status, Times: 1, Text: `{"success":false,"msg":"no"}`}
	}
	for _, c := range []struct {
		what, kind string
		fault      *cloudsim.Fault
		refused    string // code
		why        string // while it is asked
		end, says  string // in the end
	}{
		{what: "well", kind: cloud.Vast, end: providers.RejoinJoined},
		{what: "well", kind: cloud.RunPod, end: providers.RejoinJoined},
		{what: "done, and the answer is lost", kind: cloud.Vast, fault: new(lost(vastsim.Update)), why: "is not clear",
			end: providers.RejoinJoined},
		{what: "a success that is none", kind: cloud.Vast, fault: new(none(vastsim.Update)), end: providers.RejoinFailed,
			says: "was not heard within 30m"},
		{what: "a refused key", kind: cloud.Vast, fault: new(says(vastsim.Update, 401)), refused: wire.CodeProviderFailed,
			end: providers.RejoinFailed, says: "the company refuses it"},
		{what: "asked too often", kind: cloud.Vast, fault: &cloudsim.Fault{On: vastsim.Update, Kind: cloudsim.Status, Status: 429,
			Times: rejoinTries - 1}, end: providers.RejoinJoined},
		{what: "asked too often again and again", kind: cloud.Vast, fault: &cloudsim.Fault{On: vastsim.Update, Kind: cloudsim.Status,
			Status: 429, Times: rejoinTries}, refused: wire.CodeUnavailable, end: providers.RejoinFailed, says: "the company refuses it"},
		{what: "asked too often on the way", kind: cloud.RunPod, fault: &cloudsim.Fault{On: runpodsim.Act, Kind: cloudsim.Status,
			Status: 429, Times: rejoinTries - 1}, end: providers.RejoinJoined},
		{what: "an error before anything", kind: cloud.Vast, fault: new(says(vastsim.Update, 500)), why: "is not clear",
			end: providers.RejoinFailed, says: "is not clear"},
		{what: "a change that is done, and 500", kind: cloud.RunPod, fault: new(half(runpodsim.Change)), end: providers.RejoinJoined},
		{what: "a change whose answer is lost", kind: cloud.RunPod, fault: new(lost(runpodsim.Change)), end: providers.RejoinJoined},
		{what: "a restart that is done, and 500", kind: cloud.RunPod, fault: new(half(runpodsim.Act)), why: "is not clear",
			end: providers.RejoinJoined},
		{what: "a change that is none", kind: cloud.RunPod, fault: new(none(runpodsim.Change)), end: providers.RejoinFailed,
			says: "was not heard"},
		{what: "a restart that is none", kind: cloud.RunPod, fault: new(none(runpodsim.Act)), end: providers.RejoinFailed, says: "was not heard"},
	} {
		t.Run(c.kind+", "+c.what, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, c.kind)
			if c.fault != nil {
				s.sim.Add(*c.fault)
			}
			if err := s.rejoin(); c.refused != "" {
				s.refused("it", c.refused, err)
			} else {
				s.must(err)
				x := s.last()
				if x.State != providers.RejoinAsked || !strings.Contains(x.Why, c.why) || (x.Why == "") != (c.why == "") || x.NodeID != "n" ||
					x.AskedBy != ada.Name {
					t.Errorf("it is asked so: %+v", x)
				}
			}
			q := s.minted["mse_1"]
			if q.Uses != 1 || !q.BindInstance || q.Name != "gpu-1" || q.Tenant != "platform" || q.TTL != api.Duration(tokenTTL) || q.GPUs != 1 ||
				q.Node != "n" {
				t.Errorf("its token is %+v", q)
			}
			s.pass(32 * time.Minute)
			x := s.last()
			isJoined := c.end == providers.RejoinJoined
			if x.State != c.end || !strings.Contains(x.Why, c.says) || x.EndedAt == nil || s.revoked[x.Token] == isJoined {
				t.Errorf("it has ended so: %+v, and its token is void: %v", x, s.revoked[x.Token])
			}
			kind := map[bool]string{true: "instance.rejoined", false: "instance.not_rejoined"}[isJoined]
			if s.events("instance.rejoining") != 1 || s.events(kind) != 1 {
				t.Errorf("it is told of %d and %d times", s.events("instance.rejoining"), s.events(kind))
			}
			if isJoined {
				s.refused("one that reports", wire.CodeIllegalMove, s.rejoin())
				return
			}
			s.sim.Heal()
			s.must(s.rejoin())
			s.pass(2 * time.Minute)
			if x := s.last(); x.State != providers.RejoinJoined || x.Token != "mse_2" {
				t.Errorf("the second time: %+v", x)
			}
		})
	}
}

// TestRejoinAtOnce: of several operators at once one has the machine start again, and the others see that it does.
func TestRejoinAtOnce(t *testing.T) {
	t.Parallel()
	s := newShop(t, cloud.Vast)
	s.dead = true
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := s.rejoin(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.must(s.rejoin())
	live := 0
	for id := range s.minted {
		if !s.revoked[id] {
			live++
		}
	}
	if s.sim.Calls(vastsim.Update) != 1 || live != 1 || s.events("instance.rejoining") != 1 || len(s.ran) != 1 || s.ran[0] != s.last().Token {
		t.Errorf("it was asked %d times, %d tokens are good, it ran %v", s.sim.Calls(vastsim.Update), live, s.ran)
	}
	s.restart()
	s.pass(32 * time.Minute)
	if x := s.last(); x.State != providers.RejoinFailed || !s.revoked[x.Token] {
		t.Errorf("after a start of the gateway: %+v", x)
	}
}

// TestRejoinEnded: a round ends it while the company is asked. Whatever the company answers then, the record says how it has ended.
func TestRejoinEnded(t *testing.T) {
	t.Parallel()
	for refused, fault := range map[string]cloudsim.Fault{
		"":                      {On: vastsim.Update, Kind: cloudsim.Lost, Times: 1},
		wire.CodeProviderFailed: {On: vastsim.Update, Kind: cloudsim.Status, Status: 401, Times: 1},
	} {
		s := newShop(t, cloud.Vast)
		s.dead = true
		s.sim.Add(fault)
		s.sim.OnCall = func(endpoint string) {
			if x := s.last(); endpoint == vastsim.Update {
				x.State, x.Why, x.EndedAt = providers.RejoinFailed, "its lease is over", new(s.clock())
				s.must(s.records.PutRejoin(s.t.Context(), x))
			}
		}
		if err := s.rejoin(); refused != "" {
			s.refused("it", refused, err)
		} else {
			s.must(err)
		}
		if x := s.last(); x.State != providers.RejoinFailed || x.Why != "its lease is over" {
			t.Errorf("it has ended so: %+v", x)
		}
	}
}

// TestRejoinRefused: what works, what is being rented or given back, and what a company cannot do, is left alone.
func TestRejoinRefused(t *testing.T) {
	t.Parallel()
	set := func(change func(n *api.NodeRow)) func(*shop) {
		return func(s *shop) {
			next := *s.nodes["n"]
			change(&next)
			s.nodes["n"] = &next
		}
	}
	leased := func(state string) func(*shop) {
		return func(s *shop) {
			s.must(s.records.PutLease(s.t.Context(), rentals.Lease{Account: "acme", Instance: s.id, Tenant: "platform", State: state,
				Act: providers.ActDestroy, EndsAt: start.Add(time.Hour), CreatedAt: start}))
		}
	}
	for _, c := range []struct {
		what, kind, code, says string
		change                 func(*shop)
	}{
		{"the company cannot", cloud.Lambda, wire.CodeIllegalMove, "runs a start script only once", func(*shop) {}},
		{"its node reports", cloud.Vast, wire.CodeIllegalMove, "it reports", set(func(n *api.NodeRow) { n.Status = wire.StatusOnline })},
		{"another tenant's node reports from it", cloud.Vast, wire.CodeIllegalMove, "it reports",
			set(func(n *api.NodeRow) { n.Status, n.Tenant = wire.StatusOnline, "other" })},
		{"an allocation is live", cloud.Vast, wire.CodeIllegalMove, "the allocation a1",
			func(s *shop) { s.busy = []string{"the allocation a1"} }},
		{"it is being given back", cloud.Vast, wire.CodeIllegalMove, "lease", leased(providers.LeaseDraining)},
		{"it is being destroyed", cloud.Vast, wire.CodeIllegalMove, "lease", leased(providers.LeaseEnding)},
		{"it was killed", cloud.Vast, wire.CodeIllegalMove, "is broken", func(s *shop) { s.sim.Kill(s.id) }},
		{"it is gone", cloud.Vast, wire.CodeNotFound, "does not show", func(s *shop) { s.sim.Remove(s.id) }},
		{"another id", cloud.Vast, wire.CodeNotFound, "does not show", func(s *shop) { s.id = "77" }},
		{"the fleet is not read", cloud.Vast, wire.CodeUnavailable, "reads the fleet", func(s *shop) { s.Ready = func() bool { return false } }},
		{"no token can be made", cloud.Vast, wire.CodeOverQuota, "no more", func(s *shop) {
			s.fail["mint"] = wire.Refuse(wire.CodeOverQuota, "no more", "wait")
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, c.kind)
			c.change(s)
			before := s.sim.Calls(vastsim.Update)
			refusal := s.refused(c.what, c.code, s.rejoin())
			if !strings.Contains(refusal.Message, c.says) {
				t.Errorf("it says %q, want %q in it", refusal.Message, c.says)
			}
			if s.last().State != "" || len(s.minted) != 0 || s.sim.Calls(vastsim.Update) != before {
				t.Errorf("it was touched: %+v, tokens %v", s.last(), s.minted)
			}
		})
	}
	s := newShop(t, cloud.Vast)
	s.busy = []string{"the allocation a1"}
	set(func(n *api.NodeRow) { n.State = wire.StateRetired })(s)
	s.must(s.rejoin())
	if s.minted["mse_1"].Name != "" {
		t.Errorf("a node that was given back gets its name again: %+v", s.minted["mse_1"])
	}
}

// TestRejoinForeign: a machine that another gateway has rented is left alone, whatever lease it has here. One whose node is here is not.
func TestRejoinForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	id := w.company.add(cloud.Order{Name: "muster-" + wire.NewTaskID(), Offer: cloud.Offer{Price: cloud.Dollar}})
	w.pass(10 * time.Minute)
	act := func() error { return w.Act(t.Context(), "acme", id, providers.ActRejoin, ada) }
	refusal := w.refused("one of another gateway", wire.CodeIllegalMove, act())
	if !strings.Contains(refusal.Message, "another gateway has rented acme/"+id) || len(w.minted) != 0 {
		t.Errorf("it says %q, tokens %v", refusal.Message, w.minted)
	}
	w.must(w.records.PutLease(t.Context(), rentals.Lease{Account: "acme", Instance: id, Tenant: "platform", State: providers.LeaseLive,
		Act: providers.ActKeep, EndsAt: start.Add(time.Hour), CreatedAt: start}))
	w.refused("under a lease", wire.CodeIllegalMove, act())
	w.nodes["n-2"] = &api.NodeRow{ID: "n-2", Name: "gpu-2", Tenant: "platform", Provider: cloud.Vast, InstanceID: id,
		Status: wire.StatusStale, State: wire.StateUnavailable}
	w.must(act())
}

// TestRejoinRental: a machine that muster has rented starts again under the name and with the promises of its order, and its records learn
// its node. One that is being rented is left to those who rent it. What ends meanwhile ends the wait.
func TestRejoinRental(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cloud.Vast)
	r := w.rent(want(1))
	w.pass(time.Minute)
	act := func() error { return w.Act(t.Context(), "acme", "1001", providers.ActRejoin, ada) }
	w.refused("one that boots", wire.CodeIllegalMove, act())
	w.pass(10 * time.Minute)
	w.wantState("when it is there", r.ID, providers.RentedDone, 1)
	w.nodes = map[string]*api.NodeRow{} // of before a restore
	w.must(act())
	name := "muster-" + w.show(r.ID).Machines[0].ID
	if q := w.minted["mse_2"]; q.Name != name || q.Labels["batch"] != "x" || q.Labels["gpu_model"] == "" {
		t.Errorf("its token is %+v", q)
	}
	w.boot = time.Hour // no other node is this machine
	w.nodes["n-2"] = &api.NodeRow{ID: "n-2", Name: name, Tenant: "platform", Provider: cloud.Vast, InstanceID: "1001",
		Status: wire.StatusOnline, State: wire.StateActive, LastSeen: new(w.clock().Add(time.Second))}
	w.pass(time.Minute)
	l, err := w.records.Lease(t.Context(), "acme", "1001")
	w.must(err)
	found, err := w.records.Rentals(t.Context(), rentals.RentalQuery{Request: r.ID})
	w.must(err)
	if l.NodeID != "n-2" || found[0].NodeID != "n-2" || found[0].State != providers.RentalReady {
		t.Errorf("on record: %+v, %+v", l, found[0])
	}
	w.nodes = map[string]*api.NodeRow{}
	w.must(act())
	w.must(w.Act(t.Context(), "acme", "1001", providers.ActDestroy, store.Actor{Name: "ada"}))
	w.pass(time.Minute)
	all, err := w.records.Rejoins(t.Context(), "acme", "1001")
	w.must(err)
	if all[0].State != providers.RejoinFailed || !w.revoked[all[0].Token] {
		t.Errorf("when it is destroyed: %+v", all[0])
	}
}

// TestRejoinVoid: the token of one that is given up is void, also where that fails at first.
func TestRejoinVoid(t *testing.T) {
	t.Parallel()
	s := newShop(t, cloud.Vast)
	s.dead = true
	s.must(s.rejoin())
	s.fail["revoke"] = errors.New("the database is locked")
	s.pass(31 * time.Minute)
	if x := s.last(); x.State != providers.RejoinAsked || s.revoked[x.Token] {
		t.Errorf("while its token cannot be revoked: %+v", x)
	}
	delete(s.fail, "revoke")
	s.pass(time.Minute)
	if x := s.last(); x.State != providers.RejoinFailed || !s.revoked[x.Token] {
		t.Errorf("in the end: %+v, its token is void: %v", x, s.revoked[x.Token])
	}
}

// TestRejoinBroken: a machine that does not come up is given up soon, and one that looks broken for a moment is not.
func TestRejoinBroken(t *testing.T) {
	t.Parallel()
	s := newShop(t, cloud.Vast)
	s.dead = true
	s.must(s.rejoin())
	s.sim.Kill(s.id)
	s.pass(3 * time.Minute)
	if x := s.last(); x.State != providers.RejoinAsked {
		t.Errorf("after some minutes: %+v", x)
	}
	s.pass(4 * time.Minute)
	if x := s.last(); x.State != providers.RejoinFailed || !strings.Contains(x.Why, "did not come up") {
		t.Errorf("in the end: %+v", x)
	}
}
