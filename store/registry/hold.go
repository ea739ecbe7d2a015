package registry

import (
	"context"

	"muster/store/engine"
)

// needed is what held manifests need: themselves, and what they and their manifests name. Each row has one holder. UNION drops rows
// that are there already, so the walk ends, and each manifest is walked once for each holder. CROSS JOIN keeps SQLite from reading all
// names of the repository for each row.
const needed = `WITH RECURSIVE needed(holder, repository, digest) AS (
		SELECT holder, repository, digest FROM registry_holds
		UNION
		SELECT h.holder, h.repository, n.digest FROM needed h
			CROSS JOIN registry_names n ON n.repository = h.repository AND n.manifest = h.digest)
	`

// notHeld aborts a batch that deletes what a held manifest needs.
func notHeld(repository, digest string) engine.Statement {
	return engine.Guard("NOT EXISTS("+needed+"SELECT 1 FROM needed WHERE repository = ? AND digest = ?)", repository, digest)
}

// below is the digest of a manifest, and all that it and its manifests name.
const below = `WITH RECURSIVE below(digest) AS (
		SELECT ?
		UNION
		SELECT n.digest FROM below b CROSS JOIN registry_names n ON n.repository = ? AND n.manifest = b.digest)
	`

// Hold keeps a manifest and what it names until its holder lets go. ErrConflict if the manifest is not there, or has more than most others
// below it.
func (r Records) Hold(ctx context.Context, repository, digest, holder string, most int) error {
	return r.write(ctx,
		engine.Guard("EXISTS(SELECT 1 FROM registry_manifests WHERE repository = ? AND digest = ?)", repository, digest),
		engine.Guard("("+below+"SELECT count(*) FROM (SELECT 1 FROM below LIMIT ?)) <= ?", digest, repository, int64(most)+2, int64(most)+1),
		engine.Do("INSERT INTO registry_holds(holder, repository, digest) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", holder, repository, digest))
}

// LetGo ends all holds of a holder.
func (r Records) LetGo(ctx context.Context, holder string) error {
	return r.write(ctx, engine.Do("DELETE FROM registry_holds WHERE holder = ?", holder))
}

// Holder returns who needs a manifest or a blob of a repository, the first of them by name, or ErrNotFound.
func (r Records) Holder(ctx context.Context, repository, digest string) (string, error) {
	return engine.First(ctx, r.db, (*engine.Row).Text,
		engine.Do(needed+"SELECT holder FROM needed WHERE repository = ? AND digest = ? ORDER BY holder LIMIT 1", repository, digest))
}
