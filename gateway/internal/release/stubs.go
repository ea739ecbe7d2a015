package release

import (
	"context"
	"errors"
	"io/fs"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/store"
	"muster/store/releases"
)

var errNotYet = errors.New("this is not built yet")

// Open reads where everything stands.
func Open(ctx context.Context, c Config) (*Desk, error) { return &Desk{Config: c}, nil }

// Run moves the rollouts on, and refreshes pointers before they expire, until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Import makes a release of the agents that the gateway carries, and points the default channel at it where there is no such channel.
func (d *Desk) Import(ctx context.Context, agents fs.FS, version string) (Release, error) {
	return Release{}, errNotYet
}

// Add makes a release. Again it changes nothing and gives the one on record.
func (d *Desk) Add(ctx context.Context, a Addition, by store.Actor) (Release, error) {
	return Release{}, errNotYet
}

// Releases are all releases, the newest first.
func (d *Desk) Releases(ctx context.Context) ([]Release, error) { return nil, errNotYet }

// Release is the one with this digest, or whose version or beginning of the digest is this, if that names one alone.
func (d *Desk) Release(ctx context.Context, name string) (Release, error) {
	return Release{}, errNotYet
}

// Drop takes a release off the record. Its content stays in the registry, where it can be deleted then.
func (d *Desk) Drop(ctx context.Context, digest string, by store.Actor) error { return errNotYet }

// Channels are all channels, by name.
func (d *Desk) Channels(ctx context.Context) ([]Channel, error) { return nil, errNotYet }

// Channel is one channel.
func (d *Desk) Channel(ctx context.Context, name string) (Channel, error) {
	return Channel{}, errNotYet
}

// Status is one channel with its nodes.
func (d *Desk) Status(ctx context.Context, channel string) (Status, error) {
	return Status{}, errNotYet
}

// Point points a channel at a release.
func (d *Desk) Point(ctx context.Context, channel string, p Promotion, by store.Actor) (Channel, error) {
	return Channel{}, errNotYet
}

// Unsigned is the pointer that an operator has to sign so that the channel, or the pins on it, can get this release next. With an empty
// digest it is the release before the present one.
func (d *Desk) Unsigned(ctx context.Context, channel, digest string) ([]byte, error) {
	return nil, errNotYet
}

// Pause lets nobody in for now.
func (d *Desk) Pause(ctx context.Context, channel string, by store.Actor) (Channel, error) {
	return Channel{}, errNotYet
}

// Resume goes on, and accepts the nodes that have failed so far.
func (d *Desk) Resume(ctx context.Context, channel string, by store.Actor) (Channel, error) {
	return Channel{}, errNotYet
}

// Abort ends a rollout, and takes the nodes that were let in back to the release before. pointer is as in Promotion.
func (d *Desk) Abort(ctx context.Context, channel string, pointer []byte, by store.Actor) (Channel, error) {
	return Channel{}, errNotYet
}

// Rollback points a channel at the release before the present one. Digest of the promotion is not read.
func (d *Desk) Rollback(ctx context.Context, channel string, p Promotion, by store.Actor) (Channel, error) {
	return Channel{}, errNotYet
}

// Pin keeps nodes where they are (digest "") or gives them a release of their own. pointer is as in Promotion.
func (d *Desk) Pin(ctx context.Context, nodes []Ref, digest string, pointer []byte, by store.Actor) error {
	return errNotYet
}

// Unpin lets nodes follow their channel again. pointer is as in Promotion: the channel's release under a new number.
func (d *Desk) Unpin(ctx context.Context, nodes []Ref, pointer []byte, by store.Actor) error {
	return errNotYet
}

// Pins are all pinned nodes.
func (d *Desk) Pins(ctx context.Context) ([]Pin, error) { return nil, errNotYet }

// Update is what a node last said of an update, with the log of a version that it went back from. store.ErrNotFound: it said nothing yet.
func (d *Desk) Update(ctx context.Context, nodeID string) (releases.Update, error) {
	return releases.Update{}, errNotYet
}

// SetCredential stores a credential in place of the earlier one with its name.
func (d *Desk) SetCredential(ctx context.Context, c Credential, by store.Actor) error {
	return errNotYet
}

// Credentials lists all credentials, without their passwords.
func (d *Desk) Credentials(ctx context.Context) ([]Credential, error) { return nil, errNotYet }

// DropCredential deletes a credential.
func (d *Desk) DropCredential(ctx context.Context, name string, by store.Actor) error {
	return errNotYet
}

// Heard takes what a heartbeat says of releases (u nil: the agent cannot update itself). It gives the digest of the release that the node
// should get now ("": stay), and its channel with the floor, where the node has said another channel or an older floor. After an error the
// heartbeat must fail, so that the node says it again.
func (d *Desk) Heard(ctx context.Context, n Node, u *wire.Update) (wanted, channel string, floor int64, err error) {
	return "", "", 0, nil
}

// Wanted is the answer for a node that asks what to run; nil: what it runs.
func (d *Desk) Wanted(ctx context.Context, nodeID string) (*wire.Release, error) { return nil, nil }

// Layer opens a layer that this gateway keeps, for a node whose channel or pin names it.
func (d *Desk) Layer(ctx context.Context, nodeID, digest string) (artifact.Blob, error) {
	return artifact.Blob{}, errNotYet
}

// Floor is the channel of a new node with these labels, and the number below which it obeys no pointer.
func (d *Desk) Floor(labels map[string]string) (channel string, floor int64) { return "", 0 }
