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
	said := d.word(n)
	out := &NodeUpdate{Channel: n.channel, Sequence: n.obeyed, Digest: said.Digest, Version: d.releases[said.Digest].Version,
		Phase: said.Phase, Code: said.Code, Detail: said.Detail, Unable: !n.able}
	if said.Digest != "" {
		out.At = &said.At
	}
	_, out.Pinned = d.pins[nodeID]
	_, out.Held = d.offer(n, d.Now())
	return out
}
