package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/client"
)

const (
	settleTime  = usualPace * 4 / 3      // for all nodes to connect at their pace
	returnTime  = 2 * usualPace          // within which all are to be back
	killAfter   = time.Second            // of a turn's beginning
	lateAnswer  = 5.0                    // seconds, the 99th of 100 while nodes come back
	crowdConns  = 1000                   // nodes that may wait for an answer at once
	onlineEvery = 200 * time.Millisecond // between two looks at the node list
)

// atPace has all nodes report at their usual pace, and kills the gateway once. It measures the gateway's memory while the nodes are
// connected, and the no-op server's in the same way.
func (m *bench) atPace(t *table) {
	c := m.nodes()
	flags := []string{"-nodes", decimal(c.nodes), "-keep", c.keep, "-transport", "mtls", "-conns", decimal(crowdConns), "-insist",
		"-rate", strconv.FormatFloat(float64(c.nodes)/usualPace.Seconds(), 'f', 1, 64)}
	g := m.serve(c.data)
	p := m.player(g.url(), flags...)
	p.turn("-duration", settleTime.String())
	g = m.killed(t, g, p, c.nodes)
	p.turn("-duration", usualPace.String())
	connected := g.resident()
	p.leave()
	g.end()
	empty := m.serve(c.data) // it has nothing to do, so it takes nothing from the no-op server
	m.crowd.bare = m.weighNoop(c, flags)
	each := (connected - empty.resident()) / float64(c.nodes) / 1024
	empty.end()
	t.compare(fmt.Sprintf("gateway memory a node, %d connected over mTLS, resident", c.nodes), " KiB",
		pairs{[]float64{each}, []float64{m.crowd.bare}}, "no-op net/http server", limit{most: 1},
		"what the gateway has with the same nodes on record and none connected; the kernel's socket buffers; it is one round")
}

// weighNoop is how many KiB a node's connection costs the no-op server at the same pace: each node connects, and reports twice.
func (m *bench) weighNoop(c *crowd, flags []string) float64 {
	server, at := m.noop()
	before := server.resident()
	p := m.player(at, append(flags, "-peer")...)
	p.turn("-duration", (2 * usualPace).String())
	each := (server.resident() - before) / float64(c.nodes) / 1024
	p.leave()
	server.kill()
	return each
}

// killed kills the gateway with kill -9 amid heartbeats, starts it again at once and waits until all nodes are back.
func (m *bench) killed(t *table, g *served, p *player, nodes int) *served {
	m.Helper()
	begun := time.Now()
	var at time.Time
	restarted := make(chan *served, 1)
	online := make(chan time.Time, 1)
	go func() {
		time.Sleep(killAfter)
		at = time.Now()
		g.kill()
		next := m.serveAt(g.data, g.address)
		restarted <- next
		online <- m.allHeard(next, at, nodes)
	}()
	turn := p.turn("-duration", returnTime.String())
	g = <-restarted
	all := <-online
	back := turn["reconnect"]
	beats := turn["heartbeat"]
	took := begun.Add(time.Duration(back.Seconds * float64(time.Second))).Sub(at)
	if !all.IsZero() {
		took = max(took, all.Sub(at))
	} else {
		took = time.Hour // never
	}
	t.bound(fmt.Sprintf("%d nodes reconnecting after kill -9, until the last is heard", nodes), " s", took.Seconds(), returnTime.Seconds(),
		fmt.Sprintf("%d lost a connection, refused: %d", back.Count, len(beats.Refused)+len(back.Refused)),
		"the back-off of agents that find no gateway for longer: it was started again at once")
	t.bound("the same, 99 of 100 of their heartbeats, from due to answered", " s", back.P99/1000, lateAnswer,
		fmt.Sprintf("all heartbeats of that time: %.2f s", beats.P99/1000), "")
	return g
}

// allHeard is when the node list first shows all nodes as heard since a time. It is zero when that does not come about.
func (m *bench) allHeard(g *served, since time.Time, nodes int) time.Time {
	operator := m.operator(g)
	for time.Since(since) < 2*returnTime {
		now := time.Now()
		if m.heard(operator, since) == nodes {
			return now
		}
		time.Sleep(onlineEvery)
	}
	return time.Time{}
}

// operator is a client of the gateway's socket.
func (m *bench) operator(g *served) *client.Client {
	m.Helper()
	c, err := client.Dial(m.Context(), client.Target{DataDir: g.data})
	m.must(err)
	return c
}

// heard is how many nodes are online and were heard since a time. It stops at the first that was not.
func (m *bench) heard(operator *client.Client, since time.Time) (n int) {
	const pageSize = 1000
	filter := api.NodeFilter{Limit: pageSize}
	for {
		page, err := client.Get[api.NodeRows](m.Context(), operator, api.PathNodes, filter)
		m.must(err)
		for _, row := range page.Nodes {
			var node api.Node
			m.must(json.Unmarshal(row, &node))
			if node.Status != "online" || node.LastSeen == nil || node.LastSeen.Before(since) {
				return n
			}
			n++
		}
		if page.Next == "" {
			return n
		}
		filter.Cursor = page.Next
	}
}
