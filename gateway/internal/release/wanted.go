package release

import (
	"cmp"
	"context"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/release/rollout"
	"muster/store/releases"
)

// Wanted returns the answer for a node that asks what to run; nil: the node stays as it is.
func (d *Service) Wanted(ctx context.Context, nodeID string) (*wire.Release, error) {
	if err := d.ready(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	n := d.nodes[nodeID]
	if n == nil {
		d.mu.Unlock()
		return nil, nil
	}
	p, wanted := d.wants(n)
	r := d.releases[p.Digest]
	mine, fits := platform(r, n.Node)
	out := &wire.Release{Channel: p.Channel, Sequence: p.Sequence, Digest: p.Digest, Size: r.Size, Pointer: []byte(p.Envelope),
		StaggerSeconds: d.stagger(n.channel), URL: wire.ReleaseBlobPath(mine.Digest)}
	d.mu.Unlock()
	if !wanted {
		return nil, nil
	}
	if !fits || !elsewhere(r.Reference) { // the node says that it has no agent in it
		return out, nil
	}
	var err error
	out.URL, out.Authorization, err = d.Place(ctx, r, mine.Digest)
	return out, err
}

// stagger is the time over which the nodes spread that are let in at once, in seconds. The caller holds mu.
func (d *Service) stagger(name string) int {
	c := d.channels[name]
	if c == nil {
		return 0
	}
	count := 0
	if c.rollout != nil && rollout.Watched(*c.rollout) {
		for _, row := range c.rows {
			if rollout.Active(row.State) {
				count++
			}
		}
	} else {
		for _, n := range d.nodes {
			if n.channel == name && !d.runs(n, c.Digest) {
				count++
			}
		}
	}
	return int(rollout.Stagger(count).Seconds())
}

// Layer opens a layer that this gateway keeps, for a node whose channel or pin names it.
func (d *Service) Layer(ctx context.Context, nodeID, digest string) (artifact.Blob, error) {
	if err := d.ready(ctx); err != nil {
		return artifact.Blob{}, err
	}
	d.mu.Lock()
	r, ok := d.layerOf(nodeID, digest)
	d.mu.Unlock()
	if !ok {
		return artifact.Blob{}, wire.Refuse(wire.CodeNotFound, "no release that this node may get has this layer",
			"ask again what to run: the channel may have moved on")
	}
	return d.Artifacts.Blob(ctx, repository(r.Reference), digest)
}

// layerOf finds the release with a layer among those that a node may be offered: its pin's, and its channel's with the one before.
func (d *Service) layerOf(nodeID, digest string) (releases.Release, bool) {
	n := d.nodes[nodeID]
	if n == nil || n.Conflict {
		return releases.Release{}, false
	}
	candidates := []string{d.pins[nodeID].Digest}
	if c := d.channels[n.channel]; c != nil {
		candidates = append(candidates, c.Digest, c.Previous)
	}
	for _, candidate := range candidates {
		r, ok := d.releases[candidate]
		if !ok || elsewhere(r.Reference) {
			continue
		}
		for _, p := range r.Platforms {
			if p.Digest == digest {
				return r, true
			}
		}
	}
	return releases.Release{}, false
}

// Floor returns the channel of a new node, and the number below which it obeys no pointer. If the database does not answer, the channel is
// empty: the node learns both with its first heartbeat.
func (d *Service) Floor(ctx context.Context, nodeID string) (channel string, floor int64) {
	name, err := d.channelOf(ctx, nodeID)
	if err != nil {
		d.Logger.Warn("the channel of a new node cannot be read now: its first heartbeat asks again", "node", nodeID, "error", err)
		return "", 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return name, d.floor(name)
}

// channelOf reads a node's channel. What the node's agent says in its labels counts for nothing: an operator or a credential says it.
func (d *Service) channelOf(ctx context.Context, nodeID string) (string, error) {
	if nodeID == "" {
		return wire.DefaultChannel, nil
	}
	labels, err := d.records.Labels(ctx, wire.LabelChannel, wire.LabelWindow, nodeID)
	return cmp.Or(labels[nodeID][0], wire.DefaultChannel), err
}
