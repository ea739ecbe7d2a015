package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// layerTime is how long one layer may take.
const layerTime = 5 * time.Minute

// updates are the nodes that follow their channel: each hears of a release in a heartbeat, waits its share of the stagger, fetches the
// layer over a connection of its own, and is on trial, as an agent is. Its other heartbeats go on meanwhile.
type updates struct {
	*swarm

	under sync.WaitGroup // the updates under way

	mu     sync.Mutex
	layers tally // layers fetched, from the connection to the last byte
	trials tally // heartbeats of nodes on trial
	failed tally // updates that did not come to their end
}

// follower is what a node knows of its releases. Its lock is held while the node's own connection is in use: on trial, the update uses it
// instead of the worker.
type follower struct {
	mu       sync.Mutex
	program  string // digest of what it runs
	obeyed   int64
	channel  string
	says     pattern // its heartbeats
	updating bool
	onTrial  bool
}

// prepareUpdates makes every node one that can update itself.
func (s *swarm) prepareUpdates() (*updates, error) {
	for _, n := range s.nodes {
		if n.follower != nil {
			continue
		}
		n.follower = &follower{program: s.program, channel: wire.DefaultChannel}
		if err := n.say(s.gpus, wire.Update{}); err != nil {
			return nil, err
		}
	}
	return &updates{swarm: s}, nil
}

// say makes the node's heartbeats say this of an update, beside what all of them say.
func (n *node) say(gpus int, u wire.Update) error {
	u.Channel = n.channel
	u.Sequence = n.obeyed
	says, err := newPattern(gpus, n.program, &u)
	n.says = says
	return err
}

// hear sends a heartbeat of a node that follows its channel. A node on trial is left to its update.
func (u *updates) hear(ctx context.Context, w *worker, n *node, due time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.onTrial {
		return
	}
	answer, ok := u.heartbeat(ctx, w, n, due)
	if !ok || n.updating || answer.Release == "" {
		return
	}
	n.updating = true
	u.under.Go(func() {
		err := u.update(ctx, n)
		if err != nil && ctx.Err() == nil {
			u.mu.Lock()
			u.failed.refuse(codeForeign, "the update of "+n.name+": "+err.Error())
			u.mu.Unlock()
		}
		n.mu.Lock()
		n.updating = false
		n.onTrial = false
		n.mu.Unlock()
	})
}

// heartbeat sends one heartbeat. The node is locked.
func (u *updates) heartbeat(ctx context.Context, w *worker, n *node, due time.Time) (answer wire.HeartbeatAnswer, ok bool) {
	n.counter++
	body := n.says.appendTo(nil, n, n.counter)
	raw := append(appendHead(nil, u.dialer.host, wire.HeartbeatPath(n.id), len(body)), "\r\n"...)
	a, ok := w.send(ctx, n, sent{raw: append(raw, body...), from: due})
	if !ok {
		return answer, false
	}
	if err := json.Unmarshal(a.body, &answer); err != nil {
		w.tally.refuse(codeForeign, err.Error())
		return answer, false
	}
	return answer, true
}

// update takes a node from what its channel says to the end of its trial.
func (u *updates) update(ctx context.Context, n *node) error {
	wanted, pointer, err := u.ask(ctx, n)
	if err != nil || wanted == nil {
		return err
	}
	at := slices.IndexFunc(pointer.Platforms, func(p wire.ReleasePlatform) bool { return p.OS == runtime.GOOS && p.Arch == runtime.GOARCH })
	if at < 0 {
		return errors.New("the release has no agent for this machine")
	}
	p := pointer.Platforms[at]
	if p.Program == n.program { // only the number is new
		return u.obeys(n, pointer, wire.Update{})
	}
	if wanted.StaggerSeconds > 0 {
		pause(ctx, rand.N(time.Duration(wanted.StaggerSeconds)*time.Second))
	}
	about := wire.Update{Release: pointer.Digest, About: pointer.Sequence, Phase: wire.UpdateFetching}
	if err := u.obeys(n, pointer, about); err != nil {
		return err
	}
	if err := u.fetch(ctx, n, wanted.URL, p); err != nil {
		return err
	}
	return u.try(ctx, n, p.Program, about)
}

