package nodeapi

import (
	"context"
	"slices"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/release"
	"muster/gateway/internal/release/rollout"
	"muster/gateway/internal/view/reading"
)

// releaseRoutes are those over which a node gets its own software. A node in conflict gets none.
func (a *API) releaseRoutes() []Route {
	if a.Releases == nil {
		return nil
	}
	return []Route{
		{Method: "GET", Path: wire.PathRelease, Proof: Identity, Purpose: fleet.ForAnything, Node: a.release},
		{Method: "GET", Path: wire.ReleaseBlobPath("{digest}"), Proof: Identity, Purpose: fleet.ForAnything, Node: a.layer},
	}
}

// release answers nothing where the node stays with what it has.
func (a *API) release(ctx context.Context, c Call) (any, error) {
	wanted, err := a.Releases.Wanted(ctx, c.Identity.NodeID)
	if wanted == nil || err != nil {
		return nil, err
	}
	return wanted, nil
}

// layer answers with a file that the node's release names.
func (a *API) layer(ctx context.Context, c Call) (any, error) {
	digest := c.request.PathValue("digest")
	if !wire.IsDigest(digest) {
		return nil, wire.Refuse(wire.CodeBadRequest, "this is no digest of a layer", "sha256: and 64 hexadecimal digits, as the pointer has it")
	}
	blob, err := a.Releases.Layer(ctx, c.Identity.NodeID, digest)
	if err != nil {
		return nil, err
	}
	return Content{ReadSeekCloser: blob, Digest: blob.Digest}, nil
}

// updates hands over what a heartbeat says of releases, and fills in what the node shall hear of them.
func (a *API) updates(ctx context.Context, id *fleet.Identity, b *reading.Heartbeat, answer *wire.HeartbeatAnswer) error {
	if a.Releases == nil {
		return nil
	}
	var self wire.AgentInfo
	if b.Agent != nil {
		self = *b.Agent
	}
	n := release.Node{
		ID: id.NodeID, Name: id.Name, Tenant: id.Tenant, OS: self.OS, Arch: self.Arch, Digest: self.Digest,
		Interval: time.Duration(b.IntervalSeconds * float64(time.Second)), Conflict: slices.Contains(answer.StateReasons, wire.ReasonConflict),
		Vitals: vitalsOf(b.Cost), TellsEnds: b.TellsEnds,
	}
	if self.ReleaseEnds != nil {
		n.Ends = *self.ReleaseEnds
	}
	wanted, channel, floor, err := a.Releases.Heard(ctx, n, b.Update)
	answer.Release = wanted
	answer.Channel = channel
	answer.ChannelSequence = floor
	return err
}

// vitalsOf is what a heartbeat says of how its agent does.
func vitalsOf(cost *wire.Cost) (v rollout.Vitals) {
	if cost == nil {
		return v
	}
	if cost.RSSKiB != nil {
		v.MemoryKiB = *cost.RSSKiB
	}
	if s := cost.Starts; s != nil {
		v.Crashed = s.Why
		if s.Crashes != nil {
			v.Crashes = *s.Crashes
		}
	}
	return v
}
