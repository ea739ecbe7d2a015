package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"muster/agent/wire"
)

const (
	// signAhead is the longest run for which signatures are made before it. They are valid for a minute, and are kept in memory.
	signAhead = 5 * time.Second
	// proofSample says that of so many answers to signed heartbeats one is checked: a check costs as much as a signature.
	proofSample = 64
)

// pattern is a heartbeat's body in three parts. Between them stand the run id and the counter, which differ from one heartbeat to the
// next. So a body is put together without encoding JSON.
type pattern struct {
	before, between, after []byte // run id, counter
}

const (
	runMark     = "0123456789abcdef"
	counterMark = 987654321987654321
)

// newPattern makes a heartbeat with the real encoder, and cuts it where the run id and the counter are.
func newPattern(gpus int) (pattern, error) {
	rss := int64(6400)
	cpu := int64(250)
	probe := int64(41)
	body, err := json.Marshal(wire.HeartbeatRequest{
		RunID: runMark, Counter: counterMark, IntervalSeconds: 30, Agent: agentInfo(),
		Cost: wire.Cost{RSSKiB: &rss, CPUMillis: &cpu, ProbeMillis: &probe}, Health: []string{}, Hardware: reading(gpus),
	})
	if err != nil {
		return pattern{}, err
	}
	before, rest, ok := bytes.Cut(body, []byte(runMark))
	between, after, also := bytes.Cut(rest, []byte(strconv.Itoa(counterMark)))
	if !ok || !also {
		return pattern{}, fmt.Errorf("a heartbeat has no run id and counter: %s", body)
	}
	return pattern{before, between, after}, nil
}

func (p pattern) appendTo(b []byte, n *node, counter uint64) []byte {
	b = append(b, p.before...)
	b = append(b, n.runID...)
	b = append(b, p.between...)
	b = strconv.AppendUint(b, counter, 10)
	return append(b, p.after...)
}

// ahead is a heartbeat that was signed before the clock started. Its body is put together when it is sent.
type ahead struct {
	head    []byte
	nonce   string
	counter uint64
}

// beat lets all nodes report for the time asked for.
func (s *swarm) beat(ctx context.Context) error {
	p, err := newPattern(s.gpus)
	if err != nil {
		return err
	}
	// With a pace, and in turns, a node connects when it reports, as agents do: a gateway closes connections that stay silent.
	if s.rate == 0 && !s.inTurns {
		s.connectAll(ctx)
	}
	queues, err := s.signAhead(ctx, p)
	if err != nil {
		return err
	}
	end := time.Now().Add(s.duration)
	s.measure(ctx, "heartbeat", func(w *worker) {
		b := beater{worker: w, pattern: p, end: end}
		if queues != nil {
			b.queues = queues[w.number]
		}
		b.run(ctx)
	})
	return nil
}

// connectAll opens the connections of the nodes on mTLS: each is a full handshake.
func (s *swarm) connectAll(ctx context.Context) {
	direct := false
	for _, n := range s.nodes {
		direct = direct || n.direct && n.conn == nil
	}
	if !direct {
		return
	}
	s.measure(ctx, "connect", func(w *worker) {
		w.share(ctx, func(n *node) {
			if !n.direct || n.conn != nil {
				return
			}
			started := time.Now()
			if _, err := w.connection(ctx, n); err != nil {
				w.hangUp(n)
				w.lost(ctx, err)
				return
			}
			w.tally.latency = append(w.tally.latency, time.Since(started))
		})
	})
}

// signAhead signs heartbeats before the clock starts, for as long as the run will take. The gateway has more work with each than the
// signer, so there will be enough. It gives each worker a queue for each of its nodes; nil: heartbeats are signed as they are sent.
func (s *swarm) signAhead(ctx context.Context, p pattern) ([]map[*node][]ahead, error) {
	switch {
	case s.transport == viaMTLS || s.rate > 0:
		return nil, nil
	case s.duration > signAhead:
		fmt.Fprintf(s.say, "swarm: signing while reporting, for it takes longer than %s: the signatures take their share of this machine\n",
			signAhead)
		return nil, nil
	}
	side := &swarm{options: s.options, nodes: s.nodes, dialer: s.dialer, epoch: s.epoch}
	queues := make([]map[*node][]ahead, min(s.conns, max(len(s.nodes), 1)))
	failed := make([]error, len(queues))
	end := time.Now().Add(s.duration)
	side.measure(ctx, "", func(w *worker) {
		queues[w.number], failed[w.number] = w.queue(ctx, p, end)
	})
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return queues, nil
}

