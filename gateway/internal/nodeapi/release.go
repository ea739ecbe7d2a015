package nodeapi

import (
	"context"
	"slices"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/reading"
	"muster/gateway/internal/release"
	"muster/gateway/internal/release/rollout"
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
	self := selfOf(b.Agent)
	n := release.Node{
		ID: id.NodeID, Name: id.Name, Tenant: id.Tenant, OS: self.OS, Arch: self.Arch, Digest: self.Digest,
		Interval: time.Duration(b.IntervalSeconds * float64(time.Second)), Conflict: slices.Contains(answer.StateReasons, wire.ReasonConflict),
		Vitals: vitalsOf(b.Cost),
	}
	n.Ends, n.TellsEnds = endOf(b.Agent)
	wanted, channel, floor, err := a.Releases.Heard(ctx, n, b.Update)
	answer.Release = wanted
	answer.Channel = channel
	answer.ChannelSequence = floor
	return err
}

// endOf reads when the pointer that a node knows ends, as selfOf does. tells: its agent says that, also where it knows none.
func endOf(agent []byte) (ends time.Time, tells bool) {
	s := reading.Scan(agent)
	for s.Next() {
		if string(s.Name) == "release_ends" {
			text, _ := s.Plain()
			ends, _ = time.Parse(time.RFC3339, text)
			tells = true
		}
	}
	return ends, tells
}

// vitalsOf reads what a heartbeat says of how its agent does, as selfOf does.
func vitalsOf(cost []byte) (v rollout.Vitals) {
	s := reading.Scan(cost)
	for s.Next() {
		switch string(s.Name) {
		case "rss_kib":
			v.MemoryKiB, _ = strconv.ParseInt(string(s.Value), 10, 64)
		case "starts":
			of := reading.Scan(s.Value)
			for of.Next() {
				switch string(of.Name) {
				case "crashes":
					v.Crashes, _ = strconv.Atoi(string(of.Value))
				case "why":
					v.Crashed, _ = of.Plain()
				}
			}
		}
	}
	return v
}

// selfOf reads what a heartbeat says of its agent, without encoding/json: nearly all heartbeats say the same as the one before. What is not
// written as agents write it is not known.
func selfOf(agent []byte) (self wire.AgentInfo) {
	s := reading.Scan(agent)
	for s.Next() {
		switch string(s.Name) {
		case "os":
			self.OS, _ = s.Plain()
		case "arch":
			self.Arch, _ = s.Plain()
		case "digest":
			self.Digest, _ = s.Plain()
		}
	}
	return self
}
