// Package registry keeps the records of the registry of artifacts: repositories, which blobs they have, manifests, tags, what refers to
// what, and what must stay. It does not touch the files of blobs.
//
// It promises what package store promises: each write is one atomic batch with its conditions in its SQL.
package registry

import (
	"context"

	"muster/store"
	"muster/store/engine"
)

// Records are the records of one registry. Its methods may be called from any number of goroutines.
type Records struct{ db store.Records }

// On returns the records in a database.
func On(db store.Records) Records { return Records{db} }

const bytesKept = `SELECT (SELECT COALESCE(sum(size), 0) FROM registry_blobs) + (SELECT COALESCE(sum(size), 0) FROM registry_manifests)`

// Bytes returns the size of all blobs and manifests. A blob that several repositories have counts once.
func (r Records) Bytes(ctx context.Context) (int64, error) {
	return engine.First(ctx, r.db, (*engine.Row).Number, engine.Do(bytesKept))
}

// Repositories lists the names of all repositories in their order.
func (r Records) Repositories(ctx context.Context) ([]string, error) {
	return engine.All(ctx, r.db, (*engine.Row).Text, engine.Do("SELECT name FROM registry_repositories ORDER BY name"))
}

// Exists reports whether there is a repository of this name.
func (r Records) Exists(ctx context.Context, repository string) (bool, error) {
	return r.is(ctx, "EXISTS(SELECT 1 FROM registry_repositories WHERE name = ?)", repository)
}

func (r Records) is(ctx context.Context, condition string, args ...any) (bool, error) {
	return engine.First(ctx, r.db, (*engine.Row).Flag, engine.Do("SELECT "+condition, args...))
}

// write runs a batch of which nobody wants the results.
func (r Records) write(ctx context.Context, statements ...engine.Statement) error {
	return r.db.Change(ctx, statements)
}