// ask asks what the node should run; nil: what it runs.
func (u *updates) ask(ctx context.Context, n *node) (*wire.Release, wire.ReleasePointer, error) {
	var pointer wire.ReleasePointer
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.connect(ctx, u.dialer, u.pinned.roots); err != nil {
		return nil, pointer, err
	}
	a, err := n.conn.exchange(appendGet(nil, u.dialer.host, wire.PathRelease))
	if err != nil || a.status == http.StatusNoContent {
		return nil, pointer, err
	}
	if a.status != http.StatusOK {
		return nil, pointer, errors.New(shorten(a.body))
	}
	var wanted wire.Release
	var envelope sign.Envelope
	if err := json.Unmarshal(a.body, &wanted); err != nil {
		return nil, pointer, err
	}
	if err := json.Unmarshal(wanted.Pointer, &envelope); err != nil {
		return nil, pointer, err
	}
	return &wanted, pointer, json.Unmarshal(envelope.Payload, &pointer)
}

// obeys notes a pointer's number, and what the node says from now on.
func (u *updates) obeys(n *node, p wire.ReleasePointer, says wire.Update) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.channel = p.Channel
	n.obeyed = p.Sequence
	return n.say(u.gpus, says)
}

// fetch gets a layer over a connection of its own, and checks it.
func (u *updates) fetch(ctx context.Context, n *node, path string, p wire.ReleasePlatform) error {
	beside := &node{key: n.key, chain: n.chain, from: n.from}
	defer beside.hangUp()
	started := time.Now()
	if err := beside.connect(ctx, u.dialer, u.pinned.roots); err != nil {
		return err
	}
	sum := sha256.New()
	a, size, err := beside.conn.fetch(appendGet(nil, u.dialer.host, path), sum, layerTime)
	took := time.Since(started)
	switch {
	case err != nil:
		return err
	case a.status != http.StatusOK:
		return errors.New(shorten(a.body))
	case size != p.Size || "sha256:"+hex.EncodeToString(sum.Sum(nil)) != p.Digest:
		return fmt.Errorf("the layer %s came with other content of %d bytes", p.Digest, size)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.layers.latency.add(took)
	return nil
}

// try starts the node anew with the new program, and reports as often as a trial takes.
func (u *updates) try(ctx context.Context, n *node, program string, about wire.Update) error {
	w := &worker{swarm: u.swarm}
	defer func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.trials.merge(&w.tally)
	}()
	n.mu.Lock()
	n.onTrial = true
	n.hangUp()
	n.newRun()
	n.program = program
	n.mu.Unlock()
	for i := range wire.TrialBeats + 1 {
		about.Phase = wire.UpdateTrial
		if i == wire.TrialBeats {
			about.Phase = wire.UpdateCommitted
		}
		if err := u.trial(ctx, w, n, about); err != nil {
			return err
		}
		pause(ctx, u.trialPause)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.say(u.gpus, wire.Update{})
}

// trial sends one heartbeat of a node on trial. No worker sends one meanwhile.
func (u *updates) trial(ctx context.Context, w *worker, n *node, about wire.Update) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.say(u.gpus, about); err != nil {
		return err
	}
	if _, ok := u.heartbeat(ctx, w, n, time.Time{}); !ok {
		return errors.New("a heartbeat of its trial was not accepted")
	}
	return nil
}

// end waits for the updates that are under way, and adds what came of all to the heartbeats' phase.
func (u *updates) end(beats *phase) {
	u.under.Wait()
	beats.tally.merge(&u.trials)
	u.layers.merge(&u.failed)
	u.phases = append(u.phases, &phase{name: "layer", tally: u.layers, elapsed: beats.elapsed})
}

// appendGet adds a GET without a body.
func appendGet(b []byte, host, path string) []byte {
	return append(b, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: muster-swarm\r\n\r\n"...)
}
