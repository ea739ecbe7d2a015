package release

import (
	"context"

	"muster/store/releases"
)

// Newcomer is what a machine installs that becomes a node of a channel.
type Newcomer struct {
	releases.Release
	Channel  string
	Sequence int64  // that the channel had
	Pointer  string // the envelope of its signed pointer; "": none that a newcomer should obey
}

// Newcomer returns the release for the machine of a node on record, or of a node that is not known yet (""); false: there is none. Until a
// rollout is done, that is the previous release: a newcomer does not try what nobody has tried. On the way back it is the release that the
// nodes go back to, which was tried. There is none if the channel's first release was stopped.
func (d *Service) Newcomer(ctx context.Context, nodeID string) (Newcomer, bool, error) {
	name, err := d.channelOf(ctx, nodeID)
	if err != nil {
		return Newcomer{}, false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.channels[name]
	if c == nil || c.behind() || !c.tried() && c.Previous == "" && c.stopped() {
		return Newcomer{}, false, nil
	}
	n := Newcomer{Channel: name, Sequence: c.Sequence}
	if c.tried() || c.Previous == "" {
		n.Release = d.releases[c.Digest]
		if p := d.pointers[address{name, c.Sequence}]; d.believed(p.KeyID) && d.Now().Before(p.ExpiresAt) {
			n.Pointer = p.Envelope
		}
		return n, true, nil
	}
	n.Release = d.releases[c.Previous]
	return n, true, nil
}

// tried tells whether everybody may have the channel's release: it has finished here once, or never had waves.
func (c *channel) tried() bool {
	o := c.rollout
	if c.Finished || o == nil || o.Digest != c.Digest {
		return true
	}
	return o.State == releases.Running && c.plan.Together()
}

// stopped tells whether the newest rollout was stopped, by itself or by a person.
func (c *channel) stopped() bool {
	return c.rollout.State == releases.Halted || c.rollout.IsLeft()
}

// Place returns the URL at which a machine without an identity gets a layer of a release in another registry, and the Authorization header
// that the machine has to send. For a release of this registry both are empty.
func (d *Service) Place(ctx context.Context, r releases.Release, layer string) (url, authorization string, err error) {
	if !elsewhere(r.Reference) {
		return "", "", nil
	}
	c, err := d.credential(ctx, r.Credential)
	if err != nil {
		return "", "", err
	}
	there, err := d.remote.Repository(r.Reference, c)
	if err != nil {
		return "", "", err
	}
	return there.Lend(ctx, layer)
}

// Repository returns where a release lies: a repository of this registry, or host/repository.
func Repository(r releases.Release) string { return repository(r.Reference) }

// Elsewhere reports whether a release lies in another registry.
func Elsewhere(r releases.Release) bool { return elsewhere(r.Reference) }
