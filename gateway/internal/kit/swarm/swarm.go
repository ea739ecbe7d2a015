package main

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muster/agent/wire"
)

// swarm is one run: the nodes, what they know of the gateway, and what came of their requests.
type swarm struct {
	options
	say    io.Writer // progress and remarks, for a person
	dialer dialer
	epoch  *epoch
	pinned pinned
	nodes  []*node
	phases []*phase

	unplayed []keptNode // of the file of -keep, beyond those of this run
}

// epoch is the gateway's. Every nonce has it, and a restart changes it.
type epoch struct{ now atomic.Value }

func (e *epoch) String() string {
	text, _ := e.now.Load().(string)
	return text
}

// learn takes over what an answer said.
func (e *epoch) learn(said string) {
	if said != "" && said != e.String() {
		e.now.Store(said)
	}
}

// pinned is what nodes learn at enrolment and believe from then on.
type pinned struct {
	rootsPEM  string
	roots     *x509.CertPool
	answerKey ed25519.PublicKey
}

// play does what the options ask for, phase by phase. In turns it takes its lines from in and answers each on out.
func (s *swarm) play(ctx context.Context, in io.Reader, out io.Writer) error {
	s.dialer = dialer{address: s.gateway.Host, host: s.gateway.Host}
	if s.gateway.Scheme == "https" {
		// Before enrolment the handshake proves the gateway, and signed answers prove themselves; only mTLS needs the chain.
		s.dialer.tls = &tls.Config{
			InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, ServerName: s.gateway.Hostname(),
			DynamicRecordSizingDisabled: true, // as agents have it
		}
	}
	if s.stepCA != "" {
		return s.playStepCA(ctx)
	}
	if err := s.load(); err != nil {
		return err
	}
	if err := s.meet(ctx); err != nil {
		return err
	}
	if err := s.enrol(ctx); err != nil {
		return err
	}
	if err := s.save(); err != nil {
		return err
	}
	if s.inTurns {
		err := s.playTurns(ctx, in, out)
		s.hangUp()
		return err
	}
	if s.work && len(s.nodes) > 0 {
		return s.giveWork(ctx)
	}
	if s.duration > 0 && len(s.nodes) > 0 {
		if err := s.beat(ctx); err != nil {
			return err
		}
	}
	if s.renew && ctx.Err() == nil {
		if err := s.renewAll(ctx); err != nil {
			return err
		}
	}
	s.hangUp()
	return ctx.Err()
}

// meet learns the gateway's epoch, which every answer carries.
func (s *swarm) meet(ctx context.Context) error {
	c, err := s.dialer.dial(ctx, nil)
	if err != nil {
		return fmt.Errorf("%w; is the gateway running?", err)
	}
	defer c.Close()
	a, err := c.exchange([]byte("GET " + wire.PathHealth + " HTTP/1.1\r\nHost: " + s.dialer.host + "\r\n\r\n"))
	switch {
	case err != nil:
		return fmt.Errorf("GET %s: %w", wire.PathHealth, err)
	case s.peer:
		return nil
	case a.epoch == "":
		return errors.New("what answers there is no muster gateway: its answer has no Muster-Epoch")
	}
	s.epoch.learn(a.epoch)
	return nil
}

// hangUp closes the nodes' own connections. Connections that nodes share are closed at the end of each phase.
func (s *swarm) hangUp() {
	for _, n := range s.nodes {
		n.hangUp()
	}
}

// worker is one of the goroutines of a phase. Each node belongs to one worker, so that a node's requests keep their order and nothing
// needs a lock.
type worker struct {
	*swarm
	number, of int
	tally      tally
	again      tally     // of those that lost a connection first
	lastAgain  time.Time // when the last of these was answered
	shared     *conn     // for nodes that sign
}

// share calls work for each of this worker's nodes until the run ends.
func (w *worker) share(ctx context.Context, work func(n *node)) {
	for i := w.number; i < len(w.nodes) && ctx.Err() == nil; i += w.of {
		work(w.nodes[i])
	}
}

// measure runs one phase with a bounded number of workers and keeps what came of it.
func (s *swarm) measure(ctx context.Context, name string, work func(w *worker)) *phase {
	p := &phase{name: name}
	workers := make([]*worker, min(s.conns, max(len(s.nodes), 1)))
	for i := range workers {
		workers[i] = &worker{swarm: s, number: i, of: len(workers)}
	}
	s.dialShared(ctx, workers)
	var wait sync.WaitGroup
	started := time.Now()
	spent := processor()
	for _, w := range workers {
		wait.Go(func() { work(w) })
	}
	wait.Wait()
	p.elapsed = time.Since(started)
	p.spent = processor() - spent
	back := &phase{name: "reconnect"}
	for _, w := range workers {
		p.tally.merge(&w.tally)
		back.tally.merge(&w.again)
		back.elapsed = max(back.elapsed, w.lastAgain.Sub(started))
		if w.shared != nil {
			w.shared.Close()
		}
	}
	s.phases = append(s.phases, p)
	if len(back.tally.latency) > 0 {
		s.phases = append(s.phases, back)
	}
	return p
}

// dialShared opens the connections that nodes share before the clock runs. If that fails, the first request tries again.
func (s *swarm) dialShared(ctx context.Context, workers []*worker) {
	if !slices.ContainsFunc(s.nodes, func(n *node) bool { return n == nil || !n.direct }) {
		return
	}
	var wait sync.WaitGroup
	for _, w := range workers {
		wait.Go(func() { w.shared, _ = w.dialer.dial(ctx, nil) })
	}
	wait.Wait()
}

// prepare runs work for every node on all cores, outside of any phase, and gives the first error.
func (s *swarm) prepare(nodes []*node, work func(n *node) error) error {
	var wait sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	failed := make([]error, cores)
	for core := range cores {
		wait.Go(func() {
			for i := core; i < len(nodes) && failed[core] == nil; i += cores {
				failed[core] = work(nodes[i])
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}
