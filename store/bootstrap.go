package store

import (
	"context"
	"time"

	"muster/store/engine"
)

// Bootstrap is a bootstrap token with its script. The script is stored when the token is made, so that every fetch gets the same.
type Bootstrap struct {
	ID           string        `sql:"token"`          // of Token
	Token        Token         `sql:"-"`              // NodeID is the node that it is for; ExpiresAt is the end, Window included
	FetchHash    string        `sql:"fetch_hash"`     // hex SHA-256 of the fetch part
	Mode         string        `sql:"mode"`           // "manual" or "cloud_init"
	Window       time.Duration `sql:"window_ms"`      // how long it lives after the first fetch
	FirstFetchAt *time.Time    `sql:"first_fetch_at"` // nil: not fetched yet
	Script       string        `sql:"script"`         // without the fetch part and the secret; empty: it was dropped, see DropScripts
	Registry     string        `sql:"registry"`       // HOST[:PORT] that the script logs in to; empty: none
	FetchSHA256  string        `sql:"fetch_sha256"`   // hex, of the script with the fetch part
	WholeSHA256  string        `sql:"whole_sha256"`   // hex, of the script with the whole token
}

var bootstraps = engine.NewTable[Bootstrap]("bootstraps", "", "")

// CreateBootstrap stores a bootstrap token for a node. ErrConflict if the node is retired or not in this enrolment ("": it has
// none yet), or if the id is taken.
func (s *Store) CreateBootstrap(ctx context.Context, b Bootstrap, enrolmentID string, events ...Event) error {
	b.ID = b.Token.ID
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND retired_at IS NULL AND enrolment_id = ?)", b.Token.NodeID, enrolmentID),
		s.insertToken(b.Token),
		bootstraps.Insert(b, ""),
	}, events)
}

// Bootstrap returns a bootstrap token by its public id, also one that has ended, or ErrNotFound.
func (s *Store) Bootstrap(ctx context.Context, id string) (Bootstrap, error) {
	token, err := s.Token(ctx, id)
	if err != nil {
		return Bootstrap{}, err
	}
	b, err := bootstraps.First(ctx, s.db, "WHERE token = ?", id)
	b.Token = token
	return b, err
}

// FetchBootstrap records that the script of a token was fetched. After the first fetch the token lives for a Window at most: its end comes
// earlier, and never later. ErrConflict if the token has ended.
func (s *Store) FetchBootstrap(ctx context.Context, id string, at time.Time, events ...Event) error {
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM tokens t WHERE t.id = ? AND t.revoked_at IS NULL AND t.expires_at > ? AND t.uses > "+tokenUsed+")", id,
			millis(at)),
		do(`UPDATE tokens SET expires_at = min(expires_at, ? + (SELECT window_ms FROM bootstraps WHERE token = tokens.id))
			WHERE id = ? AND (SELECT first_fetch_at FROM bootstraps WHERE token = tokens.id) IS NULL`, millis(at), id),
		do("UPDATE bootstraps SET first_fetch_at = ? WHERE token = ? AND first_fetch_at IS NULL", millis(at), id),
	}, events)
}

// endBootstraps revokes the other tokens that are bound to a node, after the node enrolled with one of them.
func endBootstraps(nodeID, credential string, at time.Time) statement {
	return do("UPDATE tokens SET revoked_at = ? WHERE node_id = ? AND node_id <> '' AND id <> ? AND revoked_at IS NULL", millis(at),
		nodeID, credential)
}
