package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
	prepared := s.signs() && s.rate == 0 && s.duration <= signAhead
	if prepared {
		if err := s.signAhead(p); err != nil {
			return err
		}
	}
	s.measure(ctx, "heartbeat", s.signs(), func(w *worker) {
		b := beater{worker: w, pattern: p, prepared: prepared}
		b.run(ctx)
	})
	return nil
}

// connectAll opens the connections of the nodes on mTLS: each is a full handshake.
func (s *swarm) connectAll(ctx context.Context) {
	closed := func(n *node) bool { return n.direct && n.conn == nil }
	if !slices.ContainsFunc(s.nodes, closed) {
		return
	}
	s.measure(ctx, "connect", false, func(w *worker) {
		w.share(ctx, func(n *node) {
			if !closed(n) {
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
// signer, so there will be enough.
func (s *swarm) signAhead(p pattern) error {
	end := time.Now().Add(s.duration)
	for _, n := range s.nodes {
		n.ahead = nil
	}
	for turn := 0; time.Now().Before(end) && (s.beats == 0 || turn < s.beats); turn++ {
		if err := s.prepare(s.nodes, func(n *node) error {
			if n.direct || time.Now().After(end) {
				return nil
			}
			counter := n.counter + uint64(len(n.ahead)) + 1
			head, nonce, err := s.signed(n, wire.HeartbeatPath(n.id), p.appendTo(nil, n, counter))
			n.ahead = append(n.ahead, ahead{head, nonce, counter})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// beater is a worker that reports.
type beater struct {
	*worker
	pattern  pattern
	prepared bool   // heartbeats were signed ahead, else they are signed as they are sent
	body     []byte // reused, as raw is: making new ones would cost as much as the gateway's own work
	raw      []byte
	dry      bool // there is nothing more to send
}

func (b *beater) run(ctx context.Context) {
	for turn := 0; ctx.Err() == nil && !b.dry && (b.beats == 0 || turn < b.beats); turn++ {
		b.share(ctx, func(n *node) {
			due, ok := b.next(ctx)
			if ok && !b.dry {
				b.one(ctx, n, due)
			}
			b.dry = b.dry || !ok
		})
	}
}

// one sends one heartbeat.
func (b *beater) one(ctx context.Context, n *node, due time.Time) {
	q, err := b.heartbeat(n)
	if err != nil {
		b.tally.refuse(codeForeign, err.Error())
	}
	if err != nil || b.dry {
		return
	}
	q.from = due
	if b.peer || !b.verify && b.done%proofSample != 0 {
		q.prove = nil
	}
	b.send(ctx, n, q)
}

// heartbeat makes the node's next one, or takes one that was signed ahead.
func (b *beater) heartbeat(n *node) (sent, error) {
	if b.prepared && !n.direct {
		if len(n.ahead) == 0 {
			b.dry = true
			return sent{}, nil
		}
		made := n.ahead[0]
		if ofEpoch(made.nonce, b.epoch.String()) {
			n.ahead = n.ahead[1:]
			n.counter = made.counter
			b.raw = b.pattern.appendTo(append(b.raw[:0], made.head...), n, n.counter)
			return sent{raw: b.raw, prove: b.proof(made.nonce), nonce: made.nonce}, nil
		}
		b.prepared = false // the gateway was restarted: the others are of no use either
	}
	n.counter++
	path := wire.HeartbeatPath(n.id)
	b.body = b.pattern.appendTo(b.body[:0], n, n.counter)
	if !n.direct {
		return b.request(n, path, b.body)
	}
	b.raw = append(appendHead(b.raw[:0], b.dialer.host, path, len(b.body)), "\r\n"...)
	b.raw = append(b.raw, b.body...)
	return sent{raw: b.raw}, nil
}
