package artifact

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// Times of the rounds of Run.
const (
	round = time.Hour
	// refetch is between two tries to fetch what only other gateways have.
	refetch = time.Minute
	// grace is how long a blob that no manifest names stays after it was pushed, mounted or asked for. The next blob of the same push may
	// be on its way for as long as an upload lives, and its manifest comes last.
	grace = uploadLife
)

// Run removes every hour, and soon after a blob was deleted, what nobody needs: uploads that ended, blobs that no manifest of their
// repository names, and files of blobs that no repository has. It fetches blobs that only other gateways have. It returns when ctx ends.
//
// No manifest is removed unless somebody deletes it, so whatever a manifest names stays, held or not.
func (r *Registry) Run(ctx context.Context) error {
	for {
		missing, err := r.sweep(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Error("the registry was not swept: it tries again in an hour", "error", err)
		}
		wait := round
		if missing > 0 && r.config.Fetch != nil { // soon after a takeover the other gateways are not known yet
			wait = refetch
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		case <-r.wake:
		}
	}
}

// sweep is one round. A step that fails does not keep the others from their work.
func (r *Registry) sweep(ctx context.Context) (missing int64, err error) {
	ended, err := r.endUploads()
	blobs, repositories, errCollect := r.records.Collect(ctx, r.now().Add(-grace))
	files, errUnlinked := r.dropUnlinked(ctx)
	orphans, errOrphans := r.dropOrphans(ctx)
	missing, errMissing := r.missing(ctx)
	r.recount(ctx, 0)
	if ended+blobs+repositories+files+orphans > 0 {
		r.log.Info("the registry was swept", "uploads", ended, "unused", blobs, "repositories", repositories, "files", files+orphans)
	}
	switch {
	case missing > 0 && r.config.Fetch != nil:
		r.log.Warn("files of blobs are not here, and no other gateway gives them now: it is tried again each minute", "blobs", missing)
	case missing > 0:
		r.log.Error("files of blobs are not there: restore them from a backup, or push them again", "blobs", missing)
	}
	return missing, errors.Join(err, errCollect, errUnlinked, errOrphans, errMissing)
}

// endUploads removes the uploads that nobody has added anything to for long.
func (r *Registry) endUploads() (int64, error) {
	dead := r.deadUploads()
	var failed []error
	for _, u := range dead {
		failed = append(failed, r.end(u))
	}
	return int64(len(dead)), errors.Join(failed...)
}

// deadUploads takes the uploads whose time is over.
func (r *Registry) deadUploads() (dead []*upload) {
	before := r.now().Add(-uploadLife)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.uploads {
		if !u.busy && u.touched.Before(before) {
			u.busy = true
			dead = append(dead, u)
		}
	}
	return dead
}

// dropUnlinked removes the blobs that no repository has: first the record, then the file.
func (r *Registry) dropUnlinked(ctx context.Context) (dropped int64, err error) {
	const page = 1000
	for {
		blobs, err := r.records.Unlinked(ctx, page)
		if err != nil {
			return dropped, err
		}
		before := dropped
		for _, blob := range blobs {
			done, err := r.dropBlob(ctx, blob.Digest)
			if err != nil {
				return dropped, err
			}
			if done {
				dropped++
			}
		}
		if len(blobs) < page || dropped == before {
			return dropped, nil
		}
	}
}

func (r *Registry) dropBlob(ctx context.Context, digest string) (bool, error) {
	d, err := ParseDigest(digest)
	if err != nil {
		return false, err
	}
	return r.removing(d, func() (bool, error) {
		dropped, err := r.records.DropBlob(ctx, digest)
		if err != nil || !dropped {
			return false, err
		}
		return true, r.folder.remove(r.folder.blob(d))
	})
}

// removing runs a function that may remove the file of a digest. While files are kept it does not run: the next round will do it.
func (r *Registry) removing(d Digest, do func() (bool, error)) (bool, error) {
	lock := r.lock(d)
	lock.Lock()
	defer lock.Unlock()
	if !r.keeping.TryLock() {
		return false, nil
	}
	defer r.keeping.Unlock()
	return do()
}

// dropOrphans removes files that a crash left without a record. It leaves alone what has no digest for a name.
func (r *Registry) dropOrphans(ctx context.Context) (dropped int64, err error) {
	for _, algorithm := range []string{SHA256, SHA512} {
		n, err := r.dropOrphansOf(ctx, algorithm)
		dropped += n
		if err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

// dropOrphansOf reads some names at a time: whoever may push can make millions of small blobs.
func (r *Registry) dropOrphansOf(ctx context.Context, algorithm string) (dropped int64, err error) {
	dir, err := os.Open(r.folder.algorithm(algorithm))
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1000)
		if errors.Is(err, io.EOF) {
			return dropped, nil
		}
		if err != nil {
			return dropped, err
		}
		for _, name := range names {
			done, err := r.sweepFile(ctx, algorithm+":"+name)
			if err != nil {
				return dropped, err
			}
			if done {
				dropped++
			}
		}
	}
}

// sweepFile removes a file without a record.
func (r *Registry) sweepFile(ctx context.Context, digest string) (bool, error) {
	d, err := ParseDigest(digest)
	if err != nil {
		return false, nil
	}
	return r.removing(d, func() (bool, error) { return r.dropOrphan(ctx, d) })
}

// missing counts the blobs whose files are not there, and which no other gateway gives.
func (r *Registry) missing(ctx context.Context) (missing int64, err error) {
	row := 0 // failures
	err = r.Each(ctx, func(blob Info) error {
		if r.folder.has(blob) {
			return nil
		}
		if r.config.Fetch != nil && row < mostFailed {
			file, err := r.fetch(ctx, blob)
			if err == nil {
				return file.Close()
			}
			if row++; errors.Is(err, ErrNotThere) {
				row = 0
			}
		}
		missing++
		return ctx.Err()
	})
	return missing, err
}
