package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"muster/store"
	"muster/store/registry"
)

// Kinds of events.
const (
	eventPushed  = "artifact.pushed"
	eventDeleted = "artifact.deleted"
)

// Info names one blob.
type Info struct {
	Digest string
	Size   int64
}

// Blob is a blob that is open for reading. It is a file, so that http.ServeContent can have the kernel send it.
type Blob struct {
	Info
	*os.File
}

// Blob opens a blob of a repository. The error is BLOB_UNKNOWN if the repository does not have it.
func (r *Registry) Blob(ctx context.Context, repository, digest string) (Blob, error) {
	link, err := r.link(ctx, repository, digest)
	if err != nil {
		return Blob{}, err
	}
	return r.openBlob(ctx, Info(link.Blob))
}

// openBlob opens a blob that is on record. One that is not here is fetched from another gateway, where there is one.
func (r *Registry) openBlob(ctx context.Context, info Info) (Blob, error) {
	file, err := r.folder.open(info)
	if r.config.Fetch != nil && Is(err, CodeBlobUnknown) {
		if file, err = r.fetch(ctx, info); err != nil {
			r.log.Warn("a blob is not here, and no other gateway gives it", "digest", info.Digest, "error", err)
		}
	}
	if err != nil {
		return Blob{}, err
	}
	return Blob{info, file}, nil
}

// fetchTime is for one blob that another gateway has.
const fetchTime = 30 * time.Minute

// fetch fetches a blob. If no gateway gives it now, that is no word about whether there is one: soon after a takeover nobody stands by yet.
// If the record goes meanwhile, the file is an orphan: the next sweep removes it.
func (r *Registry) fetch(ctx context.Context, info Info) (*os.File, error) {
	d, err := ParseDigest(info.Digest)
	if err != nil {
		return nil, err
	}
	lock := &r.fetches[d.number()%len(r.fetches)]
	lock.Lock()
	defer lock.Unlock()
	if file, err := r.folder.open(info); err == nil { // another caller has fetched it
		return file, nil
	}
	// For all who want it, and for the next one to ask, if this caller goes.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	content, err := r.config.Fetch(ctx, info)
	if err == nil {
		err = errors.Join(r.folder.take(info, content), content.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", &Error{Code: CodeUnavailable,
			Message: "this blob is on record, and no gateway gives it now: ask again, and see the gateway's log"}, err)
	}
	return r.folder.open(info)
}

// link finds a blob of a repository.
func (r *Registry) link(ctx context.Context, repository, digest string) (registry.Link, error) {
	if err := checkBoth(repository, digest); err != nil {
		return registry.Link{}, err
	}
	link, err := r.records.Blob(ctx, repository, digest)
	if errors.Is(err, store.ErrNotFound) {
		err = unknownBlob(digest)
	}
	return link, err
}

func checkBoth(repository, digest string) error {
	if err := CheckName(repository); err != nil {
		return err
	}
	_, err := ParseDigest(digest)
	return err
}

// Stat returns the size of a blob of a repository, or BLOB_UNKNOWN if the repository does not have it. A blob that was asked for stays for
// a while: a client that was told of it need not push it again before its manifest.
func (r *Registry) Stat(ctx context.Context, repository, digest string) (int64, error) {
	link, err := r.link(ctx, repository, digest)
	if err != nil {
		return 0, err
	}
	if !r.folder.has(Info(link.Blob)) {
		return 0, unknownBlob(digest)
	}
	now := r.now()
	if link.Named || now.Sub(link.UsedAt) < grace/2 {
		return link.Size, nil
	}
	if err := r.records.TouchBlob(ctx, repository, digest, now); errors.Is(err, store.ErrConflict) {
		return 0, unknownBlob(digest)
	} else if err != nil {
		return 0, err
	}
	return link.Size, nil
}

// DeleteBlob takes a blob from a repository. DENIED if a held manifest needs it.
func (r *Registry) DeleteBlob(ctx context.Context, repository, digest string, by store.Actor) error {
	if err := checkBoth(repository, digest); err != nil {
		return err
	}
	event := r.event(eventDeleted, by, map[string]string{"repository": repository, "blob": digest})
	err := r.records.DropLink(ctx, repository, digest, event)
	if errors.Is(err, store.ErrConflict) {
		return r.whyNot(ctx, repository, digest, unknownBlob(digest))
	}
	if err != nil {
		return err
	}
	select {
	case r.wake <- struct{}{}:
	default: // it is to wake up already
	}
	return nil
}

