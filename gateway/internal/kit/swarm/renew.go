package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"muster/agent/wire"
)

// renewAll renews every node's certificate once and uses the new one once. That first use ends the old one.
func (s *swarm) renewAll(ctx context.Context) error {
	if err := s.prepare(s.nodes, func(n *node) (err error) { n.next, err = n.newKey(); return err }); err != nil {
		return err
	}
	s.connectAll(ctx)
	var mu sync.Mutex
	answers := map[*node][]byte{}
	s.measure(ctx, "renew", func(w *worker) {
		w.share(ctx, func(n *node) {
			if body, ok := w.renewal(ctx, n); ok {
				mu.Lock()
				answers[n] = body
				mu.Unlock()
			}
		})
	})
	for _, n := range s.nodes {
		var a wire.RenewAnswer
		if answers[n] == nil {
			continue
		}
		if err := json.Unmarshal(answers[n], &a); err != nil {
			return fmt.Errorf("the renewal of %s: %w", n.name, err)
		}
		if err := n.adopt(n.next, a.Certificate); err != nil {
			return err
		}
	}
	if err := s.save(); err != nil {
		return err
	}
	return s.firstUse(ctx)
}

// renewal asks for one certificate, and gives the answer's body.
func (w *worker) renewal(ctx context.Context, n *node) (body []byte, ok bool) {
	asked, err := json.Marshal(wire.RenewRequest{CSR: n.csr})
	if err != nil {
		w.tally.refuse(codeForeign, err.Error())
		return nil, false
	}
	q, err := w.request(n, wire.RenewPath(n.id), asked)
	if err != nil {
		w.tally.refuse(codeForeign, err.Error())
		return nil, false
	}
	a, ok := w.send(ctx, n, q)
	return a.body, ok
}

// firstUse sends one heartbeat with each new certificate. It is a phase of its own, because it costs the gateway a durable write.
func (s *swarm) firstUse(ctx context.Context) error {
	p, err := newPattern(s.gpus)
	if err != nil {
		return err
	}
	s.connectAll(ctx)
	s.measure(ctx, "first use", func(w *worker) {
		w.share(ctx, func(n *node) {
			n.counter++
			q, err := w.request(n, wire.HeartbeatPath(n.id), p.appendTo(nil, n, n.counter))
			if err != nil {
				w.tally.refuse(codeForeign, err.Error())
				return
			}
			w.send(ctx, n, q)
		})
	})
	return nil
}
