package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/client"
)

const (
	workNodes   = 10_000
	workRate    = 200 // tasks per second, where the time to the claim is measured
	workTime    = 15 * time.Second
	claimMedian = 5.0  // ms, from the operator's request to the node
	claimLate   = 50.0 // ms, 99 of 100
	sampleEvery = 500 * time.Millisecond
)

// tasks measures the way of a task from an operator to a node that waits, with many nodes waiting, and what a waiting node costs.
func (m *bench) tasks(t *table) {
	c := m.nodes()
	nodes := min(c.nodes, workNodes)
	g := m.serve(c.data)
	defer g.end()
	account, err := client.Send[api.NewAccount](m.Context(), m.operator(g), "POST", api.PathAccounts,
		api.AccountRequest{Name: fmt.Sprint("bench-", time.Now().UnixNano()),
			Scopes: []string{api.ScopeAll}})
	m.must(err)
	env := []string{"MUSTER_API_TOKEN=" + account.Token}
	before := g.resident()
	var out bytes.Buffer
	swarm := m.child(&out, env, m.swarm, "-gateway", g.url(), "-nodes", decimal(nodes), "-keep", c.keep, "-transport", "mtls", "-work",
		"-duration", workTime.String(), "-conns", "8", "-rate", decimal(workRate))
	waiting := m.during(swarm, g)
	report := m.operations(out.Bytes())
	claim := report["task claimed"]
	missed := fmt.Sprintf("%d tasks, refused or not claimed: %d", claim.Count, len(claim.Refused))
	t.bound(fmt.Sprintf("task, enqueue to claim, %d nodes waiting, median", nodes), " ms", claim.P50, claimMedian, missed,
		"it counts from the operator's request, so the signature and the commit are in it")
	request := amount(report["queue a task"].P99)
	t.bound("the same, 99 of 100", " ms", claim.P99, claimLate, fmt.Sprintf("the request alone: %s ms", request), "")
	waiter := fmt.Sprintf("gateway memory a waiting node, %d over mTLS, resident", nodes)
	if m.crowd.bare > 0 {
		t.compare(waiter, " KiB", pairs{[]float64{(waiting - before) / float64(nodes) / 1024}, []float64{m.crowd.bare}}, "no-op net/http server",
			limit{most: 1.2}, "the kernel's socket buffers; it is one round")
	} else {
		t.notRun(waiter, "its peer is measured in the part pace")
	}
}

// during runs the swarm and gives the gateway's memory while the nodes wait: the median of what was seen.
func (m *bench) during(swarm *child, g *served) float64 {
	m.Helper()
	var seen []float64
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-stop:
				return
			case <-time.After(sampleEvery): // the process is watched from outside: there is no clock to inject
			}
			if strings.Contains(swarm.said(), "wait for work") {
				seen = append(seen, g.resident())
			}
		}
	}()
	if err := swarm.cmd.Run(); err != nil {
		m.Fatalf("swarm: %v\n%s", err, swarm.said())
	}
	close(stop)
	<-watched
	if len(seen) == 0 {
		m.Fatalf("the swarm did not say that its nodes wait: %q", swarm.said())
	}
	return median(seen)
}
