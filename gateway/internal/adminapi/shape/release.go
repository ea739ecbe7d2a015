package shape

import (
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release"
)

// Release is a release of the agent.
func Release(r release.Release) api.Release {
	out := api.Release{
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

// Channel is a channel with its rollout.
func Channel(c release.Channel) api.Channel {
	return api.Channel{
		Channel: c.Channel.Channel, Digest: c.Digest, Version: c.Version, Previous: c.Previous, Sequence: c.Sequence, SignedBy: c.SignedBy,
		State: c.State, Why: c.Why, Wave: c.Wave, Waves: c.Waves, NextAt: c.NextAt, Counts: api.RolloutCounts(c.Counts),
		UpdatedAt: c.UpdatedAt, UpdatedBy: c.UpdatedBy, Expires: c.Expires, ToSign: c.Sign, Note: c.Note,
	}
}

// ChannelNode is how far a rollout is on one node.
func ChannelNode(n release.NodeStatus) api.ChannelNode {
	return api.ChannelNode{
		ID: n.ID, Name: n.Name, Tenant: n.Tenant, Wave: n.Wave, State: n.State, Phase: n.Phase, Code: n.Code, Detail: n.Detail, Log: n.Log,
		Held: n.Held, At: n.At, Running: n.Running,
	}
}

// Pin is a node that is held at a release.
func Pin(p release.Pin) api.Pin {
	return api.Pin{
		Node: p.Node.Name, NodeID: p.NodeID, Tenant: p.Node.Tenant, Digest: p.Digest, Version: p.Version, Channel: p.Channel, At: p.At,
		By: p.By,
	}
}

// Update is where a node stands with its channel; nil: it has none.
func Update(u *release.NodeUpdate) *api.NodeUpdate {
	if u == nil {
		return nil
	}
	out := api.NodeUpdate(*u)
	out.At = UTC(u.At)
	return &out
}

// Credential is what opens a registry elsewhere, without its password.
func Credential(c release.Credential) api.RegistryCredential {
	return api.RegistryCredential{Name: c.Name, Host: c.Host, Realm: c.Realm, Username: c.Username}
}
