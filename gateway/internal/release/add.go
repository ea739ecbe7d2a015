package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/release/build"
	"muster/store"
	"muster/store/releases"
)

// own is a repository of the gateway's own registry.
type own struct {
	registry   *artifact.Registry
	repository string
}

func (o own) Manifest(ctx context.Context, digest string) (string, []byte, error) {
	m, err := o.registry.Manifest(ctx, o.repository, digest)
	return m.MediaType, m.Body, o.refused(err)
}

func (o own) Blob(ctx context.Context, digest string) (io.ReadCloser, error) {
	b, err := o.registry.Blob(ctx, o.repository, digest)
	if err != nil {
		return nil, o.refused(err)
	}
	return b, nil
}

// refused turns what the registry says into a refusal that an operator sees.
func (o own) refused(err error) error {
	var e *artifact.Error
	if errors.As(err, &e) {
		return build.Unusable("the repository %s of this registry: %s", o.repository, e.Message)
	}
	return err
}

// elsewhere tells whether a reference names a registry elsewhere: as docker has it, its first part then has a dot or a port, or is
// localhost.
func elsewhere(reference string) bool {
	host, _, ok := strings.Cut(reference, "/")
	return ok && (strings.ContainsAny(host, ".:") || host == "localhost")
}

// repository is where a release of this registry lies.
func repository(reference string) string { return cmp.Or(reference, wire.AgentRepository) }

func (d *Service) source(ctx context.Context, reference, credential string) (build.Source, error) {
	if !elsewhere(reference) {
		if err := artifact.CheckName(repository(reference)); err != nil {
			return nil, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.80q is no repository", reference),
				"write team/agent, or host/team/agent")
		}
		return own{d.Artifacts, repository(reference)}, nil
	}
	c, err := d.credential(ctx, credential)
	if err != nil {
		return nil, err
	}
	return d.remote.Repository(reference, c)
}

// Add makes a release of what is in a registry: an index with one manifest for each platform, or one manifest. A second call changes
// nothing, and returns the release on record.
func (d *Service) Add(ctx context.Context, a api.NewRelease, by store.Actor) (api.Release, error) {
	reference, digest, named := strings.Cut(a.Reference, "@")
	a.Reference = reference
	if named && a.Digest != "" && a.Digest != digest {
		return api.Release{}, wire.Refuse(wire.CodeBadRequest, "the reference names another digest", "give the digest once")
	}
	a.Digest = cmp.Or(a.Digest, digest)
	if !build.IsDigest(a.Digest) {
		return api.Release{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.80q is no digest", a.Digest), "write sha256: and 64 hex digits")
	}
	if a.Reference == wire.AgentRepository {
		a.Reference = ""
	}
	if known, err := d.Release(ctx, a.Digest); err == nil && known.Digest == a.Digest {
		return known, nil
	}
	return d.add(ctx, a, false, by)
}

func (d *Service) add(ctx context.Context, a api.NewRelease, carried bool, by store.Actor) (api.Release, error) {
	from, err := d.source(ctx, a.Reference, a.Credential)
	if err != nil {
		return api.Release{}, err
	}
	if !elsewhere(a.Reference) { // first, so that nobody deletes what is read now
		if err := d.hold(ctx, a); err != nil {
			return api.Release{}, err
		}
	}
	r, err := build.Inspect(ctx, from, releases.Release{Digest: a.Digest, Version: a.Version, Reference: a.Reference,
		Credential: a.Credential})
	if err != nil {
		d.changing.Lock()
		defer d.changing.Unlock()
		return api.Release{}, errors.Join(err, d.unhold(ctx, a.Digest))
	}
	r.Carried = carried
	r.CreatedAt = d.Now()
	r.CreatedBy = by.Name
	d.changing.Lock()
	defer d.changing.Unlock()
	if !elsewhere(a.Reference) { // again: another call for this digest may have failed meanwhile, and ended it
		if err := d.hold(ctx, a); err != nil {
			return api.Release{}, err
		}
	}
	e := d.event("release.added", by, true, map[string]string{"release": r.Digest, "version": r.Version, "reference": r.Reference})
	err = d.records.AddRelease(ctx, r, e)
	if errors.Is(err, store.ErrConflict) { // somebody else has added it meanwhile
		err = nil
	}
	if err := errors.Join(err, d.reload(ctx)); err != nil {
		return api.Release{}, err
	}
	return d.Release(ctx, r.Digest)
}

func holder(digest string) string { return "release " + digest }

func (d *Service) hold(ctx context.Context, a api.NewRelease) error {
	return own{d.Artifacts, repository(a.Reference)}.refused(d.Artifacts.Hold(ctx, repository(a.Reference), a.Digest, holder(a.Digest)))
}

// unhold ends what a release holds, unless it is on record: another call may have added it. The caller holds changing
// alone.
func (d *Service) unhold(ctx context.Context, digest string) error {
	d.mu.Lock()
	_, known := d.releases[digest]
	d.mu.Unlock()
	if known || d.Artifacts == nil {
		return nil
	}
	return d.Artifacts.Release(context.WithoutCancel(ctx), holder(digest))
}

// Drop takes a release off the record. Its content stays in the registry, where it can be deleted then.
func (d *Service) Drop(ctx context.Context, digest string, by store.Actor) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	e := d.event("release.dropped", by, true, map[string]string{"release": digest})
	err := d.records.DropRelease(ctx, digest, e)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return noRelease(digest)
	case errors.Is(err, store.ErrConflict):
		return inUse(digest, d.user(digest))
	case err != nil:
		return err
	}
	return errors.Join(d.reload(ctx), d.unhold(ctx, digest))
}

// user names what needs a release.
func (d *Service) user(digest string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, c := range d.channels {
		if c.Digest == digest {
			return "the channel " + name
		}
		if c.Previous == digest {
			return "the channel " + name + ", which would go back to it"
		}
	}
	return "a pin"
}
