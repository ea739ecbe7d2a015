// Package releases keeps the records of agent releases: the releases, the channels that point at them, the signed pointers, the rollouts
// and what became of each node in them, and pins. A package of its own keeps package store readable.
//
// The conditions of every write stand in its SQL. A write whose condition is not true is store.ErrConflict and changes nothing.
package releases

import (
	"context"
	"errors"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Platform is one platform's agent in a release, as the signed pointer names it.
type Platform struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	MediaType   string `json:"media_type"`
	Digest      string `json:"digest"`
	Size        int64  `json:"size"`
	Program     string `json:"program"`
	ProgramSize int64  `json:"program_size"`
}

// Release is a build of the agent. Reference is where it is: "" in the repository of the gateway's agents, another repository here, or
// host/repository.
type Release struct {
	Digest     string     `sql:"digest"` // of its index, or of its one manifest
	Version    string     `sql:"version"`
	Size       int64      `sql:"size"` // bytes of that index
	Reference  string     `sql:"reference"`
	Credential string     `sql:"credential"` // name of the credential for a registry elsewhere; "": none
	Carried    bool       `sql:"carried"`    // the gateway brought it
	CreatedAt  time.Time  `sql:"created_at"`
	CreatedBy  string     `sql:"created_by"`
	Platforms  []Platform `sql:"platforms"`
}

// Records is the database, for releases.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

var releases = engine.NewTable[Release]("releases", "", "")

// Releases returns all releases, the newest first.
func (r Records) Releases(ctx context.Context) ([]Release, error) {
	return releases.All(ctx, r.db, "ORDER BY created_at DESC, digest")
}

// AddRelease stores a release. ErrConflict if it is there already.
func (r Records) AddRelease(ctx context.Context, n Release, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{releases.Insert(n, "")}, events...)
}

// DropRelease deletes a release. ErrNotFound if there is none, ErrConflict if a channel or a pin needs it, or a channel would go back
// to it.
func (r Records) DropRelease(ctx context.Context, digest string, events ...store.Event) error {
	err := r.db.Change(ctx, []engine.Statement{
		engine.Guard("NOT EXISTS(SELECT 1 FROM channels WHERE digest = ? OR previous = ?)", digest, digest),
		engine.Guard("NOT EXISTS(SELECT 1 FROM pins WHERE digest = ?)", digest),
		engine.Guard("EXISTS(SELECT 1 FROM releases WHERE digest = ?)", digest),
		engine.Do("DELETE FROM releases WHERE digest = ?", digest),
	}, events...)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	there, failed := r.db.Query(store.Fresh(ctx), engine.Do("SELECT 1 FROM releases WHERE digest = ?", digest))
	if failed == nil && len(there) == 0 {
		return store.ErrNotFound
	}
	return err
}
