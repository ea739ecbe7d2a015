package release

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
	"muster/store/releases"
)

// mostPins bounds how many nodes one call pins.
const mostPins = 10_000

// Pin keeps nodes where they are (digest "") or gives them a release of their own. pointer is as in Promotion: with one, all of the nodes
// must have the channel that it names.
func (d *Service) Pin(ctx context.Context, nodes []Ref, digest string, pointer []byte, by store.Actor) error {
	if err := errors.Join(checkNodes(nodes), d.ready(ctx)); err != nil {
		return err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	if digest == "" {
		pins := make([]releases.Pin, 0, len(nodes))
		for _, n := range nodes {
			pins = append(pins, releases.Pin{NodeID: n.ID, At: d.Now(), By: by.Name})
		}
		return errors.Join(d.records.Pin(ctx, pins, nil, 0, d.aboutNodes("release.pinned", nodes, nil, by)...), d.reload(ctx))
	}
	if err := d.holdBehind(ctx); err != nil { // the pin's number must not hide it
		return err
	}
	groups := d.byChannel(nodes)
	if len(groups) > 1 && len(pointer) > 0 {
		return wire.Refuse(wire.CodeBadRequest, "the nodes are of several channels, and the signed pointer is for one",
			"pin them channel by channel")
	}
	for _, g := range groups {
		if err := d.pinOn(ctx, g, digest, pointer, by); err != nil {
			return err
		}
	}
	return nil
}

// group is nodes of one channel.
type group struct {
	channel string
	nodes   []Ref
}

func (d *Service) byChannel(nodes []Ref) []group {
	d.mu.Lock()
	defer d.mu.Unlock()
	var groups []group
	for _, n := range nodes {
		name := wire.DefaultChannel
		if k := d.nodes[n.ID]; k != nil {
			name = k.channel
		}
		at := slices.IndexFunc(groups, func(g group) bool { return g.channel == name })
		if at < 0 {
			groups = append(groups, group{channel: name})
			at = len(groups) - 1
		}
		groups[at].nodes = append(groups[at].nodes, n)
	}
	slices.SortFunc(groups, func(a, b group) int { return cmp.Compare(a.channel, b.channel) })
	return groups
}

// pinOn pins nodes of one channel to a release, under the channel's next number. The caller holds changing alone.
func (d *Service) pinOn(ctx context.Context, g group, digest string, pointer []byte, by store.Actor) error {
	var stored int64
	next := func() (wire.ReleasePointer, error) {
		r, last, err := d.wanted(g.channel, digest)
		if err == nil && d.channels[g.channel] == nil {
			err = noChannel(g.channel)
		}
		stored = d.last(g.channel)
		return d.next(g.channel, r, last+1), err
	}
	_, err := d.issue(ctx, pointer, by, next, func(p releases.Pointer) error {
		pins := make([]releases.Pin, 0, len(g.nodes))
		for _, n := range g.nodes {
			pins = append(pins, releases.Pin{NodeID: n.ID, Digest: digest, Channel: g.channel, Sequence: p.Sequence, At: p.SignedAt,
				By: by.Name})
		}
		detail := map[string]string{"release": digest, "channel": g.channel, "seq": strconv.FormatInt(p.Sequence, 10), "key": p.KeyID}
		return d.records.Pin(ctx, pins, &p, stored, d.aboutNodes("release.pinned", g.nodes, detail, by)...)
	})
	return err
}

// Unpin lets nodes follow their channel again. If they have obeyed a number above the channel's, the channel's release is signed again
// under a new number, so that they obey it: pointer is that pointer, as in Promotion. A channel that is behind its nodes waits for a
// person: what the person orders there gets a number above all others.
func (d *Service) Unpin(ctx context.Context, nodes []Ref, pointer []byte, by store.Actor) error {
	if err := errors.Join(checkNodes(nodes), d.ready(ctx)); err != nil {
		return err
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	var ids []string
	var pinned []Ref
	above := map[string]bool{} // channels whose number the pins have passed
	d.mu.Lock()
	for _, n := range nodes {
		pin, ok := d.pins[n.ID]
		if !ok {
			continue
		}
		ids = append(ids, n.ID)
		pinned = append(pinned, n)
		if c := d.channels[pin.Channel]; c != nil && pin.Sequence > c.Sequence {
			above[pin.Channel] = true
		}
		if k := d.nodes[n.ID]; k != nil && d.stranded(k, d.floor(k.channel)) {
			above[k.channel] = true
		}
	}
	maps.DeleteFunc(above, func(name string, _ bool) bool { return d.channels[name].behind() })
	d.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(above)) {
		if err := d.reissue(ctx, name, pointer, "nodes are pinned no longer", by); err != nil {
			return err
		}
	}
	return errors.Join(d.records.Unpin(ctx, ids, d.aboutNodes("release.unpinned", pinned, nil, by)...), d.reload(ctx))
}

func checkNodes(nodes []Ref) error {
	if len(nodes) == 0 || len(nodes) > mostPins {
		return wire.Refuse(wire.CodeBadRequest, "name from 1 to "+strconv.Itoa(mostPins)+" nodes", "muster node ls shows them")
	}
	return nil
}

// aboutNodes makes an event for each node.
func (d *Service) aboutNodes(kind string, nodes []Ref, detail map[string]string, by store.Actor) []store.Event {
	events := make([]store.Event, 0, len(nodes))
	for _, n := range nodes {
		e := d.event(kind, by, true, detail)
		e.NodeID = n.ID
		e.NodeName = n.Name
		e.Tenant = n.Tenant
		events = append(events, e)
	}
	return events
}

// Pins returns all pinned nodes. A node that never enrolled has no name here.
func (d *Service) Pins(_ context.Context) ([]api.Pin, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pins := make([]api.Pin, 0, len(d.pins))
	for id, pin := range d.pins {
		one := api.Pin{NodeID: id, Digest: pin.Digest, Version: d.releases[pin.Digest].Version, Channel: pin.Channel, At: pin.At, By: pin.By}
		if n := d.nodes[id]; n != nil {
			one.Node = n.Name
			one.Tenant = n.Tenant
		}
		pins = append(pins, one)
	}
	slices.SortFunc(pins, func(a, b api.Pin) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.NodeID, b.NodeID))
	})
	return pins, nil
}
