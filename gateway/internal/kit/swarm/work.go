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

	mu     sync.Mutex
	given  map[string]time.Time // when the request for a task was sent, by its id
	claims tally                // from there to the answer of the wait
}

// giveWork lets all nodes wait for work, gives tasks to nodes at random, and measures how long a task takes from the operator's request
// to the node. A node ends each task at once, and waits again.
func (s *swarm) giveWork(ctx context.Context) error {
	w := &work{swarm: s, given: map[string]time.Time{}}
	s.measure(ctx, "connect", false, func(o *worker) {
		o.share(ctx, func(n *node) {
			err := n.connect(ctx, w.dialer, w.pinned.roots)
			if err == nil { // the first wait follows at once: a gateway closes connections that stay silent
				_, err = n.conn.Write(w.question(n))
			}
			if err != nil {
				n.hangUp()
				o.lost(ctx, err)
			}
		})
	})
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var nodes sync.WaitGroup
	for _, n := range s.nodes {
		if n.conn != nil {
			nodes.Go(func() { w.node(waiting, n) })
		}
	}
	pause(ctx, settleWait)
	fmt.Fprintf(s.say, "%d nodes wait for work\n", len(s.nodes))
	begun := time.Now()
	s.measure(ctx, "queue a task", true, func(o *worker) { w.operate(ctx, o) })
	w.claimed(ctx)
	took := time.Since(begun)
	stop()
	s.hangUp()
	nodes.Wait()
	s.phases = append(s.phases, &phase{name: "task claimed", tally: w.claims, elapsed: took})
	return ctx.Err()
}

// question is the request of a wait.
func (w *work) question(n *node) []byte {
	return []byte("GET " + wire.TaskWaitPath(n.id) + "?" + wire.TaskWaitSeconds + "=" + strconv.Itoa(int(wire.MaxTaskWait.Seconds())) +
		" HTTP/1.1\r\nHost: " + w.dialer.host + "\r\n\r\n")
}

// node takes the answer of its first wait, and waits again and again, until the run ends.
func (w *work) node(ctx context.Context, n *node) {
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

// operate gives tasks until the time is over, or until the gateway refuses one.
func (w *work) operate(ctx context.Context, o *worker) {
	operator := &node{} // it has no connection of its own
	for {
		if _, ok := o.next(ctx); !ok {
			return
		}
		id := wire.NewTaskID()
		to := w.nodes[rand.IntN(len(w.nodes))]
		body := fmt.Appendf(nil, `{"id":%q,"node":%q,"type":%q,"params":{}}`, id, to.id, worked)
		request := appendHead(nil, w.dialer.host, wire.PrefixAdmin+"tasks", len(body))
		request = append(request, "Authorization: Bearer "+w.apiToken+"\r\n\r\n"...)
		w.mu.Lock()
		w.given[id] = time.Now()
		w.mu.Unlock()
		if _, ok := o.send(ctx, operator, sent{raw: append(request, body...)}); !ok {
			return
		}
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
