package release

import "time"

// NodeUpdate is where one node stands with its channel.
type NodeUpdate struct {
	Channel  string
	Sequence int64      // the highest number that it has obeyed there
	Digest   string     // of the release that it last spoke about; "": none
	Version  string     // of that release, while it is on record
	Phase    string     // of that
	Code     string     // why it did not go on
	Detail   string     // the same for a person
	At       *time.Time // when it said so; nil: never
	Held     string     // why it gets nothing now, for a person
	Pinned   bool
	Unable   bool // its agent cannot update itself
}

// Updating tells where a node stands; nil where it was not heard of. It reads memory alone, so that lists may ask for each node.
func (d *Desk) Updating(nodeID string) *NodeUpdate {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[nodeID]
	if n == nil {
		return nil
	}
	out := &NodeUpdate{Channel: n.channel, Sequence: n.obeyed, Digest: n.said.Digest, Version: d.releases[n.said.Digest].Version,
		Phase: n.said.Phase, Code: n.said.Code, Detail: n.said.Detail, Unable: !n.able}
	if n.said.Digest != "" {
		at := n.said.At
		out.At = &at
	}
	_, out.Pinned = d.pins[nodeID]
	_, out.Held = d.offer(n, d.Now())
	return out
}
