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
	started    time.Time // of the phase
	done       int       // requests that came due so far
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

// next waits for the time of the next request when there is a pace to keep. ok is false when the time of the run is over.
func (w *worker) next(ctx context.Context) (due time.Time, ok bool) {
	if w.rate > 0 {
		place := float64(w.done*w.of + w.number)
		due = w.started.Add(time.Duration(place / w.rate * float64(time.Second)))
		if due.After(w.end()) {
			pause(ctx, time.Until(w.end()))
			return due, false
		}
		pause(ctx, time.Until(due))
	}
	w.done++
	return due, time.Now().Before(w.end()) && ctx.Err() == nil
}

func (w *worker) end() time.Time { return w.started.Add(w.duration) }

// signs tells whether nodes sign, and so share connections.
func (s *swarm) signs() bool { return s.transport != viaMTLS }

// measure runs one phase with a bounded number of workers and keeps what came of it. If the workers' nodes share connections, each worker
// opens one before the clock runs. If that fails, the first request tries again.
func (s *swarm) measure(ctx context.Context, name string, shared bool, work func(w *worker)) {
	p := &phase{name: name}
	workers := make([]*worker, min(s.conns, s.options.nodes))
	var dial, wait sync.WaitGroup
	for i := range workers {
		w := &worker{swarm: s, number: i, of: len(workers)}
		workers[i] = w
		if shared {
			dial.Go(func() { w.shared, _ = w.dialer.dial(ctx, nil) })
		}
	}
	dial.Wait()
	started := time.Now()
	spent := processor()
	for _, w := range workers {
		w.started = started
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
