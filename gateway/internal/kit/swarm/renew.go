package main

import (
	"context"
	"encoding/json"
	"fmt"

	"muster/agent/wire"
)

// renewAll renews every node's certificate once and uses the new one once. That first use ends the old one.
func (s *swarm) renewAll(ctx context.Context) error {
	if err := s.prepare(s.nodes, func(n *node) (err error) { n.next, err = n.newKey(); return err }); err != nil {
		return err
	}
	s.connectAll(ctx)
	s.measure(ctx, "renew", s.signs(), func(w *worker) {
		w.share(ctx, func(n *node) { n.answer = w.renewal(ctx, n) })
	})
	for _, n := range s.nodes {
		var a wire.RenewAnswer
		if n.answer == nil {
			continue
		}
		if err := json.Unmarshal(n.answer, &a); err != nil {
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

// renewal asks for one certificate, and gives the answer's body, nil if there is none.
func (w *worker) renewal(ctx context.Context, n *node) []byte {
	asked, err := json.Marshal(wire.RenewRequest{CSR: n.csr})
	var q sent
	if err == nil {
		q, err = w.request(n, wire.RenewPath(n.id), asked)
	}
	if err != nil {
		w.tally.refuse(codeForeign, err.Error())
		return nil
	}
	if a, ok := w.send(ctx, n, q); ok {
		return a.body
	}
	return nil
}

// firstUse sends one heartbeat with each new certificate. It is a phase of its own, because it costs the gateway a durable write.
func (s *swarm) firstUse(ctx context.Context) error {
	p, err := newPattern(s.gpus)
	if err != nil {
		return err
	}
	s.connectAll(ctx)
	s.measure(ctx, "first use", s.signs(), func(w *worker) {
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
