package artifact

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/store"
	"muster/store/registry"
)

// MaxManifest is how many bytes a manifest may have: 4 MiB, which is more than the 4 MB that every registry must take.
const MaxManifest = 4 << 20

// maxTags is how many tags one push may set.
const maxTags = 100

// PutManifest is a manifest as it is pushed.
type PutManifest struct {
	Reference string      // a tag, or the digest of Body
	MediaType string      // as the client gives it, without parameters; empty: Body says it
	Body      []byte      // at most MaxManifest; kept byte by byte
	Tags      []string    // further tags
	By        store.Actor // for the event
}

// Stored is what became of a pushed manifest.
type Stored struct {
	Digest  string
	Subject string   // the digest that it refers to; empty: none
	Tags    []string // those that this push pointed at it
}

// Manifest is a manifest as it was pushed.
type Manifest struct {
	Digest    string
	MediaType string
	Body      []byte
}

// PutManifest stores a manifest and points its tags at it. The error is MANIFEST_INVALID if it is no manifest, DIGEST_INVALID if it has
// another digest, MANIFEST_BLOB_UNKNOWN if the repository does not have its config. Layers, and the manifests of an index, may be missing:
// some must not be distributed, and whoever copies a part of an image leaves others away. A subject may come later.
func (r *Registry) PutManifest(ctx context.Context, repository string, m PutManifest) (Stored, error) {
	if err := CheckName(repository); err != nil {
		return Stored{}, err
	}
	document, err := Parse(m.MediaType, m.Body)
	if err != nil {
		return Stored{}, err
	}
	done, err := m.stored()
	if err != nil {
		return Stored{}, err
	}
	size := int64(len(m.Body))
	if err := r.keepRoom(size); err != nil {
		return Stored{}, err
	}
	record := m.record(repository, done, document)
	record.PushedAt = r.now()
	if document.Subject != nil {
		done.Subject = document.Subject.Digest
	}
	err = r.records.PutManifest(ctx, record, done.Tags, r.event(eventPushed, m.By, map[string]string{
		"repository": repository, "digest": done.Digest, "tags": strings.Join(done.Tags, " "), "media_type": document.MediaType}))
	if err == nil {
		r.recount(ctx, size)
		return done, nil
	}
	r.giveRoom(size)
	if errors.Is(err, store.ErrConflict) {
		return Stored{}, &Error{Code: CodeManifestBlobUnknown, Message: "this repository does not have the manifest's config: push it first",
			Detail: map[string]string{"digest": record.Config}}
	}
	return Stored{}, err
}

// stored works out the digest and the tags. A push by tag has the usual algorithm, a push by digest the one of that digest.
func (m PutManifest) stored() (Stored, error) {
	tags := slices.Clone(m.Tags)
	algorithm := SHA256
	if strings.Contains(m.Reference, ":") {
		d, err := ParseDigest(m.Reference)
		if err != nil {
			return Stored{}, err
		}
		algorithm = d.Algorithm
	} else {
		tags = append(tags, m.Reference)
	}
	got := digestBy(algorithm, m.Body).String()
	if strings.Contains(m.Reference, ":") && got != m.Reference {
		return Stored{}, refuse(CodeDigestInvalid, "the manifest has the digest "+got, m.Reference)
	}
	for _, tag := range tags {
		if !IsTag(tag) {
			return Stored{}, refuse(CodeManifestInvalid, "a tag has at most 128 letters, digits, and _ . -", tag)
		}
	}
	slices.Sort(tags)
	tags = slices.Compact(tags)
	if len(tags) > maxTags {
		return Stored{}, invalid(fmt.Sprintf("one push sets at most %d tags", maxTags))
	}
	return Stored{Digest: got, Tags: tags}, nil
}

func (m PutManifest) record(repository string, done Stored, d Document) registry.Manifest {
	record := registry.Manifest{Repository: repository, Digest: done.Digest, MediaType: d.MediaType, Body: m.Body, PushedBy: m.By.Name}
	if d.Config != nil {
		record.Config = d.Config.Digest
	}
	for _, named := range d.needs() {
		record.Names = append(record.Names, named.Digest)
	}
	if d.Subject != nil {
		record.Referrer = registry.Referrer{Subject: d.Subject.Digest, ArtifactType: d.ArtifactType, Annotations: d.Annotations}
	}
	return record
}

// Manifest reads a manifest by tag or digest. The error is MANIFEST_UNKNOWN if there is none.
func (r *Registry) Manifest(ctx context.Context, repository, reference string) (Manifest, error) {
	byDigest, err := checkReference(repository, reference)
	if err != nil {
		return Manifest{}, err
	}
	read := r.records.Tagged
	if byDigest {
		read = r.records.Manifest
	}
	m, err := read(ctx, repository, reference)
	if errors.Is(err, store.ErrNotFound) {
		return Manifest{}, unknownManifest(reference)
	}
	return Manifest{Digest: m.Digest, MediaType: m.MediaType, Body: m.Body}, err
}

