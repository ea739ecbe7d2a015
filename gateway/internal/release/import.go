package release

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/build"
	"muster/store/releases"
)

const (
	titleLabel = "org.opencontainers.image.title"
	emptyJSON  = "{}" // the config of an artifact that has none, by the image specification
)

// document is a manifest or an index that the gateway makes. The order of its fields is that of the bytes.
type document struct {
	SchemaVersion int                   `json:"schemaVersion"`
	MediaType     string                `json:"mediaType"`
	ArtifactType  string                `json:"artifactType,omitempty"`
	Config        *artifact.Descriptor  `json:"config,omitempty"`
	Layers        []artifact.Descriptor `json:"layers,omitempty"`
	Manifests     []artifact.Descriptor `json:"manifests,omitempty"`
	Subject       *artifact.Descriptor  `json:"subject,omitempty"`
	Annotations   map[string]string     `json:"annotations,omitempty"`
}

// Import makes a release of the agents that the gateway carries, one program at <os>-<arch>/muster-agent, and points the default channel at
// it where there is no such channel. The same programs and version are always the same release. Without agents it does nothing.
func (d *Desk) Import(ctx context.Context, agents fs.FS, version string) (Release, error) {
	if agents == nil {
		return Release{}, nil
	}
	digest, err := d.carry(ctx, agents, version)
	if err != nil || digest == "" {
		return Release{}, err
	}
	r, err := d.Release(ctx, digest)
	if err != nil || r.Digest != digest {
		if r, err = d.add(ctx, Addition{Digest: digest, Version: version}, true, gatewayActor()); err != nil {
			return Release{}, err
		}
	}
	if _, err := d.channel(wire.DefaultChannel); err == nil {
		return r, nil
	}
	first := step{digest: digest, kind: "channel.pointed", why: "the gateway carries this release"}
	if _, err := d.point(ctx, wire.DefaultChannel, first, gatewayActor()); err != nil {
		return Release{}, quiet(err) // where operators keep the keys, one of them promotes it
	}
	return d.Release(ctx, digest)
}

// carry puts the agents into the registry, and gives the digest of their index; "": there are none.
func (d *Desk) carry(ctx context.Context, agents fs.FS, version string) (string, error) {
	names, err := fs.Glob(agents, "*-*/"+build.ProgramName)
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	index := document{SchemaVersion: 2, MediaType: wire.MediaIndex, ArtifactType: wire.ArtifactAgent,
		Annotations: map[string]string{build.VersionLabel: version}}
	for _, name := range names {
		system, arch, _ := strings.Cut(strings.TrimSuffix(name, "/"+build.ProgramName), "-")
		content, err := fs.ReadFile(agents, name)
		if err != nil {
			return "", err
		}
		entry, err := d.carryOne(ctx, content)
		if err != nil {
			return "", fmt.Errorf("put the agent for %s/%s into the registry: %w", system, arch, err)
		}
		entry.Platform = &artifact.Platform{OS: system, Architecture: arch}
		index.Manifests = append(index.Manifests, entry)
	}
	if len(index.Manifests) == 0 {
		return "", nil
	}
	entry, err := d.putDocument(ctx, wire.AgentRepository, index)
	return entry.Digest, err
}

func (d *Desk) carryOne(ctx context.Context, content []byte) (artifact.Descriptor, error) {
	layer, err := d.putBlob(ctx, wire.AgentRepository, wire.MediaProgram, content)
	if err != nil {
		return layer, err
	}
	layer.Annotations = map[string]string{titleLabel: build.ProgramName}
	return d.putArtifact(ctx, wire.AgentRepository, document{ArtifactType: wire.ArtifactAgent, Layers: []artifact.Descriptor{layer}})
}

// putArtifact completes a manifest that has no config, and stores it.
func (d *Desk) putArtifact(ctx context.Context, repository string, m document) (artifact.Descriptor, error) {
	config, err := d.putBlob(ctx, repository, wire.MediaEmpty, []byte(emptyJSON))
	if err != nil {
		return config, err
	}
	m.SchemaVersion = 2
	m.MediaType = wire.MediaManifest
	m.Config = &config
	return d.putDocument(ctx, repository, m)
}

func (d *Desk) putBlob(ctx context.Context, repository, mediaType string, content []byte) (artifact.Descriptor, error) {
	entry := artifact.Descriptor{MediaType: mediaType, Digest: artifact.DigestOf(content), Size: int64(len(content))}
	if _, err := d.Artifacts.Stat(ctx, repository, entry.Digest); err == nil {
		return entry, nil
	}
	return entry, d.Artifacts.Put(ctx, repository, entry.Digest, entry.Size, bytes.NewReader(content))
}

func (d *Desk) putDocument(ctx context.Context, repository string, m document) (artifact.Descriptor, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return artifact.Descriptor{}, err
	}
	entry := artifact.Descriptor{MediaType: m.MediaType, Digest: artifact.DigestOf(body), Size: int64(len(body)),
		ArtifactType: m.ArtifactType}
	_, err = d.Artifacts.PutManifest(ctx, repository, artifact.PutManifest{Reference: entry.Digest, MediaType: m.MediaType, Body: body,
		By: gatewayActor()})
	return entry, err
}

// attach stores a signed pointer beside its release, as an artifact that refers to it, so that the signature travels with the content. The
// pointer is good without that: the log says where it fails. A registry elsewhere belongs to somebody else.
func (d *Desk) attach(ctx context.Context, p releases.Pointer) {
	d.mu.Lock()
	r := d.releases[p.Digest]
	d.mu.Unlock()
	if elsewhere(r.Reference) || d.Artifacts == nil {
		return
	}
	if err := d.attached(context.WithoutCancel(ctx), r, p); err != nil {
		d.Logger.Error("a pointer is not beside its release in the registry", "channel", p.Channel, "seq", p.Sequence, "error", err)
	}
}

func (d *Desk) attached(ctx context.Context, r releases.Release, p releases.Pointer) error {
	where := repository(r.Reference)
	m, err := d.Artifacts.Manifest(ctx, where, r.Digest)
	if err != nil {
		return err
	}
	layer, err := d.putBlob(ctx, where, wire.ArtifactPointer, []byte(p.Envelope))
	if err != nil {
		return err
	}
	subject := artifact.Descriptor{MediaType: m.MediaType, Digest: r.Digest, Size: r.Size}
	_, err = d.putArtifact(ctx, where, document{ArtifactType: wire.ArtifactPointer, Layers: []artifact.Descriptor{layer}, Subject: &subject,
		Annotations: map[string]string{"dev.muster.channel": p.Channel, "dev.muster.seq": fmt.Sprint(p.Sequence)}})
	return err
}
