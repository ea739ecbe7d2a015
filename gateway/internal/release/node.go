package release

import "muster/gateway/api"

// Updating says how far a node's update is; nil if the node was not heard of. It reads only memory, so that lists may ask for each node.
func (d *Service) Updating(nodeID string) *api.NodeUpdate {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[nodeID]
	if n == nil {
		return nil
	}
	said := n.word()
	out := &api.NodeUpdate{Channel: n.channel, Sequence: n.obeyed, Digest: said.Digest, Version: d.releases[said.Digest].Version,
		Phase: said.Phase, Code: said.Code, Detail: said.Detail, Unable: !n.able}
	if said.Digest != "" {
		at := said.At.UTC()
		out.At = &at
	}
	_, out.Pinned = d.pins[nodeID]
	_, out.Held = d.offer(n, d.Now())
	if c := d.channels[n.channel]; out.Held == heldTurn && d.runs(n, c.Digest) {
		out.Held = "" // it has the release already
	}
	return out
}
