package main

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
	"muster/store"
	"muster/store/engine"
	"muster/store/rqlite/rqlitetest"
)

const (
	sharedNodes  = 10_000
	takeovers    = 5
	takeoverMost = 10 // seconds
	lastGateway  = "gw-last"
	joinedWithin = 5 * time.Minute
)

// shared compares a store in three nodes of rqlite on this machine with the embedded one, and measures takeovers.
func (m *bench) shared(t *table) {
	const figure = "store in three nodes of rqlite, takeovers"
	if os.Getenv(rqlitetest.Program) == "" {
		t.notRun(figure, "the variable "+rqlitetest.Program+" names no rqlited: build one from its source, with go build ./cmd/rqlited")
		return
	}
	key := filepath.Join(m.dir, "shared.key")
	m.must(os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600))
	m.sharedWrites(t, key)
	m.takeovers(t, key)
}

// sharedFlags make a gateway one of those on a store.
func (m *bench) sharedFlags(nodes *rqlitetest.Nodes, key, id string) []string {
	return []string{"--store", "rqlite://" + strings.Join(nodes.HTTP, ","), "--master-key-file", key, "--gateway-id", id, "--peer-listen",
		m.freeAddress()}
}

func (m *bench) sharedWrites(t *table, key string) {
	nodes := rqlitetest.NewNodes(m, 3)
	ours := m.open(filepath.Join(m.dir, "shared"), m.sharedFlags(nodes, key, "gw0")...)
	theirs := m.open(filepath.Join(m.dir, "embedded"))
	for _, g := range []*running{ours, theirs} {
		m.must2(g.store.Records().Batch(m.Context(), []engine.Statement{engine.Do("CREATE TABLE bench (k INTEGER PRIMARY KEY, v TEXT) STRICT")}))
	}
	for _, rows := range []int{1, 100, 500} {
		t.compare(fmt.Sprintf("rqlite: rows in batches of %d, one writer", rows), "/s",
			inTurn(func() float64 { return m.rows(ours, rows) }, func() float64 { return m.rows(theirs, rows) }), "embedded engine", limit{},
			"a network between: all three nodes are on this machine, and share its processors and its disk")
	}
	for _, g := range []*running{ours, theirs} {
		m.enrolSeeds(g, sharedNodes)
		m.seedBeats(g, sharedNodes)
	}
	t.compare(fmt.Sprintf("rqlite: heartbeats stored, %d nodes", sharedNodes), "/s",
		inTurn(func() float64 { return m.beats(ours) }, func() float64 { return m.beats(theirs) }), "embedded engine", limit{},
		"readings, costs and agents, which are stored when they change")
	ours.stop()
	theirs.stop()
	for i := range nodes.HTTP {
		nodes.Kill(i)
	}
}

func (m *bench) must2(_ []engine.Result, err error) {
	m.Helper()
	m.must(err)
}

// rows is how many rows a second are stored.
func (m *bench) rows(g *running, each int) float64 {
	m.Helper()
	batch := make([]engine.Statement, each)
	for i := range batch {
		batch[i] = engine.Do("INSERT INTO bench(v) VALUES (?)", "a row of the length of a short text")
	}
	n := 0
	began := time.Now()
	for ; time.Since(began) < benchTime; n += each {
		m.must2(g.store.Records().Batch(m.Context(), batch))
	}
	return float64(n) / time.Since(began).Seconds()
}

// beats is how many heartbeats a second are stored of nodes of which nothing else is new.
func (m *bench) beats(g *running) float64 {
	m.Helper()
	beats := make([]store.Beat, sharedNodes)
	n := 0
	began := time.Now()
	for ; time.Since(began) < benchTime; n += len(beats) {
		for i := range beats {
			beats[i] = store.Beat{NodeID: seededID(i), At: time.Now(), RunID: "0123456789abcdef", Counter: uint64(n), Alive: true}
		}
		m.must(g.store.SaveBeats(m.Context(), beats, time.Now()))
	}
	return float64(n) / time.Since(began).Seconds()
}

