package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"muster/agent/wire"
)

const (
	waitTime   = wire.MaxTaskWait + 15*time.Second // for the answer to one wait
	settleWait = 3 * time.Second                   // for all waits to reach the gateway
	lastClaims = 10 * time.Second                  // for claims of tasks that were given last
	worked     = wire.TaskDiagCollect
)

// work is one run of nodes that wait, and operators that give them tasks.
type work struct {
	*swarm

	mu      sync.Mutex
	given   map[string]time.Time // when the request for a task was sent, by its id
	claims  tally                // from there to the answer of the wait
	queued  tally                // from there to the answer of the request
	lastOne time.Time            // when the last task was claimed
}

// giveWork lets all nodes wait for work, gives tasks to nodes at random, and measures how long a task takes from the operator's request
// to the node. A node ends each task at once, and waits again.
func (s *swarm) giveWork(ctx context.Context) error {
	w := &work{swarm: s, given: map[string]time.Time{}}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var nodes, connected sync.WaitGroup
	connected.Add(len(s.nodes))
	places := make(chan struct{}, s.conns)
	for _, n := range s.nodes {
		nodes.Go(func() {
			places <- struct{}{}
			err := w.waits(ctx, n)
			<-places
			connected.Done()
			w.node(waiting, n, err)
		})
	}
	connected.Wait()
	pause(ctx, settleWait)
	fmt.Fprintf(s.say, "%d nodes wait for work\n", len(s.nodes))
	spent := processor()
	begun := time.Now()
	w.operators(ctx, begun.Add(s.duration))
	w.claimed(ctx)
	took := w.lastOne.Sub(begun)
	spent = processor() - spent
	stop()
	s.hangUp()
	nodes.Wait()
	s.phases = append(s.phases, &phase{name: "queue a task", tally: w.queued, elapsed: took, spent: spent},
		&phase{name: "task claimed", tally: w.claims, elapsed: took, spent: spent})
	return ctx.Err()
}

// waits connects a node and sends its first wait at once: a gateway closes connections that stay silent.
func (w *work) waits(ctx context.Context, n *node) error {
	if err := n.connect(ctx, w.dialer, w.pinned.roots); err != nil {
		return err
	}
	_, err := n.conn.Write(w.question(n))
	return err
}

// question is the request of a wait.
func (w *work) question(n *node) []byte {
	return []byte("GET " + wire.TaskWaitPath(n.id) + "?" + wire.TaskWaitSeconds + "=" + strconv.Itoa(int(wire.MaxTaskWait.Seconds())) +
		" HTTP/1.1\r\nHost: " + w.dialer.host + "\r\n\r\n")
}

// node takes the answer of its first wait, and waits again and again, until the run ends.
func (w *work) node(ctx context.Context, n *node, err error) {
	if err != nil {
		w.refuse(codeNetwork, err.Error())
		return
	}
	var request []byte // the first one is on its way already
	for ; ctx.Err() == nil; request = w.question(n) {
		a, err := n.conn.ask(request, waitTime)
		at := time.Now()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.refuse(codeNetwork, err.Error())
			return
		case a.status == http.StatusNoContent:
			continue
		case a.status != http.StatusOK:
			w.refuse(codeForeign, shorten(a.body))
			return
		}
		if err := w.finish(n, a.body, at); err != nil && ctx.Err() == nil {
			w.refuse(codeForeign, err.Error())
			return
		}
	}
}

// finish counts a claimed task and ends it.
func (w *work) finish(n *node, body []byte, at time.Time) error {
	var signed wire.SignedTask
	var task wire.TaskPayload
	if err := json.Unmarshal(body, &signed); err != nil {
		return err
	}
	if err := json.Unmarshal(signed.Payload, &task); err != nil {
		return err
	}
	w.mu.Lock()
	from, known := w.given[task.TaskID]
	if known {
		delete(w.given, task.TaskID)
		w.claims.latency = append(w.claims.latency, at.Sub(from))
		w.lastOne = at
	}
	w.mu.Unlock()
	exit := 0
	result, err := json.Marshal(wire.TaskResult{Status: wire.TaskCompleted, ExitCode: &exit, FinishedAt: at.UTC()})
	if err != nil {
		return err
	}
	request := append(appendHead(nil, w.dialer.host, wire.TaskResultPath(task.TaskID), len(result)), "\r\n"...)
	a, err := n.conn.exchange(append(request, result...))
	if err == nil && a.status != http.StatusOK {
		err = fmt.Errorf("the result was refused: %s", shorten(a.body))
	}
	return err
}

// operators give tasks until the time is over: at the rate of the options, or as fast as the gateway takes them.
func (w *work) operators(ctx context.Context, end time.Time) {
	var all sync.WaitGroup
	due := make(chan struct{})
	for range w.conns {
		all.Go(func() { w.operator(ctx, due) })
	}
	gone := make(chan struct{}) // an operator whose request fails gives up
	go func() {
		all.Wait()
		close(gone)
	}()
	for next := time.Now(); ctx.Err() == nil && time.Now().Before(end); {
		if w.rate > 0 {
			next = next.Add(time.Duration(float64(time.Second) / w.rate))
			pause(ctx, time.Until(next))
		}
		select {
		case due <- struct{}{}:
		case <-gone:
			return
		case <-ctx.Done():
		}
	}
	close(due)
	<-gone
}

// operator gives one task for each tick.
func (w *work) operator(ctx context.Context, due <-chan struct{}) {
	c, err := w.dialer.dial(ctx, nil)
	if err != nil {
		w.refuse(codeNetwork, err.Error())
		return
	}
	defer c.Close()
	for range due {
		id := wire.NewTaskID()
		node := w.nodes[rand.IntN(len(w.nodes))]
		body := fmt.Appendf(nil, `{"id":%q,"node":%q,"type":%q,"params":{}}`, id, node.id, worked)
		request := appendHead(nil, w.dialer.host, wire.PrefixAdmin+"tasks", len(body))
		request = append(request, "Authorization: Bearer "+w.apiToken+"\r\n\r\n"...)
		from := time.Now()
		w.mu.Lock()
		w.given[id] = from
		w.mu.Unlock()
		a, err := c.exchange(append(request, body...))
		if err != nil {
			w.refuse(codeNetwork, err.Error())
			return
		}
		if a.status != http.StatusCreated {
			w.refuse(codeForeign, shorten(a.body))
			return
		}
		w.mu.Lock()
		w.queued.latency = append(w.queued.latency, time.Since(from))
		w.mu.Unlock()
	}
}

// claimed waits until every task has been claimed. One that never is counts as refused.
func (w *work) claimed(ctx context.Context) {
	for end := time.Now().Add(lastClaims); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, 10*time.Millisecond) {
		w.mu.Lock()
		left := len(w.given)
		w.mu.Unlock()
		if left == 0 {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for range w.given {
		w.claims.refuse("unclaimed", "a task was not claimed")
	}
}

func (w *work) refuse(code, example string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims.refuse(code, example)
}
