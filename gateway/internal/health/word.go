package health

import (
	"muster/gateway/internal/health/condition"
	"slices"
	"time"
)

// Counts returns what counts against work on the node now, by what a heartbeat says. A word counts at once. It goes on to count until the
// node was well for as long as its rule says, so a node that fails at every other look stays out of work. A word whose rule is switched off
// does not count. The result is never nil.
func (d *Service) Counts(nodeID string, interval time.Duration, words []string, detail map[string]string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	counted := []string{}
	if len(words) == 0 && !d.nodes[nodeID].isFollowed() { // most heartbeats
		return counted
	}
	n, known := d.node(nodeID)
	judges := known && d.Ready() && isJudged(n)
	w := d.nodes[nodeID]
	if judges {
		w = d.watch(nodeID)
	}
	b := *d.settings.Load()
	for i := range d.rules {
		r := &d.rules[i]
		if !r.Word {
			continue
		}
		isSaid := slices.Contains(words, r.Name)
		if _, off := b.of(r, n); off && known {
			continue // the next round closes it
		}
		if judges {
			d.see(w, n, r, "", r.ofWord(isSaid, detail), d.Now(), max(4*interval, leastGap))
		}
		if isSaid || w.has(r.Name) {
			counted = append(counted, r.Name)
		}
	}
	return counted
}

func (r *rule) ofWord(isSaid bool, detail map[string]string) look {
	text := detail[r.Name]
	if text == "" {
		text = "the node says " + r.Name
	}
	return condition.Known(isSaid, text)
}

// isFollowed is true if anything is wrong with a node, or was until just now.
func (w *watch) isFollowed() bool { return w != nil && len(w.tracks) > 0 }
