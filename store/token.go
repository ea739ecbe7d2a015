package store

import (
	"context"
	"time"

	"muster/store/engine"
)

// Token is an enrollment token (mse_) or a bootstrap token (msb_). It holds the key that is derived from the secret, and never the
// secret itself.
type Token struct {
	ID           string            `sql:"id"` // the public part: mse_ab12
	Tenant       string            `sql:"tenant"`
	Labels       map[string]string `sql:"labels"`
	Uses         int               `sql:"uses"` // how many it allows
	Used         int               // how many were taken; writes ignore it
	GPUs         int               `sql:"gpus"`          // expected number on each node; 0: not said
	BindInstance bool              `sql:"bind_instance"` // each use belongs to an instance, which takes it again when it comes back
	NodeID       string            `sql:"node_id"`       // the node that it is bound to, as bootstrap tokens are; "": none
	NodeName     string            // the present name of that node; writes ignore it
	Name         string            `sql:"name"` // of the node that joins with it, or of the bound one when it was made; "": none
	Key          []byte            // enrolment key, sealed at rest; nil in lists
	CreatedAt    time.Time         `sql:"created_at"`
	ExpiresAt    time.Time         `sql:"expires_at"`
	RevokedAt    *time.Time        `sql:"revoked_at"`
	CreatedBy    string            `sql:"created_by"`
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
	return tokens.Insert(sealedToken{t, s.seal.Seal(tokenPlace(t.ID), t.Key)}, "")
}

// sealedToken is a token as it is stored.
type sealedToken struct {
	Token
	Sealed string `sql:"key"`
}

var tokens = engine.NewTable[sealedToken]("tokens", "t", "")

func tokenPlace(id string) string { return "tokens/key/" + id }

// Uses are numbered from 1, and no number is ever free again. So the highest number is how many were taken.
const tokenUsed = "(SELECT COALESCE(max(e.number), 0) FROM enrolments e WHERE e.credential = t.id AND e.number IS NOT NULL)"

var tokenQuery = "SELECT " + tokens.Columns + ", " + tokenUsed +
	", (SELECT name FROM nodes WHERE id = t.node_id AND t.node_id <> '') FROM tokens t"

func readToken(r *row) sealedToken {
	t := tokens.Read(r)
	t.Used = int(r.Number())
	t.NodeName = r.Text()
	return t
}

// Token returns a token by its public id, also an expired, used up or revoked one. ErrNotFound if there is none.
func (s *Store) Token(ctx context.Context, id string) (Token, error) {
	t, err := first(ctx, s, readToken, do(tokenQuery+" WHERE t.id = ?", id))
	if err != nil {
		return Token{}, err
	}
	t.Key, err = s.seal.Open(tokenPlace(id), t.Sealed)
	return t.Token, err
}

// Tokens returns the selected tokens, newest first, without their keys.
func (s *Store) Tokens(ctx context.Context, q TokenQuery) ([]Token, error) {
	var where engine.Where
	where.Given("t.tenant = ?", q.Tenant)
	if !q.All {
		where.And("t.revoked_at IS NULL AND t.expires_at > ? AND t.uses > "+tokenUsed, millis(q.Now))
	}
	found, err := all(ctx, s, readToken, do(tokenQuery+where.SQL()+"ORDER BY t.created_at DESC, t.id", where.Args...))
	list := make([]Token, 0, len(found))
	for _, t := range found {
		list = append(list, t.Token)
	}
	return list, err
}

// RevokeToken revokes a token of a tenant ("": of any). If it is revoked already, the first time stays. ErrNotFound if there is no
// such token.
func (s *Store) RevokeToken(ctx context.Context, tenant, id string, at time.Time, events ...Event) error {
	return engine.NotFound(s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM tokens WHERE id = ? AND (tenant = ? OR ? = ''))", id, tenant, tenant),
		do("UPDATE tokens SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL", millis(at), id),
	}, events))
}
