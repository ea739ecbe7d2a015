package store

import (
	"context"
	"time"
)

// LentSecret is a value that tasks name and that a node gets while such a task runs. Its value is never shown to people again.
type LentSecret struct {
	Tenant    string
	Name      string
	CreatedAt time.Time
	ChangedAt time.Time
	ChangedBy string
}

// SetLentSecret seals and stores the value of a tenant's secret, in place of the earlier one. ChangedAt of the secret says when.
func (s *Store) SetLentSecret(ctx context.Context, secret LentSecret, value []byte, events ...Event) error {
	const set = `INSERT INTO lent_secrets(id, tenant, name, value, created_at, changed_at, changed_by) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at, changed_by = excluded.changed_by`
	id := lentID(secret.Tenant, secret.Name)
	return s.change(ctx, []statement{
		do(set, id, secret.Tenant, secret.Name, s.seal.Seal(lentPlace(id), value), millis(secret.ChangedAt), millis(secret.ChangedAt),
			secret.ChangedBy),
	}, events)
}

// DropLentSecret deletes a tenant's secret. ErrNotFound if there is none.
func (s *Store) DropLentSecret(ctx context.Context, tenant, name string, events ...Event) error {
	id := lentID(tenant, name)
	return notFound(s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM lent_secrets WHERE id = ?)", id),
		do("DELETE FROM lent_secrets WHERE id = ?", id),
	}, events))
}

// LentSecrets lists the secrets of a tenant ("": of all), by tenant and name, without their values.
func (s *Store) LentSecrets(ctx context.Context, tenant string) ([]LentSecret, error) {
	return all(ctx, s, func(r *row) LentSecret {
		return LentSecret{Tenant: r.Text(), Name: r.Text(), CreatedAt: r.Time(), ChangedAt: r.Time(), ChangedBy: r.Text()}
	}, do(`SELECT tenant, name, created_at, changed_at, changed_by FROM lent_secrets WHERE tenant = ? OR ? = ''
		ORDER BY tenant, name`, tenant, tenant))
}

// LentSecretValue returns the value of a tenant's secret, or ErrNotFound.
func (s *Store) LentSecretValue(ctx context.Context, tenant, name string) ([]byte, error) {
	id := lentID(tenant, name)
	sealed, err := s.value(ctx, do("SELECT value FROM lent_secrets WHERE id = ?", id))
	if err != nil {
		return nil, err
	}
	return s.seal.Open(lentPlace(id), sealed)
}

// LendSecrets notes that a task's claimer is given the secrets that the task names. ErrConflict if this certificate has no claim on it, if
// it has ended, or if that happened so often already.
func (s *Store) LendSecrets(ctx context.Context, taskID, fingerprint string, most int, events ...Event) error {
	return s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM tasks WHERE id = ? AND claim_fingerprint = ? AND finished_at IS NULL AND lent < ?)", taskID, fingerprint,
			int64(most)),
		do("UPDATE tasks SET lent = lent + 1 WHERE id = ?", taskID),
	}, events)
}

// lentID is unique, because no name of a tenant has a slash.
func lentID(tenant, name string) string { return tenant + "/" + name }

func lentPlace(id string) string { return "lent_secrets/value/" + id }
