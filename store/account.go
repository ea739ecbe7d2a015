package store

import (
	"context"
	"errors"
	"time"

	"muster/store/engine"
)

// Account is an operator or a service account, with a hash of its API token's secret.
type Account struct {
	ID         string     `sql:"id"`     // msa_...
	Name       string     `sql:"name"`   // unique among the accounts that are not revoked
	Tenant     string     `sql:"tenant"` // "": all
	Scopes     []string   `sql:"scopes"`
	SecretHash []byte     `sql:"secret_hash"`
	CreatedAt  time.Time  `sql:"created_at"`
	ExpiresAt  *time.Time `sql:"expires_at"`
	RevokedAt  *time.Time `sql:"revoked_at"`
	LastUsedAt *time.Time `sql:"last_used_at"`
	CreatedBy  string     `sql:"created_by"` // Actor.Name of who made it; empty: not known
	Maker      string     `sql:"maker"`      // the id of the account that made it; empty: no account did
}

// CreateAccount stores an account. ErrConflict if an account that is not revoked has the name.
func (s *Store) CreateAccount(ctx context.Context, a Account, events ...Event) error {
	return s.change(ctx, []statement{accounts.Insert(a, "")}, events)
}

// FirstAccount stores an account only if there has never been one. Rows of accounts are never deleted, so of several callers at
// once one succeeds.
func (s *Store) FirstAccount(ctx context.Context, a Account, events ...Event) (created bool, err error) {
	err = s.change(ctx, []statement{guard("NOT EXISTS(SELECT 1 FROM accounts)"), accounts.Insert(a, "")}, events)
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

var accounts = engine.NewTable[Account]("accounts", "", "")

// Account returns an account by its id, also an expired or revoked one. ErrNotFound if there is none.
func (s *Store) Account(ctx context.Context, id string) (Account, error) {
	return accounts.First(ctx, s.db, "WHERE id = ?", id)
}

// Accounts returns the accounts of a tenant ("": of all), revoked ones too, ordered by name.
func (s *Store) Accounts(ctx context.Context, tenant string) ([]Account, error) {
	return accounts.All(ctx, s.db, "WHERE tenant = ? OR ? = '' ORDER BY name, created_at, id", tenant, tenant)
}

// UpdateAccount changes what a live account may do, if that is still as was says. Its API token and its sessions stay. ErrConflict if the
// account was changed or revoked meanwhile.
func (s *Store) UpdateAccount(ctx context.Context, was Account, tenant string, scopes []string, events ...Event) error {
	same := engine.In("accounts", "id = ? AND tenant = ? AND scopes = ? AND revoked_at IS NULL", was.ID, was.Tenant, engine.JSON(was.Scopes))
	return s.change(ctx, same.Update("tenant = ?, scopes = ?", tenant, engine.JSON(scopes)), events)
}

// RevokeAccount revokes an account of a tenant ("": of any). ErrNotFound if no account of this name or id is left to revoke.
func (s *Store) RevokeAccount(ctx context.Context, tenant, nameOrID string, at time.Time, events ...Event) error {
	live := engine.In("accounts", "(id = ? OR name = ?) AND (tenant = ? OR ? = '') AND revoked_at IS NULL", nameOrID, nameOrID, tenant, tenant)
	return engine.NotFound(s.change(ctx, live.Update("revoked_at = ?", millis(at)), events))
}

// TouchAccount notes that an account was used. An older time changes nothing.
func (s *Store) TouchAccount(ctx context.Context, id string, at time.Time) error {
	return s.change(ctx, []statement{
		do("UPDATE accounts SET last_used_at = ? WHERE id = ? AND COALESCE(last_used_at, 0) < ?", millis(at), id, millis(at)),
	}, nil)
}
