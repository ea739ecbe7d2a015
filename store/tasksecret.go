package store

import (
	"context"
	"time"

	"muster/store/engine"
)

// LentSecret is a value that tasks name and that a node gets while such a task runs. Its value is never shown to people again.
type LentSecret struct {
	Tenant    string    `sql:"tenant"`
	Name      string    `sql:"name"`
	CreatedAt time.Time `sql:"created_at"`
	ChangedAt time.Time `sql:"changed_at"`
	ChangedBy string    `sql:"changed_by"`
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
	return engine.NotFound(s.change(ctx, engine.In("lent_secrets", "id = ?", id).Delete(), events))
}

// LentSecrets lists the secrets of a tenant ("": of all), by tenant and name, without their values.
func (s *Store) LentSecrets(ctx context.Context, tenant string) ([]LentSecret, error) {
	return lentSecrets.All(ctx, s.db, "WHERE tenant = ? OR ? = '' ORDER BY tenant, name", tenant, tenant)
}

var lentSecrets = engine.NewTable[LentSecret]("lent_secrets", "", "")

// LentSecretValue returns the value of a tenant's secret, or ErrNotFound.
func (s *Store) LentSecretValue(ctx context.Context, tenant, name string) ([]byte, error) {
	id := lentID(tenant, name)
	sealed, err := s.value(ctx, do("SELECT value FROM lent_secrets WHERE id = ?", id))
	if err != nil {
		return nil, err
	}
	return s.seal.Open(lentPlace(id), sealed)
}

// LendSecrets notes that a task's claimer is given the secrets that the task names. ErrConflict if this certificate has no claim on the
// task, if the task has ended, or if it was lent secrets most times already.
func (s *Store) LendSecrets(ctx context.Context, taskID, fingerprint string, most int, events ...Event) error {
	claimed := engine.In("tasks", "id = ? AND claim_fingerprint = ? AND finished_at IS NULL AND lent < ?", taskID, fingerprint, int64(most))
	return s.change(ctx, claimed.Update("lent = lent + 1"), events)
}

// lentID is unique, because no name of a tenant has a slash.
func lentID(tenant, name string) string { return tenant + "/" + name }

func lentPlace(id string) string { return "lent_secrets/value/" + id }
