package release

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release/rollout"
	"muster/store/releases"
)

// Releases returns all releases, the newest first.
func (d *Service) Releases(_ context.Context) ([]api.Release, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]api.Release, 0, len(d.releases))
	for _, r := range d.releases {
		all = append(all, d.shown(r))
	}
	slices.SortFunc(all, func(a, b api.Release) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(a.Digest, b.Digest))
	})
	return all, nil
}

// shown is a release with the channels that point at it. The caller holds mu.
func (d *Service) shown(r releases.Release) api.Release {
	out := api.Release{Digest: r.Digest, Version: r.Version, Channels: []string{}, Platforms: []string{}, Size: r.Size,
		CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy, Reference: r.Reference, Carried: r.Carried, Programs: []wire.ReleasePlatform{}}
	for _, p := range r.Platforms {
		out.Platforms = append(out.Platforms, p.OS+"/"+p.Arch)
		out.Programs = append(out.Programs, wire.ReleasePlatform(p))
	}
	var newest time.Time
	for name, c := range d.channels {
		if c.Digest != r.Digest {
			continue
		}
		out.Channels = append(out.Channels, name)
		if p := d.pointers[address{name, c.Sequence}]; p.SignedAt.After(newest) {
			newest = p.SignedAt
			out.SignedBy = p.KeyID
		}
	}
	slices.Sort(out.Channels)
	return out
}

// Release returns the release with this digest. name may also be the version, or the beginning of the digest, if only one release has it.
func (d *Service) Release(_ context.Context, name string) (api.Release, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, ok := d.releases[name]; ok {
		return d.shown(r), nil
	}
	const least = 4 // digits of a digest that are worth looking for
	hex := strings.TrimPrefix(name, "sha256:")
	var found []releases.Release
	for _, r := range d.releases {
		begins := len(hex) >= least && strings.HasPrefix(r.Digest, "sha256:"+hex)
		if begins || r.Version == name && name != "" {
			found = append(found, r)
		}
	}
	if len(found) > 1 {
		return api.Release{}, wire.Refuse(wire.CodeReleaseUnknown, fmt.Sprintf("%.80q names %d releases", name, len(found)),
			"give the whole digest")
	}
	if len(found) == 0 {
		return api.Release{}, noRelease(name)
	}
	return d.shown(found[0]), nil
}

// Needs names the releases of this registry for which a blob is the agent, with the platform, in order.
func (d *Service) Needs(blob string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, r := range d.releases {
		for _, p := range r.Platforms {
			if p.Digest == blob && !elsewhere(r.Reference) {
				all = append(all, fmt.Sprintf("release %s (%s/%s)", r.Version, p.OS, p.Arch))
			}
		}
	}
	slices.Sort(all)
	return all
}

// Channels returns all channels, by name.
func (d *Service) Channels(ctx context.Context) ([]api.Channel, error) {
	if err := d.ready(ctx); err != nil {
		return nil, err
	}
	all := []api.Channel{}
	for _, name := range d.names() {
		c, err := d.channel(name)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Halted returns the channels whose rollout was halted, also those that went back by themselves, by name and without their counts. It looks
// at no node.
func (d *Service) Halted() (all []api.Channel) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(d.channels)) {
		if out := d.summary(d.channels[name]); out.State == releases.Halted || out.State == releases.TakenBack {
			all = append(all, out)
		}
	}
	return all
}

// Channel returns one channel.
func (d *Service) Channel(ctx context.Context, name string) (api.Channel, error) {
	if err := d.ready(ctx); err != nil {
		return api.Channel{}, err
	}
	return d.channel(name)
}

func (d *Service) channel(name string) (api.Channel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.channels[name]
	if c == nil {
		return api.Channel{}, noChannel(name)
	}
	out, _ := d.view(c)
	return out, nil
}

// Status returns one channel with its nodes.
func (d *Service) Status(ctx context.Context, name string) (Status, error) {
	if err := d.ready(ctx); err != nil {
		return Status{}, err
	}
	d.mu.Lock()
	c := d.channels[name]
	if c == nil {
		d.mu.Unlock()
		return Status{}, noChannel(name)
	}
	var s Status
	s.Channel, s.Nodes = d.view(c)
	d.mu.Unlock()
	for i, n := range s.Nodes {
		if n.Phase != wire.UpdateRolledBack && n.Phase != wire.UpdateFailed {
			continue
		}
		if u, err := d.records.Update(ctx, n.ID); err == nil && u.Digest == s.Digest {
			s.Nodes[i].Log = u.Log
		}
	}
	return s, nil
}

