package release

import (
	"context"
	"io/fs"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/release/build"
	"muster/store/releases"
)

// writer puts what the gateway itself makes into its registry.
func (d *Service) writer() build.Writer {
	return build.Writer{Registry: d.Artifacts, By: gatewayActor()}
}

// Import makes a release of the agents that the gateway carries, one program at <os>-<arch>/muster-agent, and points the default channel at
// it if there is no such channel. The same programs and version are always the same release. Without agents it does nothing.
func (d *Service) Import(ctx context.Context, agents fs.FS, version string) (api.Release, error) {
	if agents == nil {
		return api.Release{}, nil
	}
	digest, err := d.writer().Carry(ctx, agents, version)
	if err != nil || digest == "" {
		return api.Release{}, err
	}
	r, err := d.Release(ctx, digest)
	if err != nil || r.Digest != digest {
		if r, err = d.add(ctx, api.NewRelease{Digest: digest, Version: version}, true, gatewayActor()); err != nil {
			return api.Release{}, err
		}
	}
	if _, err := d.channel(wire.DefaultChannel); err == nil {
		return r, nil
	}
	first := step{digest: digest, kind: "channel.pointed", why: "the gateway carries this release"}
	if _, err := d.point(ctx, wire.DefaultChannel, first, gatewayActor()); err != nil {
		return api.Release{}, quiet(err) // where operators keep the keys, one of them promotes it
	}
	return d.Release(ctx, digest)
}

// attach stores a signed pointer beside its release, as an artifact that refers to it, so that the signature travels with the content. The
// pointer is good without that: the log says if it fails. A registry elsewhere belongs to somebody else.
func (d *Service) attach(ctx context.Context, p releases.Pointer) {
	d.mu.Lock()
	r := d.releases[p.Digest]
	d.mu.Unlock()
	if elsewhere(r.Reference) || d.Artifacts == nil {
		return
	}
	if err := d.writer().Attach(context.WithoutCancel(ctx), repository(r.Reference), r, p); err != nil {
		d.Logger.Error("a pointer is not beside its release in the registry", "channel", p.Channel, "seq", p.Sequence, "error", err)
	}
}
