//go:build real

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/store/rqlite/rqlitetest"
)

// Environment of TestRealKills.
const (
	killsNumber = "MUSTER_KILLS"      // how many; unset: as many as take a minute
	killsSeed   = "MUSTER_KILLS_SEED" // of an earlier run, to have it again; unset: a new one
)

// What is killed. The last one is stopped for killPause, and goes on then.
const (
	killLeader   = "leader of rqlite"
	killFollower = "follower of rqlite"
	killActive   = "active gateway"
	killStandby  = "standby"
	killBoth     = "active gateway and leader of rqlite"
	killAgent    = "agent"
	killPaused   = "active gateway, stopped"

	killPause   = 10 * time.Second
	killUsually = 12
	killAgents  = 3
)

// killing is three nodes of rqlite, three gateways and some agents at work, of which some are killed.
type killing struct {
	*several
	*ledger
	rqlite   *rqlitetest.Nodes
	gateways []*member
	agents   []*process
	engine   string // the folder of the played podman
	script   *script
	chance   *rand.Rand
	kills    map[string]int
	ended    chan struct{} // closed when no more work is to begin
}

// TestRealKills kills gateways, nodes of rqlite and agents again and again, while tokens are made and used, tasks are done, and the
// registry is pushed to. What was acknowledged is there at the end, on each gateway, once.
func TestRealKills(t *testing.T) {
	number, err := strconv.Atoi(cmp.Or(os.Getenv(killsNumber), strconv.Itoa(killUsually)))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(killsSeed), strconv.FormatUint(rand.Uint64N(1e6), 10)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s=%d %s=%d", killsNumber, number, killsSeed, seed)
	k := newKilling(t, seed, func(node string) string { return node })
	began := time.Now()
	k.while(func() { k.kill(number) })
	t.Logf("%d kills in %s: %v", number, time.Since(began).Round(time.Second), k.kills)
	k.judge()
}

// TestRealSwallowed: of each five answers to a write, one is lost on its way from rqlite, after the write. Nothing is done twice, and
// nothing is lost.
func TestRealSwallowed(t *testing.T) {
	const enough = 10
	var swallowed atomic.Int64
	k := newKilling(t, 1, func(node string) string { return swallows(t, node, &swallowed) })
	k.while(func() {
		for end := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
			now := k.count()
			if min(now[ackToken], now[ackNode], now[ackResult], now[ackPush]) >= enough {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("it takes too long: %v", now)
			}
		}
	})
	t.Logf("%d answers were swallowed", swallowed.Load())
	if swallowed.Load() < enough {
		t.Error("these are too few")
	}
	k.judge()
}

