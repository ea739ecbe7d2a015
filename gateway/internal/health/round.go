package health

import (
	"context"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/health/condition"
)

// Round looks at what no heartbeat tells: nodes that are silent, rules that were switched off, nodes whose state is not what their
// findings want, and nodes that are gone.
func (d *Service) Round(ctx context.Context) {
	if !d.Ready() {
		return
	}
	var move []string
	var count census
	for _, n := range d.Nodes() {
		if n.State == wire.StateRetired {
			continue
		}
		count.count(n)
		if !isJudged(n) {
			continue
		}
		var words []string
		if d.fallsSilent(n) {
			words = d.lastWords(ctx, n.ID)
		}
		if d.lookAt(n, words) {
			move = append(move, n.ID)
		}
		if d.isOverdue(n) {
			count.overdue = append(count.overdue, n)
		}
	}
	if d.forgetGone() {
		d.warn(ctx, "findings of retired nodes stay in the database", d.Records.Forget(ctx))
	}
	d.warn(ctx, "nodes could not be moved by their findings", d.apply(ctx, move))
	d.retireSilent(ctx, &count)
}

// forgetGone drops what is kept of nodes that are retired, and tells that nothing is wrong with them any more. It reports whether the
// database may have findings of them.
func (d *Service) forgetGone() bool {
	var unwell []string
	d.mu.Lock()
	for id, w := range d.nodes {
		if n, known := d.Node(id); known && n.State != wire.StateRetired {
			continue
		}
		if len(w.tracks) > 0 {
			unwell = append(unwell, id)
		}
		delete(d.nodes, id)
	}
	d.mu.Unlock()
	for _, id := range unwell {
		d.Tell(id, nil)
	}
	return len(unwell) > 0
}

func (d *Service) warn(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		d.Logger.Warn(what, "error", err)
	}
}

// lookAt judges one node, whose last words are these if it falls silent. It reports whether its findings are to be told again, or its
// state is not what they want.
func (d *Service) lookAt(n *api.NodeRow, words []string) (applies bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := *d.settings.Load()
	w := d.nodes[n.ID]
	for i := range d.rules {
		r, off := b.of(&d.rules[i], n)
		switch {
		case off && w != nil:
			d.close(w, n, r, "the rule is switched off")
		case r.Name == condition.NodeStale && !off:
			d.lookForSilence(n, r, words)
		}
		if !r.Word && (r.moves() && w.has(r.Name)) != slices.Contains(n.StateReasons, r.Name) {
			applies = true
		}
	}
	if isOld := n.Status == wire.StatusStale; w != nil && w.old != isOld && len(w.tracks) > 0 {
		w.old = isOld
		return true
	}
	return applies
}

func (w *watch) has(rule string) bool {
	if w == nil {
		return false
	}
	for k, t := range w.tracks {
		if k.rule == rule && t.Open {
			return true
		}
	}
	return false
}

// lookForSilence opens a finding where a node that costs money is not heard from. It began with the last heartbeat.
func (d *Service) lookForSilence(n *api.NodeRow, r *rule, words []string) {
	var l look
	at := d.Now()
	switch {
	case n.PricePerHour == nil, n.Status != wire.StatusStale:
		l.Verdict = good
	case d.nodes[n.ID].has(r.Name): // its text has the last words, and Findings says what it has cost by now
	case n.LastSeen != nil && at.Sub(*n.LastSeen) >= time.Duration(r.Limit*float64(time.Minute)):
		l = look{Verdict: bad, Text: condition.Silence(n, at)}
		at = *n.LastSeen
		if len(words) > 0 {
			l.Text += lastly + strings.Join(words, "; ")
		}
	}
	if l.Verdict == bad || d.nodes[n.ID] != nil {
		d.see(d.watch(n.ID), n, r, "", l, at, time.Hour)
	}
}

// fallsSilent is true for a node that costs money, is not heard from, and has no finding of that yet.
func (d *Service) fallsSilent(n *api.NodeRow) bool {
	if n.PricePerHour == nil || n.Status != wire.StatusStale {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.nodes[n.ID].has(condition.NodeStale)
}

// lastWords are what a node last said is wrong on it. They are read once, when it falls silent.
func (d *Service) lastWords(ctx context.Context, id string) []string {
	words, err := d.Records.Notices(ctx, id)
	d.warn(ctx, "the last words of a silent node could not be read", err)
	return words
}

// lastly stands in a finding before what the node said last.
const lastly = "; its last words: "

// stillSilent says again what the silence of a node has cost, which grows, with the words that were read when it began.
func (d *Service) stillSilent(n *api.NodeRow, text string) string {
	if n.Status != wire.StatusStale { // the finding ends when that has lasted for a moment
		return "heard again, after a silence"
	}
	_, words, said := strings.Cut(text, lastly)
	text = condition.Silence(n, d.Now())
	if said {
		text += lastly + words
	}
	return text
}
