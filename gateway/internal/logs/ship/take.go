package ship

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/agent/spool"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/logs"
)

const (
	burst      = 10       // seconds over which a rate is meant
	tenantRate = 16 << 20 // bytes that the nodes of one tenant may ship in a second
	pause      = 5        // seconds, at least, that a node above its rate is asked to wait
	mostPause  = 60
	leastLine  = 60 // bytes of the shortest line that an agent sends
	mostLines  = wire.MaxLogBatch / leastLine
)

// node is one that ships.
type node struct {
	mu    sync.Mutex
	spool string
	next  int64 // in its spool
	rate  rate
	heard time.Time
}

// rate is an allowance in bytes.
type rate struct {
	until time.Time // when what was taken is within the rate again
}

// take takes so many bytes, or says how long to wait. A batch that is larger than the whole allowance goes through when the allowance is
// whole.
func (r *rate) take(bytes, perSecond int, now time.Time) (wait time.Duration) {
	if earliest := now.Add(-burst * time.Second); r.until.Before(earliest) || r.until.After(now.Add(time.Hour)) { // or the clock was set
		r.until = earliest
	}
	if ahead := r.until.Sub(now); ahead > 0 {
		return ahead
	}
	r.until = r.until.Add(time.Duration(float64(bytes) / float64(perSecond) * float64(time.Second)))
	return 0
}

// Wanted returns what a node is to ship; nil: nothing. unshipped are the sources that the node says it does not ship, with the reasons.
// Without rules the call costs nothing.
func (d *Service) Wanted(nodeID string, unshipped map[string]string) *wire.LogShipping {
	rules := *d.rules.Load()
	if len(rules) == 0 {
		return nil
	}
	n, ok := d.Node(nodeID)
	if !ok {
		return nil
	}
	want, _ := wanted(rules, n)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.unshipped, nodeID)
	if want != nil && len(unshipped) > 0 {
		d.unshipped[nodeID] = unshipped
	}
	return want
}

// withheld counts the nodes of a rule that do not ship all that it wants, and tells why the first of them does not.
func (d *Service) withheld(r *rule) (nodes int, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := ""
	for id, sources := range d.unshipped {
		n, ok := d.Node(id)
		at := slices.IndexFunc(r.Sources, func(source string) bool { return sources[source] != "" })
		if !ok || at < 0 || !r.picks(n) {
			continue
		}
		if nodes++; first == "" || n.Name < first {
			first = n.Name
			said := sources[r.Sources[at]]
			why = fmt.Sprintf("%s does not ship %s: %s", n.Name, r.Sources[at], wire.Head(said, wire.MaxUnshippedWhy))
		}
	}
	return nodes, why
}