// Update returns what a node last said of an update, with the log of a version that it went back from. The error is store.ErrNotFound if it
// has said nothing yet.
func (d *Service) Update(ctx context.Context, nodeID string) (releases.Update, error) {
	return d.records.Update(ctx, nodeID)
}

// summary is a channel without its nodes. The caller holds mu.
func (d *Service) summary(c *channel) api.Channel {
	p := d.pointers[address{c.Channel.Channel, c.Sequence}]
	row := c.Channel
	out := api.Channel{Channel: row.Channel, Digest: row.Digest, Version: d.releases[c.Digest].Version, Previous: row.Previous,
		Sequence: row.Sequence, SignedBy: p.KeyID, Expires: p.ExpiresAt, UpdatedAt: row.UpdatedAt, UpdatedBy: row.UpdatedBy}
	if o := c.rollout; o != nil {
		out.State = o.State
		out.Why = o.Why
		out.Wave = o.Wave + 1
		out.Waves = c.waves.Count()
		out.NextAt = c.waves.Next(*o)
	}
	if c.behind() {
		out.State = StateBehind
		out.Why = fmt.Sprintf("nodes have obeyed the number %d, which the restored database does not know: it may be older than a rollback. "+
			"Nobody gets anything until a release is promoted, or the present one is ordered again by a resume", c.reported)
	}
	out.ToSign = d.toSign(c, p)
	return out
}

// view shows a channel and its nodes, by name. The caller holds mu.
func (d *Service) view(c *channel) (api.Channel, []api.ChannelNode) {
	now := d.Now()
	out := d.summary(c)
	nodes := []api.ChannelNode{}
	for _, n := range d.nodes {
		if n.channel != c.Channel.Channel {
			continue
		}
		one := d.stand(c, n, now)
		rollout.Count(&out.Counts, one.State)
		if c.rows[n.ID].State == rollout.Committed {
			out.Counts.Committed++
		}
		nodes = append(nodes, one)
	}
	slices.SortFunc(nodes, func(a, b api.ChannelNode) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return out, nodes
}

// toSign says what an operator has to sign; "": nothing.
func (d *Service) toSign(c *channel, p releases.Pointer) string {
	const how = ": muster release sign --key FILE"
	switch {
	case c.rollout != nil && c.rollout.IsLeft() && c.rollout.Digest == c.Digest && c.Previous != "":
		return "the release before, so that nodes go back" + how
	case !d.believed(p.KeyID):
		return "the present release again, because the key of its pointer was struck" + how
	case !p.Own && p.ExpiresAt.Sub(d.Now()) < refreshAfter:
		return "the present release again, because its pointer ends at " + p.ExpiresAt.Format(time.RFC3339) + how
	}
	return ""
}

// stand tells where a node of a channel stands.
func (d *Service) stand(c *channel, n *node, now time.Time) api.ChannelNode {
	out := api.ChannelNode{ID: n.ID, Name: n.Name, Tenant: n.Tenant, Running: n.Digest}
	if said := n.word(); said.Digest == c.Digest && said.Channel == c.Channel.Channel {
		out.At = &said.At
		out.Phase = said.Phase
		out.Code = said.Code
		out.Detail = said.Detail
	}
	row, let := c.rows[n.ID]
	let = let && row.State != rollout.Out && c.rollout.Digest == c.Digest
	if let {
		out.Wave = row.Wave + 1
		out.Detail = cmp.Or(row.Why, out.Detail)
	}
	_, pinned := d.pins[n.ID]
	_, out.Held = d.offer(n, now)
	switch {
	case pinned:
		out.State = rollout.Pinned
	case let && (rollout.Fallen(row.State) || row.State == rollout.Begun || rollout.Active(row.State) && d.there(n, now)):
		out.State = row.State
	case d.runs(n, c.Digest) && d.there(n, now):
		out.State = rollout.Running
	case !n.able:
		out.State = rollout.Unable
	case !d.there(n, now):
		out.State = rollout.Offline
	case n.failed(c.Channel.Channel, c.Digest, 0):
		out.State = n.word().Phase
	case n.Conflict || d.shut(n, now) != "":
		out.State = rollout.Held
	default:
		out.State = rollout.Waiting
	}
	if out.Held == heldTurn {
		out.Held = c.heldBack(let || out.State != rollout.Waiting)
	}
	return out
}

// heldBack is why the rollout keeps a node from the release; "": something else does, or the node had its turn.
func (c *channel) heldBack(had bool) string {
	switch {
	case had:
		return ""
	case c.rollout.State == releases.Running || c.rollout.State == releases.Done:
		return heldTurn
	}
	return "the rollout is " + c.rollout.State
}
