package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/release/build"
	"muster/store"
	"muster/store/releases"
)

// Lives of pointers.
const (
	pointerLife  = 90 * 24 * time.Hour
	refreshAfter = 30 * 24 * time.Hour
	leastLife    = time.Hour                // of a pointer that an operator signed
	mostLife     = 2 * 365 * 24 * time.Hour // of the same
)

// next is the pointer that a channel has to get next for a release.
func (d *Service) next(name string, r releases.Release, sequence int64) wire.ReleasePointer {
	now := d.Now().UTC().Truncate(time.Second)
	p := wire.ReleasePointer{Channel: name, Sequence: sequence, Digest: r.Digest, Size: r.Size, Version: r.Version,
		NotBefore: now.Add(-wire.Backdate), Expires: now.Add(pointerLife)}
	for _, one := range r.Platforms {
		p.Platforms = append(p.Platforms, wire.ReleasePlatform(one))
	}
	return p
}

// signed makes the pointer that a channel gets next: signed by the gateway, or checked where an operator has signed it.
func (d *Service) signed(want wire.ReleasePointer, offered []byte, by store.Actor) (releases.Pointer, error) {
	p := releases.Pointer{Channel: want.Channel, Sequence: want.Sequence, Digest: want.Digest, SignedAt: d.Now(), SignedBy: by.Name}
	if len(offered) > 0 {
		got, key, err := d.offered(want, offered)
		p.Sequence = got.Sequence
		p.KeyID = key
		p.ExpiresAt = got.Expires
		p.Envelope = string(offered)
		return p, err
	}
	payload, err := json.Marshal(want)
	if err != nil {
		return p, err
	}
	if len(payload) > wire.MaxPointer {
		return p, build.Unusable("the pointer has %d bytes, and nodes read %d at most", len(payload), wire.MaxPointer)
	}
	envelope, err := d.Sign(payload)
	if err != nil {
		return p, err
	}
	_, key, err := sign.OpenRelease(envelope, d.Keys())
	if err != nil {
		return p, fmt.Errorf("nodes do not believe the gateway's own release key: %w", err)
	}
	p.KeyID = sign.KeyID(key)
	p.Own = true
	p.ExpiresAt = want.Expires
	p.Envelope = string(envelope)
	return p, nil
}

// offered checks a pointer that an operator has signed: it must be the one that comes next, apart from its dates. A node that says
// meanwhile that it has obeyed a higher number does not make the signature worthless.
func (d *Service) offered(want wire.ReleasePointer, envelope []byte) (wire.ReleasePointer, string, error) {
	got, verified, err := sign.OpenRelease(envelope, d.Keys())
	key := sign.KeyID(verified)
	if errors.Is(err, sign.ErrMalformed) {
		return got, key, signAgain("the signed pointer is not in the form of this gateway's")
	}
	if err != nil {
		return got, key, signAgain("the pointer is signed by no release key that nodes believe")
	}
	if got.Sequence > want.Sequence || got.Sequence <= d.taken(want.Channel) {
		return got, key, signAgain(fmt.Sprintf("the signed pointer has the number %d, and the channel's next one is %d", got.Sequence,
			want.Sequence))
	}
	same := got
	same.Sequence = want.Sequence
	same.NotBefore = want.NotBefore
	same.Expires = want.Expires
	if !reflect.DeepEqual(same, want) {
		return got, key, signAgain("the signed pointer names another channel or another content than this promotion")
	}
	now := d.Now()
	left := got.Expires.Sub(now)
	if got.NotBefore.After(now.Add(wire.Backdate)) || left < leastLife || left > mostLife {
		return got, key, signAgain(fmt.Sprintf("the signed pointer is good from %s to %s", got.NotBefore.Format(time.RFC3339),
			got.Expires.Format(time.RFC3339)))
	}
	return got, key, nil
}

// taken is the highest number of a channel that is given out, or that a restore makes it go beyond.
func (d *Service) taken(name string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.channels[name]
	if c == nil {
		return 0
	}
	return max(c.Last, c.reported)
}

func signAgain(why string) error {
	return wire.Refuse(wire.CodeSignatureWanted, why, "sign what the gateway gives now: muster release sign --key FILE; "+
		"muster key ls shows the keys")
}

// Unsigned returns the pointer that an operator has to sign so that the channel, or pins on it, can get this release next. With an empty
// digest it is the previous release.
func (d *Service) Unsigned(_ context.Context, name, digest string) ([]byte, error) {
	if err := wire.CheckChannel(name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, last, err := d.wanted(name, digest)
	if err != nil {
		return nil, err
	}
	return json.Marshal(d.next(name, r, last+1))
}

// wanted finds the release that a channel is to get, and the highest number that was taken on it. The caller holds mu.
func (d *Service) wanted(name, digest string) (releases.Release, int64, error) {
	var last int64
	c := d.channels[name]
	if c != nil {
		last = max(c.Last, c.reported, c.claimed)
	}
	if digest == "" {
		if c == nil {
			return releases.Release{}, 0, noChannel(name)
		}
		if o := c.rollout; o != nil && o.IsLeft() && o.Digest == c.Previous {
			return releases.Release{}, 0, wire.Refuse(wire.CodeIllegalMove, "the release before on the channel "+name+" is the one that was aborted",
				"the channel went back when it was aborted; promote a release by its digest: muster release ls")
		}
		if digest = c.Previous; digest == "" {
			return releases.Release{}, 0, wire.Refuse(wire.CodeIllegalMove, "the channel "+name+" has no release before this one",
				"promote one: muster release promote DIGEST --channel "+name)
		}
	}
	r, ok := d.releases[digest]
	if !ok {
		return r, 0, noRelease(digest)
	}
	return r, last, nil
}

// isName accepts names of credentials. They stand in commands, paths and tags.
func isName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return len(name) <= wire.MaxChannel && strings.Trim(name, letters+"._-") == "" && strings.IndexAny(name, letters) == 0
}