// standing starts a gateway of several in a process of its own, and waits until it answers, or passes on what it is asked.
func (m *bench) standing(nodes *rqlitetest.Nodes, key, id string) *served {
	m.Helper()
	g := &served{data: filepath.Join(m.dir, "data-"+id), address: m.freeAddress()}
	g.child = m.child(nil, nil, m.muster, append([]string{"serve", "--data", g.data, "--listen", g.address, "--public-url", g.url()},
		m.sharedFlags(nodes, key, id)...)...)
	g.start()
	m.untilReady(g.child, g.url()+wire.PathReady)
	return g
}

// takeovers kills the active gateway again and again, and once with all nodes of the swarm.
func (m *bench) takeovers(t *table, key string) {
	nodes := rqlitetest.NewNodes(m, 3)
	active := m.standing(nodes, key, "gw1")
	var took []float64
	for i := range takeovers {
		next := m.standing(nodes, key, "gw"+strconv.Itoa(i+2))
		at, _ := m.deposed(active, next)
		took = append(took, time.Since(at).Seconds())
		active = next
	}
	t.bound(fmt.Sprintf("takeover after kill -9, until the other gateway answers, %d times", takeovers), " s", median(took), takeoverMost,
		fmt.Sprintf("from %.1f to %.1f s", slices.Min(took), slices.Max(took)), "")
	m.crowdTakenOver(t, active, m.standing(nodes, key, lastGateway))
}

// deposed kills a gateway, and returns when another one answers as the active one.
func (m *bench) deposed(active, next *served) (at, answered time.Time) {
	m.Helper()
	asker := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer asker.CloseIdleConnections()
	epoch := func() string {
		response, err := asker.Get(next.url() + wire.PathHealth)
		if err != nil {
			return ""
		}
		response.Body.Close()
		return response.Header.Get(wire.HeaderEpoch)
	}
	before := epoch()
	at = time.Now()
	active.kill()
	for now := before; now == "" || now == before; now = epoch() {
		if time.Since(at) > startLimit {
			m.Fatalf("no takeover after %s\n%s", startLimit, next.said())
		}
		time.Sleep(startPause)
	}
	return at, time.Now()
}

// crowdTakenOver has many nodes report through the gateway that stands by, and kills the active one.
func (m *bench) crowdTakenOver(t *table, active, next *served) {
	figure := fmt.Sprintf("takeover with %d nodes, until the last is heard and online", benchNodes)
	keep := filepath.Join(m.dir, "taken-over.json")
	m.run([]string{"MUSTER_TOKEN=" + active.credential()}, "-gateway", next.url(), "-nodes", decimal(benchNodes), "-duration", "0",
		"-keep", keep, "-transport", "signed", "-insist")
	if list, err := client.Get[api.GatewayList](m.Context(), m.operator(next), api.PathGateways, nil); err != nil ||
		list.Gateways[0].ID == lastGateway {
		t.notRun(figure, fmt.Sprintf("a gateway lost its lease before, since this machine had other work (%v)", err))
		return
	}
	p := m.player(next.url(), "-nodes", decimal(benchNodes), "-keep", keep, "-transport", "signed", "-conns", decimal(signedConns), "-insist",
		"-rate", strconv.FormatFloat(benchNodes/usualPace.Seconds(), 'f', 1, 64))
	operator := m.operator(active)
	for begun := time.Now(); m.heard(operator, begun) < benchNodes; { // the first heartbeat of each moves it: that is no part of a takeover
		if time.Since(begun) > joinedWithin {
			p.leave()
			t.notRun(figure, fmt.Sprintf("the nodes were not online after %s", joinedWithin))
			return
		}
		p.turn("-duration", (2 * usualPace).String())
	}
	var at, first time.Time
	all := make(chan time.Time, 1)
	go func() {
		time.Sleep(killAfter)
		at, first = m.deposed(active, next)
		all <- m.allHeard(next, at, benchNodes)
	}()
	turn := p.turn("-duration", returnTime.String())
	last := <-all
	took := time.Hour.Seconds() // never
	if !last.IsZero() {
		took = last.Sub(at).Seconds()
	}
	t.bound(figure, " s", took, returnTime.Seconds(),
		fmt.Sprintf("first answer after %.1f s, refused: %d", first.Sub(at).Seconds(),
			len(turn["heartbeat"].Refused)+len(turn["reconnect"].Refused)),
		fmt.Sprintf("connections of their own: the nodes share %d through the gateway that stands by, as through a proxy", signedConns))
	p.leave()
	next.end()
}
