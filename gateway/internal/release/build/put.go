package build

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
	"muster/store"
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

// Writer puts builds, and what vouches for them, into the gateway's own registry. What is there already is not written again.
type Writer struct {
	Registry *artifact.Registry
	By       store.Actor
}

// Carry puts agents into the repository of agents, one program at <os>-<arch>/muster-agent, and returns the digest of their index; "":
// there are no agents. The same programs and version always have the same digest.
func (w Writer) Carry(ctx context.Context, agents fs.FS, version string) (string, error) {
	names, err := fs.Glob(agents, "*-*/"+ProgramName)
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	index := document{SchemaVersion: 2, MediaType: wire.MediaIndex, ArtifactType: wire.ArtifactAgent,
		Annotations: map[string]string{VersionLabel: version}}
	for _, name := range names {
		system, arch, _ := strings.Cut(strings.TrimSuffix(name, "/"+ProgramName), "-")
		content, err := fs.ReadFile(agents, name)
		if err != nil {
			return "", err
		}
		entry, err := w.carryOne(ctx, content)
		if err != nil {
			return "", fmt.Errorf("put the agent for %s/%s into the registry: %w", system, arch, err)
		}
		entry.Platform = &artifact.Platform{OS: system, Architecture: arch}
		index.Manifests = append(index.Manifests, entry)
	}
	if len(index.Manifests) == 0 {
		return "", nil
	}
	entry, err := w.putDocument(ctx, wire.AgentRepository, index)
	return entry.Digest, err
}

func (w Writer) carryOne(ctx context.Context, content []byte) (artifact.Descriptor, error) {
	layer, err := w.putBlob(ctx, wire.AgentRepository, wire.MediaProgram, content)
	if err != nil {
		return layer, err
	}
	layer.Annotations = map[string]string{titleLabel: ProgramName}
	return w.putArtifact(ctx, wire.AgentRepository, document{ArtifactType: wire.ArtifactAgent, Layers: []artifact.Descriptor{layer}})
}

// putArtifact completes a manifest that has no config, and stores it.
func (w Writer) putArtifact(ctx context.Context, repository string, m document) (artifact.Descriptor, error) {
	config, err := w.putBlob(ctx, repository, wire.MediaEmpty, []byte(emptyJSON))
	if err != nil {
		return config, err
	}
	m.SchemaVersion = 2
	m.MediaType = wire.MediaManifest
	m.Config = &config
	return w.putDocument(ctx, repository, m)
}

func (w Writer) putBlob(ctx context.Context, repository, mediaType string, content []byte) (artifact.Descriptor, error) {
	entry := artifact.Descriptor{MediaType: mediaType, Digest: artifact.DigestOf(content), Size: int64(len(content))}
	if _, err := w.Registry.Stat(ctx, repository, entry.Digest); err == nil {
		return entry, nil
	}
	return entry, w.Registry.Put(ctx, repository, entry.Digest, entry.Size, bytes.NewReader(content))
}

func (w Writer) putDocument(ctx context.Context, repository string, m document) (artifact.Descriptor, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return artifact.Descriptor{}, err
	}
	entry := artifact.Descriptor{MediaType: m.MediaType, Digest: artifact.DigestOf(body), Size: int64(len(body)),
		ArtifactType: m.ArtifactType}
	if there, err := w.Registry.Manifest(ctx, repository, entry.Digest); err == nil && there.MediaType == m.MediaType {
		return entry, nil // each start of the gateway comes by here: nothing was pushed
	}
	_, err = w.Registry.PutManifest(ctx, repository, artifact.PutManifest{Reference: entry.Digest, MediaType: m.MediaType, Body: body,
		By: w.By})
	return entry, err
}

// Attach stores a signed pointer beside its release, as an artifact that refers to it, so that the signature travels with the content.
func (w Writer) Attach(ctx context.Context, where string, r releases.Release, p releases.Pointer) error {
	m, err := w.Registry.Manifest(ctx, where, r.Digest)
	if err != nil {
		return err
	}
	layer, err := w.putBlob(ctx, where, wire.ArtifactPointer, []byte(p.Envelope))
	if err != nil {
		return err
	}
	subject := artifact.Descriptor{MediaType: m.MediaType, Digest: r.Digest, Size: r.Size}
	_, err = w.putArtifact(ctx, where, document{ArtifactType: wire.ArtifactPointer, Layers: []artifact.Descriptor{layer}, Subject: &subject,
		Annotations: map[string]string{"dev.muster.channel": p.Channel, "dev.muster.seq": fmt.Sprint(p.Sequence)}})
	return err
}
