package artifact

import (
	"context"

	"muster/store"
)

// PutManifest is a manifest as it is pushed.
type PutManifest struct {
	Reference string      // a tag, or the digest of Body
	MediaType string      // as the client gives it, without parameters
	Body      []byte      // at most MaxManifest; kept byte by byte
	Tags      []string    // further tags
	By        store.Actor // for the event
}

// Stored is what became of a pushed manifest.
type Stored struct {
	Digest  string
	Subject string   // the digest that it refers to; empty: none
	Tags    []string // those that point at it now
}

// Manifest is a manifest as it was pushed.
type Manifest struct {
	Digest    string
	MediaType string
	Body      []byte
}

// PutManifest stores a manifest and points its tags at it. MANIFEST_INVALID where it is none, MANIFEST_BLOB_UNKNOWN where the repository
// does not have what it names. An index may name manifests that are not there, a subject may come later, and layers that must not be
// distributed need not be there at all.
func (r *Registry) PutManifest(ctx context.Context, repository string, m PutManifest) (Stored, error) {
	return Stored{}, errUnsupported()
}

// Manifest reads a manifest by tag or digest. MANIFEST_UNKNOWN where there is none.
func (r *Registry) Manifest(ctx context.Context, repository, reference string) (Manifest, error) {
	return Manifest{}, errUnsupported()
}

// DeleteManifest deletes a tag, or by digest a manifest and all its tags. MANIFEST_UNKNOWN where there is none, DENIED where it is held:
// the message says by what.
func (r *Registry) DeleteManifest(ctx context.Context, repository, reference string, by store.Actor) error {
	return errUnsupported()
}

// Tags lists the tags after last in their order, n at most; n < 0: all. more says that there are further ones. NAME_UNKNOWN where there
// is no such repository.
func (r *Registry) Tags(ctx context.Context, repository string, n int, last string) (tags []string, more bool, err error) {
	return nil, false, errUnsupported()
}

// Repositories lists the names of all repositories in their order.
func (r *Registry) Repositories(ctx context.Context) ([]string, error) { return nil, errUnsupported() }

// Referrers lists the manifests of a repository whose subject is this digest, by digest; with an artifact type, those of it alone. An
// unknown repository or digest has none.
func (r *Registry) Referrers(ctx context.Context, repository, digest, artifactType string) ([]Descriptor, error) {
	return nil, errUnsupported()
}

// Hold keeps a manifest, the manifests and blobs that it names, and those that refer to it, until the holder releases it. Held twice by
// one holder it is held once. MANIFEST_UNKNOWN where it is not there. The holder is a text for people, such as release sha256:...
//
// What refers to a held manifest is not collected, but can be deleted by who asks for that: hold it too where it must not be.
func (r *Registry) Hold(ctx context.Context, repository, digest, holder string) error {
	return errUnsupported()
}

// Release ends everything that a holder holds.
func (r *Registry) Release(ctx context.Context, holder string) error { return errUnsupported() }
