// Package health finds what is wrong with nodes, by rules, and says it with the next step.
//
// It looks at every heartbeat in memory. A rule opens a finding when what it looks at was bad often and long enough, and closes it when
// that was good often and long enough: a value that flaps does not flap the node. A missing value changes nothing. So nothing is found
// or cured because the gateway was away, or because a heartbeat was left out. Only changes are written.
package health

import (
	"muster/agent/wire"
	"muster/gateway/internal/health/condition"
)

// rule is a condition of the table as it counts on one node.
type rule struct{ condition.Condition }

// moves is true if the rule's findings move a node by Judge.
func (r *rule) moves() bool { return r.Severity == wire.SeveritySevere && !r.Word }

// rules are the conditions that heartbeats, or their absence, tell.
func rules() []rule {
	var all []rule
	for _, c := range condition.All() {
		if c.IsFound() {
			all = append(all, rule{c})
		}
	}
	return all
}

// What one look at one thing says.
type look = condition.Look

const (
	bad     = condition.Bad
	between = condition.Between
	good    = condition.Good
)