func (r *Registry) event(kind string, by store.Actor, detail map[string]string) store.Event {
	return store.Event{At: r.now(), Kind: kind, Actor: by.Name, Address: by.Address, Outcome: store.OutcomeOK, Detail: detail, Security: true}
}

// whyNot tells why something was not deleted: it is held, or it is not there.
func (r *Registry) whyNot(ctx context.Context, repository, digest string, missing error) error {
	holder, err := r.records.Holder(ctx, repository, digest)
	if errors.Is(err, store.ErrNotFound) {
		return missing
	}
	if err != nil {
		return err
	}
	return &Error{Code: CodeDenied, Message: "it cannot be deleted, because this needs it: " + holder,
		Detail: map[string]string{"digest": digest, "held_by": holder}}
}

// Mount gives a repository a blob that the repository from has; from "": that any repository has. It returns false if there is no such
// blob: then the client pushes it.
func (r *Registry) Mount(ctx context.Context, repository, digest, from string) (bool, error) {
	if err := checkBoth(repository, digest); err != nil {
		return false, err
	}
	blob, err := r.records.Stored(ctx, digest)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !r.folder.has(Info(blob)) {
		return false, nil
	}
	err = r.records.MountBlob(ctx, repository, digest, from, r.now())
	if errors.Is(err, store.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// Each calls do with every blob of every repository, in the order of their digests, until do returns an error.
func (r *Registry) Each(ctx context.Context, do func(Info) error) error {
	return Each(ctx, r.records, do)
}

// Each calls do with every blob on record, in the order of their digests, until do returns an error.
func Each(ctx context.Context, records registry.Records, do func(Info) error) error {
	const page = 1000
	after := ""
	for {
		blobs, err := records.Blobs(ctx, after, page)
		if err != nil {
			return err
		}
		for _, blob := range blobs {
			if err := do(Info(blob)); err != nil {
				return err
			}
			after = blob.Digest
		}
		if len(blobs) < page {
			return nil
		}
	}
}

// Keep runs a function, and removes no blob from the disk meanwhile. A backup first copies the database and then the blobs of Each, in one
// Keep: so it has every blob that its database knows.
func (r *Registry) Keep(do func() error) error {
	r.keeping.RLock()
	defer r.keeping.RUnlock()
	return do()
}

// Raw opens a blob by its digest, whichever repository has it, and verifies its bytes first. It is for backups. The error is BLOB_UNKNOWN
// if the blob is lost, damaged, or cannot be read. A damaged blob is set aside, so that it can be pushed again.
func (r *Registry) Raw(ctx context.Context, digest string) (Blob, error) {
	d, err := ParseDigest(digest)
	if err != nil {
		return Blob{}, err
	}
	stored, err := r.records.Stored(ctx, digest)
	if errors.Is(err, store.ErrNotFound) {
		return Blob{}, unknownBlob(digest)
	}
	if err != nil {
		return Blob{}, err
	}
	blob, err := r.openBlob(ctx, Info(stored))
	if err != nil {
		return blob, err
	}
	sum := newHash(d.Algorithm)
	_, err = io.Copy(sum, blob)
	if err == nil {
		_, err = blob.Seek(0, io.SeekStart)
	}
	switch {
	case err != nil:
		r.log.Error("a blob cannot be read", "digest", digest, "error", err)
	case sumOf(d.Algorithm, sum) != d:
		r.setAside(d, blob.File)
	default:
		return blob, nil
	}
	return Blob{}, errors.Join(unknownBlob(digest), blob.Close())
}

// setAside gives a blob's file another name, unless it was replaced meanwhile. Who has it open reads on.
func (r *Registry) setAside(d Digest, damaged *os.File) {
	lock := r.lock(d)
	lock.Lock()
	defer lock.Unlock()
	to, err := r.folder.setAside(d, damaged)
	r.log.Error("a blob is damaged: push again what needs it", "digest", d.String(), "aside", to, "error", err)
}

// dropOrphan removes the file of a blob unless the database knows it. The lock of the digest must be held.
func (r *Registry) dropOrphan(ctx context.Context, d Digest) (bool, error) {
	_, err := r.records.Stored(context.WithoutCancel(ctx), d.String())
	if errors.Is(err, store.ErrNotFound) {
		return true, r.folder.remove(r.folder.blob(d))
	}
	return false, err
}
