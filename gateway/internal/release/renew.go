package release

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
	"muster/store/releases"
)

// strandedFor is how long a number stands at least before a node's word moves it.
const strandedFor = time.Minute

// renew brings pointers up to date: those that end soon or whose key was struck, those whose number nodes have passed under a pin, and
// those of pinned nodes that have moved to another channel. If operators keep the keys, Channel says what they have to
// sign. The caller holds changing alone.
func (d *Service) renew(ctx context.Context) error {
	d.mu.Lock()
	var old []releases.Pointer
	for _, p := range d.pointers {
		if p.Own && (d.Now().Sub(p.SignedAt) >= refreshAfter || !d.believed(p.KeyID)) {
			old = append(old, p)
		}
	}
	behind := map[string]string{} // why, by channel
	moved := map[string][]Ref{}   // by the release of their pin
	for id, n := range d.nodes {
		pin, pinned := d.pins[id]
		switch {
		case d.channels[n.channel] == nil || d.channels[n.channel].behind():
		case pinned && pin.Digest != "" && (pin.Channel != n.channel || d.stranded(n, pin.Sequence) && d.rested(pin.At)):
			moved[pin.Digest] = append(moved[pin.Digest], Ref{id, n.Name, n.Tenant})
		case !pinned && d.stranded(n, d.floor(n.channel)) && d.rested(d.channels[n.channel].UpdatedAt):
			behind[n.channel] = "a node has obeyed a higher number, which was of a pin"
		}
	}
	d.mu.Unlock()
	var err error
	for _, p := range old {
		err = errors.Join(err, quiet(d.refresh(ctx, p)))
	}
	for name, why := range behind {
		err = errors.Join(err, quiet(d.reissue(ctx, name, nil, why, gatewayActor())))
	}
	for digest, nodes := range moved {
		for _, g := range d.byChannel(nodes) {
			err = errors.Join(err, quiet(d.pinOn(ctx, g, digest, nil, gatewayActor())))
		}
	}
	return err
}

// stranded tells whether a node has obeyed a number above the one that it is offered, of those that its channel has given out. The caller
// holds mu.
func (d *Service) stranded(n *node, offered int64) bool {
	c := d.channels[n.channel]
	return c != nil && !n.Conflict && n.obeyed > offered && n.obeyed <= c.Last
}

// rested keeps nodes that say what is not true from moving numbers all the time.
func (d *Service) rested(since time.Time) bool { return d.Now().Sub(since) >= strandedFor }

// believed tells whether nodes believe a key now.
func (d *Service) believed(id string) bool {
	return slices.ContainsFunc(d.Keys(), func(key ed25519.PublicKey) bool { return sign.KeyID(key) == id })
}

// quiet drops the refusal of a gateway that has no release key: the channel's status says what to sign.
func quiet(err error) error {
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) && refused.Code == wire.CodeSignatureWanted {
		return nil
	}
	return err
}

// refresh signs a pointer anew under the same number, before it expires.
func (d *Service) refresh(ctx context.Context, p releases.Pointer) error {
	d.mu.Lock()
	r := d.releases[p.Digest]
	d.mu.Unlock()
	fresh, err := d.signed(d.next(p.Channel, r, p.Sequence), nil, gatewayActor())
	if err != nil {
		return err
	}
	err = d.records.Refresh(ctx, fresh, d.event("channel.refreshed", gatewayActor(), false, map[string]string{
		"channel": p.Channel, "release": p.Digest, "key": fresh.KeyID}))
	if err == nil {
		d.attach(ctx, fresh)
	}
	return errors.Join(err, d.reload(ctx))
}

// reissue gives a channel's release a new number.
func (d *Service) reissue(ctx context.Context, name string, pointer []byte, why string, by store.Actor) error {
	d.mu.Lock()
	c := d.channels[name]
	if c == nil {
		d.mu.Unlock()
		return noChannel(name)
	}
	digest := c.Digest
	behind := c.behind() && by == gatewayActor()
	d.mu.Unlock()
	if behind { // found only just now
		return nil
	}
	return d.step(ctx, name, step{digest: digest, pointer: pointer, kind: "channel.reissued", why: why}, by)
}