func (w *worker) queue(ctx context.Context, p pattern, end time.Time) (map[*node][]ahead, error) {
	queues := map[*node][]ahead{}
	var body []byte
	var failed error
	for more := true; more && failed == nil; {
		more = false
		w.share(ctx, func(n *node) {
			if n.direct || failed != nil || time.Now().After(end) {
				return
			}
			counter := n.counter + uint64(len(queues[n])) + 1
			body = p.appendTo(body[:0], n, counter)
			head, nonce, err := w.signed(n, wire.HeartbeatPath(n.id), body)
			queues[n] = append(queues[n], ahead{head, nonce, counter})
			more = w.beats == 0 || len(queues[n]) < w.beats
			failed = err
		})
	}
	return queues, failed
}

// beater is a worker that reports.
type beater struct {
	*worker
	pattern pattern
	queues  map[*node][]ahead // nil: heartbeats are signed as they are sent
	end     time.Time
	done    int    // heartbeats so far
	body    []byte // reused, as raw is: making new ones would cost as much as the gateway's own work
	raw     []byte
	dry     bool // there is nothing more to send
}

func (b *beater) run(ctx context.Context) {
	started := time.Now()
	for turn := 0; ctx.Err() == nil && !b.dry && (b.beats == 0 || turn < b.beats); turn++ {
		b.share(ctx, func(n *node) {
			due, ok := b.next(ctx, started)
			if ok && !b.dry {
				b.one(ctx, n, due)
			}
			b.dry = b.dry || !ok
		})
	}
}

// next waits for the time of the next heartbeat when there is a pace to keep. ok is false at the end.
func (b *beater) next(ctx context.Context, started time.Time) (due time.Time, ok bool) {
	if b.rate > 0 {
		place := float64(b.done*b.of + b.number)
		due = started.Add(time.Duration(place / b.rate * float64(time.Second)))
		if due.After(b.end) {
			pause(ctx, time.Until(b.end))
			return due, false
		}
		if wait := time.Until(due); wait > 0 {
			pause(ctx, wait)
		}
	}
	b.done++
	return due, time.Now().Before(b.end) && ctx.Err() == nil
}

// one sends one heartbeat.
func (b *beater) one(ctx context.Context, n *node, due time.Time) {
	q := sent{from: due}
	switch {
	case n.direct:
		n.counter++
		b.body = b.pattern.appendTo(b.body[:0], n, n.counter)
		b.raw = append(appendHead(b.raw[:0], b.dialer.host, wire.HeartbeatPath(n.id), len(b.body)), "\r\n"...)
		b.raw = append(b.raw, b.body...)
	case b.queues != nil:
		made, ok := b.ahead(n)
		if !ok {
			b.dry = true
			return
		}
		n.counter = made.counter
		q.nonce = made.nonce
		b.raw = b.pattern.appendTo(append(b.raw[:0], made.head...), n, made.counter)
	default:
		n.counter++
		b.body = b.pattern.appendTo(b.body[:0], n, n.counter)
		head, nonce, err := b.signed(n, wire.HeartbeatPath(n.id), b.body)
		if err != nil {
			b.tally.refuse(codeForeign, err.Error())
			return
		}
		b.raw = append(append(b.raw[:0], head...), b.body...)
		q.nonce = nonce
	}
	if q.nonce != "" && !b.peer && (b.verify || b.done%proofSample == 0) {
		q.prove = b.proof(q.nonce)
	}
	q.raw = b.raw
	b.send(ctx, n, q)
}

// ahead takes the node's next heartbeat that was signed before. After a restart of the gateway the others are of no use: from then
// on each is signed when it is sent.
func (b *beater) ahead(n *node) (ahead, bool) {
	queue := b.queues[n]
	if len(queue) == 0 {
		return ahead{}, false
	}
	if !ofEpoch(queue[0].nonce, b.epoch.String()) {
		b.queues = nil
		n.counter++
		b.body = b.pattern.appendTo(b.body[:0], n, n.counter)
		head, nonce, err := b.signed(n, wire.HeartbeatPath(n.id), b.body)
		return ahead{head, nonce, n.counter}, err == nil
	}
	b.queues[n] = queue[1:]
	return queue[0], true
}
