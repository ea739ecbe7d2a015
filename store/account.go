package store

import (
	"context"
	"encoding/base64"
	"errors"
	"time"
)

// Account is an operator or a service account, with a hash of its API token's secret.
type Account struct {
	ID         string // msa_...
	Name       string // unique among the accounts that are not revoked
	Tenant     string // "": all
	Scopes     []string
	SecretHash []byte
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time
	CreatedBy  string // Actor.Name of who made it; empty: not known
	Maker      string // the id of the account that made it; empty: no account did
}

// CreateAccount stores an account. ErrConflict if an account that is not revoked has the name.
func (s *Store) CreateAccount(ctx context.Context, a Account, events ...Event) error {
	return s.change(ctx, []statement{insertAccount(a)}, events)
}

// FirstAccount stores an account only if there has never been one. Rows of accounts are never deleted, so of several callers at
// once one succeeds.
func (s *Store) FirstAccount(ctx context.Context, a Account, events ...Event) (created bool, err error) {
	err = s.change(ctx, []statement{guard("NOT EXISTS(SELECT 1 FROM accounts)"), insertAccount(a)}, events)
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

const accountColumns = "id, name, tenant, scopes, secret_hash, created_at, expires_at, revoked_at, last_used_at, created_by, maker"

func insertAccount(a Account) statement {
	return do("INSERT INTO accounts("+accountColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.ID, a.Name, a.Tenant, list(a.Scopes), base64.StdEncoding.EncodeToString(a.SecretHash),
		millis(a.CreatedAt), maybeMillis(a.ExpiresAt), maybeMillis(a.RevokedAt), maybeMillis(a.LastUsedAt), a.CreatedBy, a.Maker)
}

func readAccount(r *row) Account {
	a := Account{ID: r.Text(), Name: r.Text(), Tenant: r.Text()}
	r.Document(&a.Scopes)
	a.SecretHash = r.Bytes()
	a.CreatedAt = r.Time()
	a.ExpiresAt = r.Maybe()
	a.RevokedAt = r.Maybe()
	a.LastUsedAt = r.Maybe()
	a.CreatedBy = r.Text()
	a.Maker = r.Text()
	return a
}

// Account returns an account by its id, also an expired or revoked one. ErrNotFound if there is none.
func (s *Store) Account(ctx context.Context, id string) (Account, error) {
	return first(ctx, s, readAccount, do("SELECT "+accountColumns+" FROM accounts WHERE id = ?", id))
}

// Accounts returns the accounts of a tenant ("": of all), revoked ones too, ordered by name.
func (s *Store) Accounts(ctx context.Context, tenant string) ([]Account, error) {
	return all(ctx, s, readAccount,
		do("SELECT "+accountColumns+" FROM accounts WHERE tenant = ? OR ? = '' ORDER BY name, created_at, id", tenant, tenant))
}

// UpdateAccount changes what a live account may do, if that is still as was says. Its API token and its sessions stay. ErrConflict if the
// account was changed or revoked meanwhile.
func (s *Store) UpdateAccount(ctx context.Context, was Account, tenant string, scopes []string, events ...Event) error {
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM accounts WHERE id = ? AND tenant = ? AND scopes = ? AND revoked_at IS NULL)", was.ID, was.Tenant,
			list(was.Scopes)),
		do("UPDATE accounts SET tenant = ?, scopes = ? WHERE id = ?", tenant, list(scopes), was.ID),
	}, events)
}

// RevokeAccount revokes an account of a tenant ("": of any). ErrNotFound if no account of this name or id is left to revoke.
func (s *Store) RevokeAccount(ctx context.Context, tenant, nameOrID string, at time.Time, events ...Event) error {
	const which = "(id = ? OR name = ?) AND (tenant = ? OR ? = '') AND revoked_at IS NULL"
	return notFound(s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM accounts WHERE "+which+")", nameOrID, nameOrID, tenant, tenant),
		do("UPDATE accounts SET revoked_at = ? WHERE "+which, millis(at), nameOrID, nameOrID, tenant, tenant),
	}, events))
}

// TouchAccount notes that an account was used. An older time changes nothing.
func (s *Store) TouchAccount(ctx context.Context, id string, at time.Time) error {
	return s.change(ctx, []statement{
		do("UPDATE accounts SET last_used_at = ? WHERE id = ? AND COALESCE(last_used_at, 0) < ?", millis(at), id, millis(at)),
	}, nil)
}
