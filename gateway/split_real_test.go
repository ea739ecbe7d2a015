//go:build real

package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store/rqlite/rqlitetest"
)

// answered is when a gateway has answered, and in which epoch.
type answered struct {
	epoch string
	at    time.Time
}

// watch asks gateways for all that they answer, each 50 ms, until ctx ends.
type watch struct {
	mu   sync.Mutex
	all  []answered
	work sync.WaitGroup
}

func watchBoth(ctx context.Context, urls ...string) *watch {
	w := &watch{}
	for _, url := range urls {
		client := visitor()
		client.Timeout = 3 * time.Second
		ask := func() {
			r, err := client.Get(url + wire.PathHealth)
			if err != nil {
				return
			}
			r.Body.Close()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, answered{r.Header.Get(wire.HeaderEpoch), time.Now()})
		}
		w.work.Go(func() {
			for ticker := time.NewTicker(50 * time.Millisecond); ; {
				select {
				case <-ticker.C:
					w.work.Go(ask)
				case <-ctx.Done():
					ticker.Stop()
					return
				}
			}
		})
	}
	return w
}

// epochs gives those that were seen, with the time of the first and of the last answer.
func (w *watch) epochs() (names []string, first, last map[string]time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, last = map[string]time.Time{}, map[string]time.Time{}
	for _, a := range w.all {
		if _, ok := first[a.epoch]; !ok {
			names = append(names, a.epoch)
			first[a.epoch] = a.at
		}
		last[a.epoch] = a.at
	}
	return names, first, last
}

// split is three nodes of rqlite and two gateways, each in a place of its own.
type split struct {
	*several
	*places
	rqlite   []*place
	nodes    *rqlitetest.Nodes
	gateways []*place
	a, b     *member
}

func newSplit(t *testing.T, p *places) *split {
	s := &split{places: p}
	var at []rqlitetest.Place
	var endpoints []string
	for range 3 {
		one := p.place()
		s.rqlite = append(s.rqlite, one)
		at = append(at, rqlitetest.Place{Host: one.host, Enter: one.enter()})
		endpoints = append(endpoints, one.host+":4001")
	}
	for range 2 {
		s.gateways = append(s.gateways, p.place())
	}
	secure, flags := p.secure()
	s.nodes = rqlitetest.NewNodesAt(t, secure, at...)
	s.several = newSeveral(t, endpoints...)
	begin := func(id string, at *place) *member {
		dir, err := os.MkdirTemp("", "muster-house-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		m := &member{id: id, enter: at.enter(), house: &house{t: t, data: dir, url: "https://" + at.host + ":7443",
			env: []string{withAgents + "=" + dir + "/no-agents"},
			args: append(flags, "--listen", at.host+":7443", "--store", s.store, "--master-key-file", s.key, "--gateway-id", id,
				"--peer-listen", at.host+":7444")}}
		return m.begin()
	}
	s.a = begin("gw1", s.gateways[0])
	s.a.active("gw1")
	s.b = begin("gw2", s.gateways[1])
	return s
}

func (s *split) both() {
	s.a.listed("the other one stands by", func(l api.GatewayList) bool { return len(l.Gateways) == 2 })
}

// TestRealSplit: the active gateway reaches nodes and operators, and the store no more. It has fallen silent before the other one answers:
// who asks both all the time never hears the one after the other. Later the leader of rqlite is cut off from the other nodes, and not from
// the gateways, and the work goes on. What was acknowledged is there at the end.
func TestRealSplit(t *testing.T) {
	p := newPlaces(t)
	if p == nil {
		return
	}
	s := newSplit(t, p)
	s.both()
	var tokens []string
	mint := func() {
		t.Helper()
		var made api.NewToken
		s.b.says("a token is made", func(out string) bool { return json.Unmarshal([]byte(out), &made) == nil }, "token", "create", "-o", "json")
		tokens = append(tokens, made.ID)
	}
	mint()

	ctx, stop := context.WithCancel(t.Context())
	w := watchBoth(ctx, s.a.url, s.b.url)
	for _, node := range s.rqlite {
		node.ignores(s.gateways[0])
	}
	s.b.active("gw2")
	mint()
	for _, node := range s.rqlite {
		node.hears(s.gateways[0])
	}
	s.both()
	if s.a.lost() == 0 {
		t.Error("the gateway that was cut off did not end")
	}

	leader := s.nodes.Leader()
	for i, node := range s.rqlite {
		if i != leader {
			node.ignores(s.rqlite[leader])
			s.rqlite[leader].ignores(node)
		}
	}
	mint()
	for i, node := range s.rqlite {
		if i != leader {
			node.hears(s.rqlite[leader])
			s.rqlite[leader].hears(node)
		}
	}
	s.nodes.Leader()
	s.both()
	mint()
	stop()
	w.work.Wait()
	epochs, first, last := w.epochs()
	if len(epochs) < 2 {
		t.Errorf("they answered in the epochs %q", epochs)
	}
	for i := 1; i < len(epochs); i++ {
		silent := first[epochs[i]].Sub(last[epochs[i-1]])
		t.Logf("nobody answered for %s", silent)
		if silent < 0 {
			t.Errorf("%s answered %s after %s began to", epochs[i-1], -silent, epochs[i])
		}
	}
	live := s.a.says("the tokens are listed", func(string) bool { return true }, "token", "ls", "-o", "json")
	for _, id := range tokens {
		if id == "" || !strings.Contains(live, id) {
			t.Errorf("the token %s is lost:\n%s", id, live)
		}
	}
}

// TestRealTwoGone: with one of three nodes of rqlite no gateway is active, and whoever wants to write hears so. When the others are back,
// one is active again by itself, and what was acknowledged is there.
func TestRealTwoGone(t *testing.T) {
	nodes := rqlitetest.NewNodes(t, 3)
	s := newSeveral(t, nodes.HTTP...)
	a := s.begin("gw1")
	a.active("gw1")
	b := s.begin("gw2")
	b.listed("both are there", func(l api.GatewayList) bool { return len(l.Gateways) == 2 })
	token := a.token()
	leader := nodes.Leader()
	nodes.Kill(leader)
	nodes.Kill((leader + 1) % 3)
	for end := time.Now().Add(patience); a.lost() == 0; <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a gateway without a store stays active")
		}
	}
	b.refuses("no gateway is active", "token", "create")
	nodes.Start(leader)
	nodes.Start((leader + 1) % 3)
	a.agent("first", token, "--no-gpu")
	b.online(1)
	a.listed("both are there again", func(l api.GatewayList) bool { return len(l.Gateways) == 2 })
}
