package store

import (
	"context"
	"time"
)

// Token is an enrollment token (mse_) or a bootstrap token (msb_). It holds the key that is derived from the secret, and never the
// secret itself.
type Token struct {
	ID           string // the public part: mse_ab12
	Tenant       string
	Labels       map[string]string
	Uses         int    // how many it allows
	Used         int    // how many were taken; writes ignore it
	GPUs         int    // expected number on each node; 0: not said
	BindInstance bool   // each use belongs to an instance, which takes it again when it comes back
	NodeID       string // the node that it is bound to, as bootstrap tokens are; "": none
	NodeName     string // the present name of that node; writes ignore it
	Name         string // of the node that joins with it; if it is bound to a node: that node's name when it was made; "": none
	Key          []byte // enrolment key, sealed at rest; nil in lists
	CreatedAt    time.Time
	ExpiresAt    time.Time
	RevokedAt    *time.Time
	CreatedBy    string
}

// TokenQuery selects tokens.
type TokenQuery struct {
	Tenant string // "": all
	All    bool   // also those that are used up, expired or revoked
	Now    time.Time
}

// CreateToken stores a new token. ErrConflict if the id is taken.
func (s *Store) CreateToken(ctx context.Context, t Token, events ...Event) error {
	return s.change(ctx, []statement{s.insertToken(t)}, events)
}

func (s *Store) insertToken(t Token) statement {
	return do(`INSERT INTO tokens(id, tenant, labels, uses, gpus, bind_instance, node_id, key, created_at, expires_at, revoked_at,
		created_by, name)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID, t.Tenant, object(t.Labels), int64(t.Uses), int64(t.GPUs), flag(t.BindInstance), t.NodeID,
		s.seal.Seal(tokenPlace(t.ID), t.Key),
		millis(t.CreatedAt), millis(t.ExpiresAt), maybeMillis(t.RevokedAt), t.CreatedBy, t.Name)
}

func tokenPlace(id string) string { return "tokens/key/" + id }

// Uses are numbered from 1, and no number is ever free again. So the highest number is how many were taken.
const (
	tokenUsed    = "(SELECT COALESCE(max(e.number), 0) FROM enrolments e WHERE e.credential = t.id AND e.number IS NOT NULL)"
	tokenColumns = "t.id, t.tenant, t.labels, t.uses, " + tokenUsed +
		", t.gpus, t.bind_instance, t.node_id, t.created_at, t.expires_at, t.revoked_at, t.created_by, t.name, " +
		"COALESCE((SELECT n.name FROM nodes n WHERE n.id = t.node_id AND t.node_id <> ''), '')"
)

func readToken(r *row) Token {
	t := Token{ID: r.Text(), Tenant: r.Text()}
	r.Document(&t.Labels)
	t.Uses = int(r.Number())
	t.Used = int(r.Number())
	t.GPUs = int(r.Number())
	t.BindInstance = r.Flag()
	t.NodeID = r.Text()
	t.CreatedAt = r.Time()
	t.ExpiresAt = r.Time()
	t.RevokedAt = r.Maybe()
	t.CreatedBy = r.Text()
	t.Name = r.Text()
	t.NodeName = r.Text()
	return t
}

// Token returns a token by its public id, also an expired, used up or revoked one. ErrNotFound if there is none.
func (s *Store) Token(ctx context.Context, id string) (Token, error) {
	rows, err := s.query(ctx, do("SELECT "+tokenColumns+", t.key FROM tokens t WHERE t.id = ?", id))
	if err != nil {
		return Token{}, err
	}
	if len(rows) == 0 {
		return Token{}, ErrNotFound
	}
	r := row{Values: rows[0]}
	t := readToken(&r)
	sealed := r.Text()
	if r.Err != nil {
		return Token{}, r.Err
	}
	t.Key, err = s.seal.Open(tokenPlace(id), sealed)
	return t, err
}

// Tokens returns the selected tokens, newest first, without their keys.
func (s *Store) Tokens(ctx context.Context, q TokenQuery) ([]Token, error) {
	var where filter
	if q.Tenant != "" {
		where.and("t.tenant = ?", q.Tenant)
	}
	if !q.All {
		where.and("t.revoked_at IS NULL AND t.expires_at > ? AND t.uses > "+tokenUsed, millis(q.Now))
	}
	return all(ctx, s, readToken,
		do("SELECT "+tokenColumns+" FROM tokens t"+where.sql()+" ORDER BY t.created_at DESC, t.id", where.args...))
}

// RevokeToken revokes a token of a tenant ("": of any). If it is revoked already, the first time stays. ErrNotFound if there is no
// such token.
func (s *Store) RevokeToken(ctx context.Context, tenant, id string, at time.Time, events ...Event) error {
	return notFound(s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM tokens WHERE id = ? AND (tenant = ? OR ? = ''))", id, tenant, tenant),
		do("UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", millis(at), id),
	}, events))
}