func checkReference(repository, reference string) (byDigest bool, err error) {
	if err := CheckName(repository); err != nil {
		return false, err
	}
	if strings.Contains(reference, ":") {
		_, err := ParseDigest(reference)
		return true, err
	}
	if !IsTag(reference) {
		return false, unknownManifest(reference)
	}
	return false, nil
}

func unknownManifest(reference string) error {
	return missing(CodeManifestUnknown, "manifest", reference)
}

// DeleteManifest deletes a tag, or, by digest, a manifest and all its tags. The error is MANIFEST_UNKNOWN if there is none, or DENIED if
// the manifest is held: the message says by whom. A tag can always be deleted.
func (r *Registry) DeleteManifest(ctx context.Context, repository, reference string, by store.Actor) error {
	byDigest, err := checkReference(repository, reference)
	if err != nil {
		return err
	}
	if !byDigest {
		err := r.records.DropTag(ctx, repository, reference,
			r.event(eventDeleted, by, map[string]string{"repository": repository, "tag": reference}))
		if errors.Is(err, store.ErrConflict) {
			return unknownManifest(reference)
		}
		return err
	}
	err = r.records.DropManifest(ctx, repository, reference, r.now(),
		r.event(eventDeleted, by, map[string]string{"repository": repository, "digest": reference}))
	if errors.Is(err, store.ErrConflict) {
		return r.whyNot(ctx, repository, reference, unknownManifest(reference))
	}
	if err != nil {
		return err
	}
	r.recount(ctx, 0)
	return nil
}

// Tags lists the tags that come after last, in their order, at most n; n < 0: all. more says that there are further tags. The error is
// NAME_UNKNOWN if there is no such repository.
func (r *Registry) Tags(ctx context.Context, repository string, n int, last string) (tags []string, more bool, err error) {
	if err := CheckName(repository); err != nil {
		return nil, false, err
	}
	there, err := r.records.Exists(ctx, repository)
	if err != nil {
		return nil, false, err
	}
	if !there {
		return nil, false, missing(CodeNameUnknown, "repository", repository)
	}
	if n == 0 {
		return []string{}, false, nil
	}
	if n < 0 {
		tags, err = r.records.Tags(ctx, repository, last, -1)
		return tags, false, err
	}
	const most = 10_000
	n = min(n, most)
	tags, err = r.records.Tags(ctx, repository, last, n+1) // one more is asked for: if it comes, there are further ones
	if err != nil || len(tags) <= n {
		return tags, false, err
	}
	return tags[:n], true, nil
}

// Repositories lists the names of all repositories in their order.
func (r *Registry) Repositories(ctx context.Context) ([]string, error) {
	return r.records.Repositories(ctx)
}

// Referrers lists the manifests of a repository whose subject is this digest, sorted by digest; with an artifact type, only those of that
// type. For an unknown repository or digest the list is empty. A list does not grow without bound: after MaxManifest bytes of annotations,
// the other manifests come without theirs.
func (r *Registry) Referrers(ctx context.Context, repository, digest, artifactType string) ([]Descriptor, error) {
	if err := checkBoth(repository, digest); err != nil {
		return nil, err
	}
	found, err := r.records.Referrers(ctx, repository, digest, artifactType, MaxManifest)
	if err != nil {
		return nil, err
	}
	list := make([]Descriptor, 0, len(found))
	for _, m := range found {
		list = append(list, Descriptor{MediaType: m.MediaType, Digest: m.Digest, Size: m.Size, ArtifactType: m.ArtifactType,
			Annotations: m.Annotations})
	}
	return list, nil
}

// Hold keeps a manifest, and the manifests and blobs that it names, until the holder releases it. A second Hold by the same holder changes
// nothing. The error is MANIFEST_UNKNOWN if the manifest is not there, DENIED if it names more than MaxNames others, its indexes' manifests
// included. The holder is a text for people, such as release sha256:...
//
// What refers to a held manifest is not collected, but can be deleted by who asks for that: hold it too where it must not be.
func (r *Registry) Hold(ctx context.Context, repository, digest, holder string) error {
	if err := checkBoth(repository, digest); err != nil {
		return err
	}
	err := r.records.Hold(ctx, repository, digest, holder, MaxNames)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	if _, err := r.Manifest(ctx, repository, digest); err != nil {
		return err
	}
	return &Error{Code: CodeDenied, Message: fmt.Sprintf("it names more than %d others, too many to keep for a release", MaxNames)}
}

// Release ends every hold of a holder.
func (r *Registry) Release(ctx context.Context, holder string) error {
	return r.records.LetGo(ctx, holder)
}
