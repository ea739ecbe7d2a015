package release

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/store"
	"muster/store/releases"
)

const (
	mostManifest  = 1 << 20 // bytes of an index or a manifest
	mostConfig    = 1 << 20
	mostPlatforms = 16
	versionLabel  = "org.opencontainers.image.version"
	digestLength  = len("sha256:") + 64
)

// source gives the content of releases: the gateway's own registry, or one elsewhere.
type source interface {
	// Manifest gives an index or a manifest whose bytes have this digest.
	Manifest(ctx context.Context, digest string) (mediaType string, body []byte, err error)
	// Blob opens a blob. The caller checks its bytes.
	Blob(ctx context.Context, digest string) (io.ReadCloser, error)
}

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
		return unusable("the repository %s of this registry: %s", o.repository, e.Message)
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

func (d *Desk) source(ctx context.Context, reference, credential string) (source, error) {
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

// Add makes a release of what is in a registry: an index with one manifest for each platform, or one manifest. Again it changes nothing and
// gives the one on record.
func (d *Desk) Add(ctx context.Context, a Addition, by store.Actor) (Release, error) {
	reference, digest, named := strings.Cut(a.Reference, "@")
	a.Reference = reference
	if named && a.Digest != "" && a.Digest != digest {
		return Release{}, wire.Refuse(wire.CodeBadRequest, "the reference names another digest", "give the digest once")
	}
	a.Digest = cmp.Or(a.Digest, digest)
	if len(a.Digest) != digestLength || !strings.HasPrefix(a.Digest, "sha256:") || !artifact.IsDigest(a.Digest) {
		return Release{}, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.80q is no digest", a.Digest), "write sha256: and 64 hex digits")
	}
	if a.Reference == wire.AgentRepository {
		a.Reference = ""
	}
	if known, err := d.Release(ctx, a.Digest); err == nil && known.Digest == a.Digest {
		return known, nil
	}
	return d.add(ctx, a, false, by)
}

func (d *Desk) add(ctx context.Context, a Addition, carried bool, by store.Actor) (Release, error) {
	from, err := d.source(ctx, a.Reference, a.Credential)
	if err != nil {
		return Release{}, err
	}
	if !elsewhere(a.Reference) { // first, so that nobody deletes what is read now
		if err := d.hold(ctx, a); err != nil {
			return Release{}, err
		}
	}
	r, err := inspect(ctx, from, a)
	if err != nil {
		return Release{}, errors.Join(err, d.unhold(ctx, a.Digest))
	}
	r.Carried = carried
	r.CreatedAt = d.Now()
	r.CreatedBy = by.Name
	d.changing.Lock()
	defer d.changing.Unlock()
	e := d.event("release.added", by, true, map[string]string{"release": r.Digest, "version": r.Version, "reference": r.Reference})
	err = d.records.AddRelease(ctx, r, e)
	if errors.Is(err, store.ErrConflict) { // somebody else has added it meanwhile
		err = nil
	}
	if err := errors.Join(err, d.reload(ctx)); err != nil {
		return Release{}, err
	}
	return d.Release(ctx, r.Digest)
}

// inspect reads all of a release, and checks it.
func inspect(ctx context.Context, from source, a Addition) (releases.Release, error) {
	r := releases.Release{Digest: a.Digest, Version: a.Version, Reference: a.Reference, Credential: a.Credential}
	mediaType, body, err := manifest(ctx, from, a.Digest)
	if err != nil {
		return r, err
	}
	r.Size = int64(len(body))
	document, err := artifact.Parse(mediaType, body)
	if err != nil {
		return r, unusable("%s is no index and no manifest: %v", a.Digest, err)
	}
	r.Version = cmp.Or(r.Version, document.Annotations[versionLabel])
	if len(r.Version) > 100 || strings.ContainsFunc(r.Version, func(c rune) bool { return c <= ' ' || c > '~' }) || r.Version == "" {
		return r, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.120q is no version", r.Version), "give one without blanks: --version V")
	}
	entries := document.Manifests
	if mediaType == wire.MediaManifest || len(document.Layers) > 0 {
		entries = []artifact.Descriptor{{MediaType: mediaType, Digest: a.Digest, Size: r.Size}}
	}
	for _, entry := range entries {
		if referrer(entry) {
			continue
		}
		p, err := inspectEntry(ctx, from, entry)
		if err != nil {
			return r, err
		}
		if slices.ContainsFunc(r.Platforms, func(q releases.Platform) bool { return p.OS == q.OS && p.Arch == q.Arch }) {
			return r, unusable("the index has two manifests for %s/%s", p.OS, p.Arch)
		}
		if r.Platforms = append(r.Platforms, p); len(r.Platforms) > mostPlatforms {
			return r, unusable("the index has more than %d manifests", mostPlatforms)
		}
	}
	if len(r.Platforms) == 0 {
		return r, unusable("the index %s has no manifest", a.Digest)
	}
	return r, nil
}

// referrer tells whether an entry is no agent: docker puts its attestations beside the platforms so.
func referrer(entry artifact.Descriptor) bool {
	return entry.Platform != nil && entry.Platform.OS == "unknown" && entry.Platform.Architecture == "unknown"
}

// manifest reads an index or a manifest, and checks its digest.
func manifest(ctx context.Context, from source, digest string) (mediaType string, body []byte, err error) {
	mediaType, body, err = from.Manifest(ctx, digest)
	if err != nil {
		return "", nil, err
	}
	if len(body) > mostManifest {
		return "", nil, unusable("the manifest %s is larger than %d bytes", digest, mostManifest)
	}
	if got := artifact.DigestOf(body); got != digest {
		return "", nil, unusable("the registry gave other bytes for %s: they have the digest %s", digest, got)
	}
	return mediaType, body, nil
}

// inspectEntry reads the manifest of one platform, and its layer.
func inspectEntry(ctx context.Context, from source, entry artifact.Descriptor) (releases.Platform, error) {
	mediaType, body, err := manifest(ctx, from, entry.Digest)
	if err != nil {
		return releases.Platform{}, err
	}
	if int64(len(body)) != entry.Size {
		return releases.Platform{}, unusable("the manifest %s has %d bytes, and the index says %d", entry.Digest, len(body), entry.Size)
	}
	document, err := artifact.Parse(mediaType, body)
	if err != nil {
		return releases.Platform{}, unusable("%s is no manifest: %v", entry.Digest, err)
	}
	if len(document.Layers) != 1 {
		return releases.Platform{}, unusable("the manifest %s has %d layers: an agent has one", entry.Digest, len(document.Layers))
	}
	one := document.Layers[0]
	l := layer{mediaType: one.MediaType, digest: one.Digest, size: one.Size}
	switch {
	case !knownLayer(l.mediaType):
		return releases.Platform{}, unusable("the layer %s has the media type %.100q, which nodes cannot open", l.digest, l.mediaType)
	case l.size <= 0 || l.size > wire.MaxLayer:
		return releases.Platform{}, unusable("the layer %s has %d bytes: from 1 to %d are good", l.digest, l.size, wire.MaxLayer)
	case len(l.digest) != digestLength:
		return releases.Platform{}, unusable("the layer's digest %.80q is no SHA-256", l.digest)
	}
	system, arch, err := stated(ctx, from, entry, document)
	if err != nil {
		return releases.Platform{}, err
	}
	content, err := from.Blob(ctx, l.digest)
	if err != nil {
		return releases.Platform{}, err
	}
	defer content.Close()
	p, err := l.read(content)
	if err != nil {
		return releases.Platform{}, err
	}
	if system == "" {
		system, arch = guess(p)
	}
	if err := checkProgram(p, system, arch); err != nil {
		return releases.Platform{}, err
	}
	return platformOf(system, arch, l, p), nil
}

// stated is the platform that the index's entry and the config state; "": neither does.
func stated(ctx context.Context, from source, entry artifact.Descriptor, document artifact.Document) (system, arch string, err error) {
	if entry.Platform != nil {
		system = entry.Platform.OS
		arch = entry.Platform.Architecture
	}
	c := document.Config
	if c == nil || !strings.HasSuffix(c.MediaType, ".image.config.v1+json") && !strings.HasSuffix(c.MediaType, ".container.image.v1+json") {
		return system, arch, nil
	}
	var config struct{ OS, Architecture string }
	body, err := small(ctx, from, c.Digest)
	if err != nil {
		return "", "", err
	}
	if json.Unmarshal(body, &config) != nil {
		return "", "", unusable("the config %s is no JSON", c.Digest)
	}
	if system != "" && config.OS != "" && (config.OS != system || config.Architecture != arch) {
		return "", "", unusable("the index says %s/%s of the manifest %s, and its config says %.20s/%.20s", system, arch, entry.Digest,
			config.OS, config.Architecture)
	}
	return cmp.Or(system, config.OS), cmp.Or(arch, config.Architecture), nil
}

// small reads a small blob, and checks its digest.
func small(ctx context.Context, from source, digest string) ([]byte, error) {
	content, err := from.Blob(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	body, err := io.ReadAll(io.LimitReader(content, mostConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read the config %s: %w", digest, err)
	}
	if len(body) > mostConfig || artifact.DigestOf(body) != digest {
		return nil, unusable("the config %s is too large, or has another digest", digest)
	}
	return body, nil
}

// guess is the platform of a manifest that stands alone and does not say it.
func guess(p program) (system, arch string) {
	for _, arch := range [...]string{"amd64", "arm64"} {
		if checkProgram(p, "linux", arch) == nil {
			return "linux", arch
		}
	}
	return "linux", "amd64" // checkProgram says what is wrong
}

func holder(digest string) string { return "release " + digest }

func (d *Desk) hold(ctx context.Context, a Addition) error {
	return own{d.Artifacts, repository(a.Reference)}.refused(d.Artifacts.Hold(ctx, repository(a.Reference), a.Digest, holder(a.Digest)))
}

// unhold ends what a release holds, unless it is on record: another call may have added it.
func (d *Desk) unhold(ctx context.Context, digest string) error {
	d.mu.Lock()
	_, known := d.releases[digest]
	d.mu.Unlock()
	if known || d.Artifacts == nil {
		return nil
	}
	return d.Artifacts.Release(context.WithoutCancel(ctx), holder(digest))
}

// Drop takes a release off the record. Its content stays in the registry, where it can be deleted then.
func (d *Desk) Drop(ctx context.Context, digest string, by store.Actor) error {
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
func (d *Desk) user(digest string) string {
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