// swallows is the way to a node of rqlite that loses answers, and gives HOST:PORT.
func swallows(t *testing.T, node string, swallowed *atomic.Int64) string {
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: node})
	forward.ErrorLog = log.New(io.Discard, "", 0)
	var writes atomic.Int64
	forward.ModifyResponse = func(r *http.Response) error {
		if strings.HasPrefix(r.Request.URL.Path, "/db/execute") && writes.Add(1)%5 == 0 {
			swallowed.Add(1)
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	server := httptest.NewServer(forward)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// while has all work go on until do ends, and then waits for the end of what has begun.
func (k *killing) while(do func()) {
	var work sync.WaitGroup
	for worker := range 2 {
		work.Go(func() { k.joins(worker) })
	}
	for i := range k.agents {
		work.Go(func() { k.works(agentName(i)) })
	}
	work.Go(func() { k.pushesBlobs(0) })
	do()
	close(k.ended)
	work.Wait()
	k.t.Logf("acknowledged: %v; %d requests had no answer", k.acks, k.ledger.lost)
}

// newKilling has three gateways at work, which reach the nodes of rqlite through something.
func newKilling(t *testing.T, seed uint64, through func(node string) string) *killing {
	nodes := rqlitetest.NewNodes(t, 3)
	var endpoints []string
	for _, node := range nodes.HTTP {
		endpoints = append(endpoints, through(node))
	}
	k := &killing{several: newSeveral(t, endpoints...), ledger: newLedger(), rqlite: nodes, engine: podman(t),
		chance: rand.New(rand.NewPCG(seed, 0)), kills: map[string]int{}, ended: make(chan struct{})}
	for i := range 3 {
		k.gateways = append(k.gateways, k.begin(fmt.Sprintf("gw%d", i+1)))
		k.gateways[0].active("gw1")
	}
	k.script = newScript(t, word(k.gateways[0].now().text(), "msa_"), k.gateways...)
	k.script.lost = func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ledger.lost++
	}
	for i := range killAgents {
		var made api.NewToken
		text := k.gateways[0].muster("token", "create", "-o", "json")
		if err := json.Unmarshal([]byte(text), &made); err != nil {
			t.Fatal(err)
		}
		k.agents = append(k.agents, k.hire(i, made.Token))
	}
	k.gateways[0].online(killAgents)
	k.gateways[0].listed("all stand by", func(l api.GatewayList) bool { return len(l.Gateways) == 3 })
	return k
}

func agentName(i int) string { return fmt.Sprintf("agent-%d", i) }

// hire starts an agent; the token counts at its first start alone.
func (k *killing) hire(i int, token string) *process {
	h := k.gateways[i%len(k.gateways)]
	env := []string{"PATH=" + k.engine}
	if token != "" {
		env = append(env, "MUSTER_TOKEN="+token)
	}
	return start(k.t, agentName(i), env, agentBinary(k.t), "run", "--gateway", h.url, "--name", agentName(i), "--state",
		h.data+"/agent", "--interval", "2s", "--no-gpu")
}

func (k *killing) rehire(i int) {
	k.agents[i].kill()
	k.agents[i] = k.hire(i, "")
	k.kills[killAgent]++
}

func (k *killing) over() bool {
	select {
	case <-k.ended:
		return true
	case <-time.After(workPause):
		return false
	}
}

// kill kills so many times. Most times it goes on when there is work of each kind again, now and then sooner.
func (k *killing) kill(number int) {
	weights := []string{killLeader, killLeader, killLeader, killLeader, killFollower, killActive, killActive, killActive, killActive,
		killStandby, killStandby, killBoth, killAgent, killPaused}
	for i := range number {
		what := weights[k.chance.IntN(len(weights))]
		before := k.count()
		k.t.Logf("%d: %s", i+1, what)
		k.strike(what)
		if k.chance.IntN(4) > 0 || i == number-1 {
			k.goesOn(what, before)
		}
	}
	for i := range k.agents { // one that has found nobody for a while would come again after minutes
		k.rehire(i)
	}
}

// strike kills something, and starts it again after a while.
func (k *killing) strike(what string) {
	away := time.Duration(k.chance.IntN(3000)) * time.Millisecond
	other := k.chance.IntN(100)
	active, standing := k.roles()
	leader := k.rqlite.Leader()
	if what != killAgent {
		k.kills[what]++
	}
	switch what {
	case killLeader:
		k.fell(leader, away)
	case killFollower:
		k.fell((leader+1+other%2)%3, away)
	case killActive:
		k.end(active, away)
	case killStandby:
		k.end(standing[other%len(standing)], away)
	case killBoth:
		active.now().kill()
		k.fell(leader, away)
		active.run()
	case killAgent:
		k.rehire(other % len(k.agents))
	case killPaused:
		k.pause(active)
	}
}

func (k *killing) fell(node int, away time.Duration) {
	k.rqlite.Kill(node)
	<-time.After(away)
	k.rqlite.Start(node)
}

func (k *killing) end(m *member, away time.Duration) {
	m.now().kill()
	<-time.After(away)
	m.run()
}

// pause stops a gateway for a while. What it has sent or sends late is not stored, and it ends when it sees that.
func (k *killing) pause(m *member) {
	before, p := m.lost(), m.now()
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	<-time.After(killPause)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	for end := time.Now().Add(patience); m.lost() == before; <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("%s was away, and did not end", m.id)
		}
	}
}

// roles tells who is active, and who is not.
func (k *killing) roles() (active *member, standing []*member) {
	list, err := insist(k.script, k.chance.IntN(3), func(ctx context.Context, c *client.Client) (api.GatewayList, error) {
		return client.Get[api.GatewayList](ctx, c, api.PathGateways, nil)
	})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, m := range k.gateways {
		if m.id == list.Gateways[0].ID {
			active = m
		} else {
			standing = append(standing, m)
		}
	}
	return active, standing
}

// goesOn waits until there are more acknowledgements than before. For a task's result it does not wait: an agent that has found nobody
// for a while comes again after a longer one.
func (k *killing) goesOn(what string, before map[string]int) {
	k.t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		now := k.count()
		more := func(kind string) bool { return now[kind] > before[kind] }
		if !slices.ContainsFunc([]string{ackToken, ackNode, ackPush}, func(kind string) bool { return !more(kind) }) {
			return
		}
		if time.Now().After(end) {
			k.t.Fatalf("the work does not go on after the end of %s: %v, then %v", what, before, now)
		}
	}
}

// judge compares, with each gateway as the active one.
func (k *killing) judge() {
	k.compare()
	for range 2 {
		active, standing := k.roles()
		next := standing[0]
		if active == next {
			k.t.Fatal("nobody stands by")
		}
		active.listed("all stand by", func(l api.GatewayList) bool { return len(l.Gateways) == 3 })
		active.muster("gateway", "hand-over", next.id)
		next.active(next.id)
		k.compare()
	}
	k.gateways[0].online(killAgents)
	for _, m := range k.gateways {
		m.mu.Lock()
		if other := slices.DeleteFunc(slices.Clone(m.ended), func(code int) bool { return code == exitLost || code == -1 }); len(other) > 0 {
			k.t.Errorf("%s has ended with %v", m.id, other)
		}
		m.mu.Unlock()
	}
}
