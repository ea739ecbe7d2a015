package artifact

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

// Document is a manifest or an index, as far as anybody asks. What is not named here is kept in the bytes alone.
type Document struct {
	MediaType    string            `json:"mediaType"` // of the manifest itself; empty: it does not say
	ArtifactType string            `json:"artifactType"`
	Config       *Descriptor       `json:"config"`
	Layers       []Descriptor      `json:"layers"`
	Manifests    []Descriptor      `json:"manifests"` // of an index
	Subject      *Descriptor       `json:"subject"`
	Annotations  map[string]string `json:"annotations"`
}

// Parse reads a manifest and checks what it names: digests, sizes, counts. MANIFEST_INVALID says what is wrong. The bytes may come from
// anywhere.
func Parse(mediaType string, body []byte) (Document, error) {
	return Document{}, errUnsupported()
}
