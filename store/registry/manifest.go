package registry

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Manifest is a manifest of a repository. Its body is what was pushed, byte by byte.
type Manifest struct {
	Repository string `sql:"repository"`
	Digest     string `sql:"digest"`
	MediaType  string `sql:"media_type"`
	Body       []byte `sql:"body"`
	Referrer
	Config   string    // digest of a blob that the repository must have; empty: none
	Names    []string  // digests of what it needs, Config included
	PushedAt time.Time `sql:"pushed_at"`
	PushedBy string    `sql:"pushed_by"`
}

// Referrer is what is listed about a manifest with its subject.
type Referrer struct {
	Subject      string            `sql:"subject"` // digest; empty: none
	ArtifactType string            `sql:"artifact_type"`
	Annotations  map[string]string `sql:"annotations"`
}

// PutManifest stores a manifest, and points tags at it. ErrConflict if the repository does not have its config. A manifest that is there
// already keeps its record, but takes the new media type.
func (r Records) PutManifest(ctx context.Context, m Manifest, tags []string, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("? = '' OR EXISTS(SELECT 1 FROM registry_links WHERE repository = ? AND digest = ?)", m.Config, m.Repository, m.Config),
		addRepository(m.Repository, m.PushedAt),
		manifests.Insert(stored{m, len(m.Body)}, "ON CONFLICT DO UPDATE SET media_type = excluded.media_type"),
		engine.Do(`INSERT INTO registry_names(repository, manifest, digest) SELECT ?, ?, value FROM json_each(?) WHERE 1
			ON CONFLICT DO NOTHING`, m.Repository, m.Digest, engine.JSON(m.Names)),
		engine.Do(`INSERT INTO registry_tags(repository, tag, digest) SELECT ?, value, ? FROM json_each(?) WHERE 1
			ON CONFLICT DO UPDATE SET digest = excluded.digest`, m.Repository, m.Digest, engine.JSON(tags)),
	}, events...)
}

// stored is a manifest as the table has it.
type stored struct {
	Manifest
	Size int `sql:"size"`
}

var manifests = engine.NewTable[stored]("registry_manifests", "m", "")

func (r Records) manifest(ctx context.Context, rest string, args ...any) (Manifest, error) {
	found, err := manifests.First(ctx, r.db, rest, args...)
	return found.Manifest, err
}

// Manifest returns a manifest by its digest, without Config and Names, or ErrNotFound.
func (r Records) Manifest(ctx context.Context, repository, digest string) (Manifest, error) {
	return r.manifest(ctx, "WHERE m.repository = ? AND m.digest = ?", repository, digest)
}

// Tagged returns the manifest that a tag points at, without Config and Names, or ErrNotFound.
func (r Records) Tagged(ctx context.Context, repository, tag string) (Manifest, error) {
	return r.manifest(ctx, `JOIN registry_tags t ON t.repository = m.repository AND t.digest = m.digest WHERE t.repository = ? AND t.tag = ?`,
		repository, tag)
}

// Tags returns the tags of a repository after one, in the order of their bytes, at most limit; -1: all.
func (r Records) Tags(ctx context.Context, repository, after string, limit int) ([]string, error) {
	return engine.All(ctx, r.db, (*engine.Row).Text, engine.Do(
		"SELECT tag FROM registry_tags WHERE repository = ? AND tag > ? ORDER BY tag LIMIT ?", repository, after, int64(limit)))
}

// DropTag deletes a tag. ErrConflict if there is none.
func (r Records) DropTag(ctx context.Context, repository, tag string, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM registry_tags WHERE repository = ? AND tag = ?)", repository, tag),
		engine.Do("DELETE FROM registry_tags WHERE repository = ? AND tag = ?", repository, tag),
	}, events...)
}

// DropManifest deletes a manifest and its tags. ErrConflict if there is none, or it is held: see Holder. What it named counts as used
// at that time: a client may just have been told that it need not push it again.
func (r Records) DropManifest(ctx context.Context, repository, digest string, at time.Time, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM registry_manifests WHERE repository = ? AND digest = ?)", repository, digest),
		notHeld(repository, digest),
		engine.Do(`UPDATE registry_links SET used_at = max(used_at, ?) WHERE repository = ?
			AND digest IN (SELECT digest FROM registry_names WHERE repository = ? AND manifest = ?)`, engine.Millis(at), repository, repository,
			digest),
		engine.Do("DELETE FROM registry_tags WHERE repository = ? AND digest = ?", repository, digest),
		engine.Do("DELETE FROM registry_names WHERE repository = ? AND manifest = ?", repository, digest),
		engine.Do("DELETE FROM registry_manifests WHERE repository = ? AND digest = ?", repository, digest),
	}, events...)
}

// Referring is a manifest that refers to another one, without its body.
type Referring struct {
	Digest       string
	MediaType    string
	Size         int64
	ArtifactType string
	Annotations  map[string]string
}

const referrers = `SELECT digest, media_type, size, artifact_type,
		CASE WHEN sum(octet_length(annotations)) OVER (ORDER BY digest) <= ? THEN annotations ELSE '{}' END
	FROM registry_manifests
	WHERE repository = ? AND subject = ? AND subject <> '' AND ? IN ('', artifact_type) ORDER BY digest`

// Referrers lists the manifests of a repository with this subject, by digest; with an artifact type, only those of that type. When their
// annotations have more than room bytes, the other manifests come without theirs.
func (r Records) Referrers(ctx context.Context, repository, subject, artifactType string, room int64) ([]Referring, error) {
	return engine.All(ctx, r.db, func(row *engine.Row) Referring {
		m := Referring{Digest: row.Text(), MediaType: row.Text(), Size: row.Number(), ArtifactType: row.Text()}
		row.Document(&m.Annotations)
		return m
	}, engine.Do(referrers, room, repository, subject, artifactType))
}
