// Package build reads builds of the agent out of a registry, and refuses what a node could not install.
//
// Nothing that is read is trusted: it is bounded in size, compared with its digests, and never unpacked to the disk.
package build

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/artifact/executable"
	"muster/store/releases"
)

// VersionLabel is the annotation of an index that says which version it is.
const VersionLabel = "org.opencontainers.image.version"

// ProgramName is the name of the only file in a layer that is an archive.
const ProgramName = "muster-agent"

const (
	mostManifest  = 1 << 20 // bytes of an index or a manifest
	mostConfig    = 1 << 20
	mostPlatforms = 16
	digestLength  = len("sha256:") + 64
)

// Source returns the content of builds: the gateway's own registry, or another one.
type Source interface {
	// Manifest returns the index or manifest whose bytes have this digest.
	Manifest(ctx context.Context, digest string) (mediaType string, body []byte, err error)
	// Blob opens a blob. The caller checks its bytes.
	Blob(ctx context.Context, digest string) (io.ReadCloser, error)
}

// Inspect reads all of a build, and checks it. It fills in size and platforms, and the version if the caller gives none.
func Inspect(ctx context.Context, from Source, r releases.Release) (releases.Release, error) {
	mediaType, body, err := manifest(ctx, from, r.Digest)
	if err != nil {
		return r, err
	}
	r.Size = int64(len(body))
	document, err := artifact.Parse(mediaType, body)
	if err != nil {
		return r, Unusable("%s is no index and no manifest: %v", r.Digest, err)
	}
	r.Version = cmp.Or(r.Version, document.Annotations[VersionLabel])
	if len(r.Version) > 100 || strings.ContainsFunc(r.Version, func(c rune) bool { return c <= ' ' || c > '~' }) || r.Version == "" {
		return r, wire.Refuse(wire.CodeBadRequest, fmt.Sprintf("%.120q is no version", r.Version), "give one without blanks: --version V")
	}
	entries := document.Manifests
	if mediaType == wire.MediaManifest || len(document.Layers) > 0 {
		entries = []artifact.Descriptor{{MediaType: mediaType, Digest: r.Digest, Size: r.Size}}
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
			return r, Unusable("the index has two manifests for %s/%s", p.OS, p.Arch)
		}
		if r.Platforms = append(r.Platforms, p); len(r.Platforms) > mostPlatforms {
			return r, Unusable("the index has more than %d manifests", mostPlatforms)
		}
	}
	if len(r.Platforms) == 0 {
		return r, Unusable("the index %s has no manifest", r.Digest)
	}
	return r, nil
}

// referrer tells whether an entry is no agent: docker puts its attestations beside the platforms so.
func referrer(entry artifact.Descriptor) bool {
	return entry.Platform != nil && entry.Platform.OS == "unknown" && entry.Platform.Architecture == "unknown"
}

// manifest reads an index or a manifest, and checks its digest.
func manifest(ctx context.Context, from Source, digest string) (mediaType string, body []byte, err error) {
	mediaType, body, err = from.Manifest(ctx, digest)
	if err != nil {
		return "", nil, err
	}
	if len(body) > mostManifest {
		return "", nil, Unusable("the manifest %s is larger than %d bytes", digest, mostManifest)
	}
	if got := artifact.DigestOf(body); got != digest {
		return "", nil, Unusable("the registry gave other bytes for %s: they have the digest %s", digest, got)
	}
	return mediaType, body, nil
}

// inspectEntry reads the manifest of one platform, and its layer.
func inspectEntry(ctx context.Context, from Source, entry artifact.Descriptor) (releases.Platform, error) {
	mediaType, body, err := manifest(ctx, from, entry.Digest)
	if err != nil {
		return releases.Platform{}, err
	}
	if int64(len(body)) != entry.Size {
		return releases.Platform{}, Unusable("the manifest %s has %d bytes, and the index says %d", entry.Digest, len(body), entry.Size)
	}
	document, err := artifact.Parse(mediaType, body)
	if err != nil {
		return releases.Platform{}, Unusable("%s is no manifest: %v", entry.Digest, err)
	}
	if len(document.Layers) != 1 {
		return releases.Platform{}, Unusable("the manifest %s has %d layers: an agent has one", entry.Digest, len(document.Layers))
	}
	one := document.Layers[0]
	l := layer{mediaType: one.MediaType, digest: one.Digest, size: one.Size}
	switch {
	case !knownLayer(l.mediaType):
		return releases.Platform{}, Unusable("the layer %s has the media type %.100q, which nodes cannot open", l.digest, l.mediaType)
	case l.size <= 0 || l.size > wire.MaxLayer:
		return releases.Platform{}, Unusable("the layer %s has %d bytes: from 1 to %d are good", l.digest, l.size, wire.MaxLayer)
	case len(l.digest) != digestLength:
		return releases.Platform{}, Unusable("the layer's digest %.80q is no SHA-256", l.digest)
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
		system, arch = "linux", cmp.Or(executable.Arch(p.head), "amd64") // of a manifest that stands alone; checkProgram says what is wrong
	}
	if err := checkProgram(p, system, arch); err != nil {
		return releases.Platform{}, err
	}
	return platformOf(system, arch, l, p), nil
}

// stated is the platform that the index's entry and the config state; "": neither does.
func stated(ctx context.Context, from Source, entry artifact.Descriptor, document artifact.Document) (system, arch string, err error) {
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
		return "", "", Unusable("the config %s is no JSON", c.Digest)
	}
	if system != "" && config.OS != "" && (config.OS != system || config.Architecture != arch) {
		return "", "", Unusable("the index says %s/%s of the manifest %s, and its config says %.20s/%.20s", system, arch, entry.Digest,
			config.OS, config.Architecture)
	}
	return cmp.Or(system, config.OS), cmp.Or(arch, config.Architecture), nil
}

// small reads a small blob, and checks its digest.
func small(ctx context.Context, from Source, digest string) ([]byte, error) {
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
		return nil, Unusable("the config %s is too large, or has another digest", digest)
	}
	return body, nil
}

// Unusable says what is wrong with the content of a release.
func Unusable(format string, args ...any) error {
	return wire.Refuse(wire.CodeReleaseUnusable, fmt.Sprintf(format, args...), "muster release push makes one that nodes can install")
}

// IsDigest reports whether a text is a digest in the one form that pointers have.
func IsDigest(digest string) bool {
	return len(digest) == digestLength && strings.HasPrefix(digest, "sha256:") && artifact.IsDigest(digest)
}
