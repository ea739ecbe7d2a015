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

// Release is a build of the agent.
type Release struct {
	Digest     string // of its index, or of its one manifest
	Version    string
	Size       int64  // bytes of that index
	Reference  string // where it is: "" in the repository of the gateway's agents, another repository here, or host/repository
	Credential string // name of the credential for a registry elsewhere; "": none
	Carried    bool   // the gateway brought it
	CreatedAt  time.Time
	CreatedBy  string
	Platforms  []Platform
}

// Records is the database, for releases.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

const releaseColumns = "digest, version, size, reference, credential, carried, created_at, created_by, platforms"

func readRelease(r *engine.Row) Release {
	release := Release{Digest: r.Text(), Version: r.Text(), Size: r.Number(), Reference: r.Text(), Credential: r.Text()}
	release.Carried = r.Flag()
	release.CreatedAt = r.Time()
	release.CreatedBy = r.Text()
	r.Document(&release.Platforms)
	return release
}

// Releases are all releases, the newest first.
func (r Records) Releases(ctx context.Context) ([]Release, error) {
	const all = "SELECT " + releaseColumns + " FROM releases ORDER BY created_at DESC, digest"
	return engine.All(ctx, r.db, readRelease, engine.Do(all))
}

// AddRelease stores a release. ErrConflict if it is there already.
func (r Records) AddRelease(ctx context.Context, n Release, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("INSERT INTO releases("+releaseColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", n.Digest, n.Version, n.Size, n.Reference,
			n.Credential, engine.Flag(n.Carried), engine.Millis(n.CreatedAt), n.CreatedBy, engine.JSON(n.Platforms)),
	}, events...)
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

// Secrets are the names of the gateway's own secrets that begin so, in order. Package store keeps their values.
func (r Records) Secrets(ctx context.Context, prefix string) ([]string, error) {
	return engine.All(ctx, r.db, (*engine.Row).Text,
		engine.Do("SELECT name FROM secrets WHERE substr(name, 1, length(?)) = ? ORDER BY name", prefix, prefix))
}
