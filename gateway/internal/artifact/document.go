package artifact

import (
	"fmt"
	"slices"

	"muster/agent/sign"
	"muster/agent/wire"
)

// MaxNames is how many layers a manifest, and how many manifests an index, may name.
const MaxNames = 10_000

// Docker's media types for what OCI's say too.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// Descriptor is what manifests say of other content.
type Descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	URLs         []string          `json:"urls,omitempty"`
	Data         []byte            `json:"data,omitempty"`
	Platform     *Platform         `json:"platform,omitempty"`
}

// Platform says where the content of an index's entry runs.
type Platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

// Document is a manifest or an index, with the fields that the registry needs. Other fields are kept in the bytes only.
type Document struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`    // Parse fills it in where the manifest does not say
	ArtifactType  string            `json:"artifactType"` // Parse fills it in: of an image that says none it is its config's type
	Config        *Descriptor       `json:"config"`       // of a manifest that is no index
	Layers        []Descriptor      `json:"layers"`
	Manifests     []Descriptor      `json:"manifests"` // of an index
	Subject       *Descriptor       `json:"subject"`
	Annotations   map[string]string `json:"annotations"`
}

// Index reports whether the document is a list of manifests.
func (d *Document) Index() bool { return d.MediaType == wire.MediaIndex || d.MediaType == dockerIndex }

// Parse reads a manifest and checks what it names: digests, sizes, counts. It takes the media types of OCI and Docker for images and
// indexes; if mediaType is empty, the manifest says its own. The error is MANIFEST_INVALID with what is wrong, or SIZE_INVALID if the
// manifest is too large. The bytes may come from anywhere.
func Parse(mediaType string, body []byte) (Document, error) {
	if len(body) > MaxManifest {
		return Document{}, &Error{Code: CodeSizeInvalid, Message: fmt.Sprintf("a manifest may have %d bytes: move annotations or data into "+
			"a layer", MaxManifest)}
	}
	var d Document
	if err := sign.DecodeOnce(body, &d); err != nil {
		return Document{}, invalid("it cannot be read: " + err.Error())
	}
	if d.MediaType != "" && mediaType != "" && d.MediaType != mediaType {
		return Document{}, invalid(fmt.Sprintf("it is pushed as %.100q, and says that it is %.100q", mediaType, d.MediaType))
	}
	if d.MediaType == "" {
		d.MediaType = mediaType
	}
	if err := d.check(); err != nil {
		return Document{}, err
	}
	if d.ArtifactType == "" && d.Config != nil {
		d.ArtifactType = d.Config.MediaType
	}
	return d, nil
}

func (d *Document) check() error {
	known := []string{wire.MediaManifest, wire.MediaIndex, dockerManifest, dockerIndex}
	switch {
	case !slices.Contains(known, d.MediaType):
		return invalid(fmt.Sprintf("the media type %.100q is none of %q: push it with one of them", d.MediaType, known))
	case d.SchemaVersion != 2:
		return invalid("its schemaVersion is not 2")
	case d.Index() && (d.Config != nil || d.Layers != nil):
		return invalid("an index has no config and no layers")
	case !d.Index() && d.Config == nil:
		return invalid("it has no config: give an empty one, " + wire.MediaEmpty)
	case !d.Index() && d.Manifests != nil:
		return invalid("a manifest that is no index names no manifests")
	case len(d.Layers) > MaxNames || len(d.Manifests) > MaxNames:
		return invalid(fmt.Sprintf("it names more than %d others", MaxNames))
	}
	for _, named := range append(d.needs(), maybe(d.Subject)...) {
		if !IsDigest(named.Digest) || named.Size < 0 {
			return invalid(fmt.Sprintf("it names %.200q with %d bytes: that is no digest and size", named.Digest, named.Size))
		}
	}
	return nil
}

// needs is what the document names, its subject aside.
func (d *Document) needs() []Descriptor {
	return slices.Concat(maybe(d.Config), d.Layers, d.Manifests)
}

func maybe(d *Descriptor) []Descriptor {
	if d == nil {
		return nil
	}
	return []Descriptor{*d}
}

func invalid(why string) error {
	return &Error{Code: CodeManifestInvalid, Message: "the manifest is refused: " + why}
}
