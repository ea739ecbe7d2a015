package rollout

import "muster/gateway/api"

// Where a node of a channel stands that is in no state of a rollout.
const (
	Running = "running" // it runs the release
	Waiting = "waiting" // online, and not let in yet
	Held    = "held"    // by its maintenance window, or by something else that passes
	Pinned  = "pinned"
	Unable  = "unable"
	Offline = "offline"
)

// Count counts a node by its state.
func Count(c *api.RolloutCounts, state string) {
	c.Nodes++
	switch state {
	case Running:
		c.Running++
	case Waiting:
		c.Waiting++
	case Admitted, Begun:
		c.Admitted++
	case Failed:
		c.Failed++
	case RolledBack:
		c.Failed++
		c.RolledBack++
	case Silent:
		c.Silent++
	case Late:
		c.Late++
	case Unwell:
		c.Unwell++
	case Held:
		c.Held++
	case Pinned:
		c.Pinned++
	case Unable:
		c.Unable++
	case Offline:
		c.Offline++
	}
}
