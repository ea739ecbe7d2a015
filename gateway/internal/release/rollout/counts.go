package rollout

// Where a node of a channel stands that is in no state of a rollout.
const (
	Running = "running" // it runs the release
	Waiting = "waiting" // online, and not let in yet
	Held    = "held"    // by its maintenance window, or by something else that passes
	Pinned  = "pinned"
	Unable  = "unable"
	Offline = "offline"
)

// Counts are how many nodes of a channel stand where.
type Counts struct {
	Nodes      int // of the channel: all that are on record
	Running    int // that run its release
	Waiting    int // online, and not let in yet
	Admitted   int // let in, and not through
	Failed     int // that went back, or could not install it
	Silent     int // that fell silent after they were let in
	Late       int // that are heard, and did not begin or get through in time
	Unwell     int // that run it, and do not do well with it
	Held       int // by their maintenance window, or by a window that cannot be read
	Pinned     int
	Unable     int // whose agent cannot update itself
	Offline    int
	Committed  int // of this rollout
	RolledBack int // of this rollout, among Failed
}

// Add counts a node by where it stands.
func (c *Counts) Add(state string) {
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
