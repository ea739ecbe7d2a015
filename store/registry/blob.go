package registry

import (
	"context"
	"errors"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Blob is one blob on disk.
type Blob struct {
	Digest string `sql:"digest"`
	Size   int64  `sql:"size"`
}

// Link is a blob that a repository has.
type Link struct {
	Blob
	UsedAt time.Time // when it was pushed, mounted or touched
	Named  bool      // a manifest of the repository names it
}

// AddBlob records a blob whose file is there, and that a repository has it.
func (r Records) AddBlob(ctx context.Context, repository string, b Blob, at time.Time) error {
	return r.write(ctx,
		addRepository(repository, at),
		engine.Do("INSERT INTO registry_blobs(digest, size, stored_at) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET size = excluded.size",
			b.Digest, b.Size, engine.Millis(at)),
		addLink(repository, b.Digest, at))
}

// MountBlob gives a repository a blob that the repository from has; from "": that any repository has. ErrConflict if there is no such blob.
func (r Records) MountBlob(ctx context.Context, repository, digest, from string, at time.Time) error {
	return r.write(ctx,
		engine.Guard("EXISTS(SELECT 1 FROM registry_links WHERE digest = ? AND ? IN ('', repository))", digest, from),
		addRepository(repository, at),
		addLink(repository, digest, at))
}

func addRepository(name string, at time.Time) engine.Statement {
	return engine.Do("INSERT INTO registry_repositories(name, created_at) VALUES (?, ?) ON CONFLICT DO NOTHING", name, engine.Millis(at))
}

func addLink(repository, digest string, at time.Time) engine.Statement {
	return engine.Do(`INSERT INTO registry_links(repository, digest, used_at) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET used_at = max(used_at, excluded.used_at)`, repository, digest, engine.Millis(at))
}

// Blob returns a blob that a repository has, or ErrNotFound.
func (r Records) Blob(ctx context.Context, repository, digest string) (Link, error) {
	return engine.First(ctx, r.db, func(row *engine.Row) Link {
		return Link{Blob: blobs.Read(row), UsedAt: row.Time(), Named: row.Flag()}
	}, engine.Do(`SELECT b.digest, b.size, l.used_at,
			EXISTS(SELECT 1 FROM registry_names n WHERE n.repository = l.repository AND n.digest = l.digest)
		FROM registry_links l JOIN registry_blobs b ON b.digest = l.digest WHERE l.repository = ? AND l.digest = ?`, repository, digest))
}

var blobs = engine.NewTable[Blob]("registry_blobs", "b", "")

// TouchBlob notes that a blob of a repository was asked for, so that it is not collected before its manifest comes. ErrConflict if the
// repository does not have it.
func (r Records) TouchBlob(ctx context.Context, repository, digest string, at time.Time) error {
	return r.write(ctx, engine.Guard("EXISTS(SELECT 1 FROM registry_links WHERE repository = ? AND digest = ?)", repository, digest),
		engine.Do("UPDATE registry_links SET used_at = max(used_at, ?) WHERE repository = ? AND digest = ?", engine.Millis(at),
			repository, digest))
}

// DropLink takes a blob from a repository. ErrConflict if the repository does not have it, or a held manifest needs it: see Holder.
func (r Records) DropLink(ctx context.Context, repository, digest string, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM registry_links WHERE repository = ? AND digest = ?)", repository, digest),
		notHeld(repository, digest),
		engine.Do("DELETE FROM registry_links WHERE repository = ? AND digest = ?", repository, digest),
	}, events...)
}

// Stored returns the record of a blob, whichever repository has it, or ErrNotFound.
func (r Records) Stored(ctx context.Context, digest string) (Blob, error) {
	return blobs.First(ctx, r.db, "WHERE b.digest = ?", digest)
}

// Blobs returns the blobs after a digest, in the order of digests, at most limit.
func (r Records) Blobs(ctx context.Context, after string, limit int) ([]Blob, error) {
	return blobs.All(ctx, r.db, "WHERE b.digest > ? ORDER BY b.digest LIMIT ?", after, int64(limit))
}

// Collect takes the blobs that no manifest of their repository names, and that were not used since a time, from their repositories.
// Repositories from before that time that have nothing go too. It returns how many blobs and repositories went: 0 if the answer to the
// write was lost, and that is not known any more.
func (r Records) Collect(ctx context.Context, before time.Time) (blobs, repositories int64, err error) {
	done, err := r.db.Batch(ctx, []engine.Statement{
		engine.Do(`DELETE FROM registry_links AS l WHERE l.used_at < ?
			AND NOT EXISTS(SELECT 1 FROM registry_names n WHERE n.repository = l.repository AND n.digest = l.digest)`, engine.Millis(before)),
		engine.Do(`DELETE FROM registry_repositories AS r WHERE r.created_at < ?
			AND NOT EXISTS(SELECT 1 FROM registry_links l WHERE l.repository = r.name)
			AND NOT EXISTS(SELECT 1 FROM registry_manifests m WHERE m.repository = r.name)`, engine.Millis(before))})
	if errors.Is(err, engine.ErrAnswerLost) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	return done[0].Affected, done[1].Affected, nil
}

const unlinked = "NOT EXISTS(SELECT 1 FROM registry_links l WHERE l.digest = b.digest)"

// Unlinked returns blobs that no repository has, at most limit.
func (r Records) Unlinked(ctx context.Context, limit int) ([]Blob, error) {
	return blobs.All(ctx, r.db, "WHERE "+unlinked+" ORDER BY b.digest LIMIT ?", int64(limit))
}

// DropBlob deletes the record of a blob, unless a repository has it. If it returns true, the file has to go.
func (r Records) DropBlob(ctx context.Context, digest string) (bool, error) {
	done, err := r.db.Batch(ctx, []engine.Statement{engine.Do("DELETE FROM registry_blobs AS b WHERE b.digest = ? AND "+unlinked, digest)})
	if errors.Is(err, engine.ErrAnswerLost) {
		if _, err = r.Stored(ctx, digest); errors.Is(err, store.ErrNotFound) {
			return true, nil
		}
		return false, err
	}
	if err != nil {
		return false, err
	}
	return done[0].Affected == 1, nil
}