// wanted is the union of what the rules of a node say.
func wanted(rules []*rule, n *api.NodeRow) (*wire.LogShipping, []*rule) {
	var of []*rule
	sources := map[string]bool{}
	want := &wire.LogShipping{}
	for _, r := range rules {
		if !r.picks(n) {
			continue
		}
		of = append(of, r)
		want.BytesPerSecond = max(want.BytesPerSecond, r.BytesPerSecond)
		for _, source := range r.Sources {
			sources[source] = true
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	want.Sources = slices.Sorted(maps.Keys(sources))
	return want, of
}

// kept is a line as the buffers have it.
type kept struct {
	Tenant string       `json:"t"`
	Node   string       `json:"n"`
	ID     string       `json:"i"`
	Line   wire.LogLine `json:"l"`
}

// Take takes a batch of a node that has proven who it is. When it returns without an error, the lines are in the buffers.
func (d *Service) Take(_ context.Context, nodeID string, body []byte) (wire.LogTaken, error) {
	var b wire.LogBatch
	if err := json.Unmarshal(body, &b); err != nil || !name(b.Spool) || b.First < 1 || b.First > wire.MaxNumber {
		return wire.LogTaken{}, bad("the body is not a batch of log lines", "agent and gateway must be of the same protocol")
	}
	if len(b.Lines) > mostLines { // a line in a buffer is longer than {} in a batch
		return wire.LogTaken{}, bad(fmt.Sprintf("the batch has %d lines", len(b.Lines)), fmt.Sprintf("at most %d at once", mostLines))
	}
	n, ok := d.Node(nodeID)
	if !ok {
		return wire.LogTaken{}, wire.Refuse(wire.CodeUnavailable, "the gateway has not read this node yet", "try again")
	}
	from := d.node(nodeID)
	from.mu.Lock()
	defer from.mu.Unlock()
	now := d.Now()
	from.heard = now
	behind := b.First + int64(len(b.Lines))
	fresh := b.Lines
	if from.spool == b.Spool {
		known := min(max(from.next-b.First, 0), int64(len(b.Lines)))
		fresh = b.Lines[known:]
	}
	if len(fresh) == 0 {
		return wire.LogTaken{Next: behind}, nil
	}
	want, of := wanted(*d.rules.Load(), n)
	if want == nil { // a rule went meanwhile
		return wire.LogTaken{Next: behind}, nil
	}
	if wait := d.above(from, n.Tenant, want.BytesPerSecond, max(len(body), leastLine*len(b.Lines)), now); wait > 0 {
		return wire.LogTaken{Next: behind - int64(len(fresh)), PauseSeconds: wait}, nil
	}
	if err := d.keep(of, n, fresh, now); err != nil {
		d.Logger.Warn("log lines of a node cannot be kept, it is asked to send them again", "node", n.Name, "error", err)
		return wire.LogTaken{}, wire.Refuse(wire.CodeUnavailable, "the gateway cannot keep log lines now", "try again later")
	}
	from.spool = b.Spool
	from.next = behind
	return wire.LogTaken{Next: behind}, nil
}

// name tells whether a text can be a spool's name.
func name(s string) bool {
	return s != "" && len(s) <= wire.MaxRunID && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

func (d *Service) node(id string) *node {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[id]
	if n == nil {
		n = &node{heard: d.Now()}
		d.nodes[id] = n
	}
	return n
}

// above says for how many seconds a node has to wait; 0: it need not.
func (d *Service) above(from *node, tenant string, perSecond, bytes int, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.rates[tenant]
	if of == nil {
		of = &rate{}
		d.rates[tenant] = of
	}
	before := from.rate
	wait := from.rate.take(bytes, perSecond, now)
	if wait == 0 {
		if wait = of.take(bytes, tenantRate, now); wait > 0 {
			from.rate = before
		}
	}
	if wait == 0 {
		return 0
	}
	d.held[tenant]++
	return min(max(int(wait/time.Second)+1, pause), mostPause)
}

// Held counts batches that nodes were asked to send later, by tenant.
func (d *Service) Held() map[string]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.held)
}

// keep puts lines into the buffers of the rules, and waits until they are on the disk.
func (d *Service) keep(of []*rule, n *api.NodeRow, lines []wire.LogLine, now time.Time) error {
	records := make([][]byte, len(lines))
	for i := range lines {
		if wire.CheckLogSource(lines[i].Source) != nil {
			lines[i].Source = wire.LogAgent
		}
		lines[i] = logs.Proper(lines[i], now)
		text, err := json.Marshal(kept{n.Tenant, n.Name, n.ID, lines[i]})
		if err != nil {
			return err
		}
		records[i] = text
	}
	return d.share(of, lines, records)
}

// share gives each rule its lines. A buffer that takes nothing counts them as lost, so that it stops no other rule. If all take nothing,
// the node keeps them.
func (d *Service) share(of []*rule, lines []wire.LogLine, records [][]byte) error {
	var took []*rule
	lost := map[*rule]int64{}
	var failed error
	for _, r := range of {
		mine, missing := r.chosen(lines, records)
		if _, err := r.box.Append(mine...); err != nil {
			lost[r] = int64(len(mine))
			failed = errors.Join(failed, fmt.Errorf("rule %s: %w", r.Name, err))
			continue
		}
		if len(mine) > 0 {
			took = append(took, r)
			r.state.drop(ReasonNode, missing)
		}
	}
	if len(took) == 0 {
		return failed
	}
	for r, n := range lost {
		r.box.Lose(n, spool.ReasonFull)
	}
	unsynced := 0
	for _, r := range took {
		if err := r.box.Sync(); err != nil {
			unsynced++
			failed = errors.Join(failed, fmt.Errorf("rule %s: %w", r.Name, err))
		}
	}
	if unsynced == len(took) {
		return failed
	}
	if failed != nil {
		d.Logger.Warn("a buffer keeps no log lines, others do", "error", failed)
	}
	return nil
}

// chosen are the lines that a rule wants, and how many the node says are missing. What is missing of the node's own spool may be of any
// source, and the agent says it as itself. Another source that no rule names gets into no sink: each is a stream there.
func (r *rule) chosen(lines []wire.LogLine, records [][]byte) (mine [][]byte, missing int64) {
	for i := range lines {
		wanted := slices.Contains(r.Sources, lines[i].Source)
		if wanted || lines[i].Dropped > 0 && lines[i].Source == wire.LogAgent {
			mine = append(mine, records[i])
			missing = min(missing+lines[i].Dropped, wire.MaxNumber)
		}
	}
	return mine, missing
}

// forget forgets nodes that have shipped nothing for long, and those that are gone. The next batch of one is taken as a new one.
func (d *Service) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.Now().Add(-forgetAfter)
	maps.DeleteFunc(d.nodes, func(_ string, n *node) bool {
		if !n.mu.TryLock() { // it ships now, and may wait for d.mu
			return false
		}
		defer n.mu.Unlock()
		return n.heard.Before(before)
	})
	maps.DeleteFunc(d.unshipped, func(id string, _ map[string]string) bool {
		_, ok := d.Node(id)
		return !ok
	})
}
