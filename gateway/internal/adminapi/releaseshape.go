package adminapi

import (
	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/release"
)

func releaseShape(r release.Release) client.Release {
	out := client.Release{
		Digest: r.Digest, Version: r.Version, Channels: append([]string{}, r.Channels...), Platforms: []string{}, Size: r.Size,
		SignedBy: r.SignedBy, CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy, Reference: r.Reference, Carried: r.Carried,
		Programs: []wire.ReleasePlatform{},
	}
	for _, p := range r.Platforms {
		out.Platforms = append(out.Platforms, p.OS+"/"+p.Arch)
		out.Programs = append(out.Programs, wire.ReleasePlatform(p))
	}
	return out
}

func channelShape(c release.Channel) client.Channel {
	return client.Channel{
		Channel: c.Channel.Channel, Digest: c.Digest, Version: c.Version, Previous: c.Previous, Sequence: c.Sequence, SignedBy: c.SignedBy,
		State: c.State, Why: c.Why, Wave: c.Wave, Waves: c.Waves, Counts: client.RolloutCounts(c.Counts), UpdatedAt: c.UpdatedAt,
		UpdatedBy: c.UpdatedBy, Expires: c.Expires, ToSign: c.Sign,
	}
}

func channelNodeShape(n release.NodeStatus) client.ChannelNode {
	return client.ChannelNode{
		ID: n.ID, Name: n.Name, Tenant: n.Tenant, Wave: n.Wave, State: n.State, Phase: n.Phase, Code: n.Code, Detail: n.Detail, Log: n.Log,
		Held: n.Held, At: n.At, Running: n.Running,
	}
}

func pinShape(p release.Pin) client.Pin {
	return client.Pin{
		Node: p.Node.Name, NodeID: p.NodeID, Tenant: p.Node.Tenant, Digest: p.Digest, Version: p.Version, Channel: p.Channel, At: p.At,
		By: p.By,
	}
}

func updateShape(u *release.NodeUpdate) *client.NodeUpdate {
	if u == nil {
		return nil
	}
	out := client.NodeUpdate(*u)
	out.At = utc(u.At)
	return &out
}
