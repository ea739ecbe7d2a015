package store

import (
	"context"
	"errors"
	"strings"

	"muster/store/engine"
)

// canary is a secret whose value is known. It opens only with the right master key.
const canary = "canary"

// checkKept is checkCanary for a database that another process has made.
func (s *Store) checkKept(ctx context.Context) error {
	_, err := s.Secret(ctx, canary)
	if errors.Is(err, engine.ErrSealed) {
		return ErrWrongMasterKey
	}
	return err
}

// checkMade is checkKept for a database that may be empty: a wrong key is found out before anything is changed.
func (s *Store) checkMade(ctx context.Context) error {
	rows, err := s.query(ctx, do("SELECT 1 FROM sqlite_master WHERE name = 'secrets'"))
	if err != nil || len(rows) == 0 {
		return err
	}
	if err := s.checkKept(ctx); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// Secret returns one of the gateway's own secrets, unsealed, or ErrNotFound.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	sealed, err := s.value(ctx, do("SELECT value FROM secrets WHERE name = ?", name))
	if err != nil {
		return nil, err
	}
	return s.seal.Open(secretPlace(name), sealed)
}

// SecretOnce seals and stores a secret unless the name has one, and returns the secret that the name has now. Of several callers at
// once, all get the same secret.
func (s *Store) SecretOnce(ctx context.Context, name string, value []byte) ([]byte, error) {
	kept, err := s.once(ctx,
		do("INSERT INTO secrets(name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", name, s.seal.Seal(secretPlace(name), value)),
		do("SELECT value FROM secrets WHERE name = ?", name))
	if err != nil {
		return nil, err
	}
	return s.seal.Open(secretPlace(name), kept)
}

// SetSecret seals and stores a secret in place of the earlier one.
func (s *Store) SetSecret(ctx context.Context, name string, value []byte, events ...Event) error {
	const set = "INSERT INTO secrets(name, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
	return s.change(ctx, []statement{do(set, name, s.seal.Seal(secretPlace(name), value))}, events)
}

// DropSecret deletes a secret. ErrNotFound if there is none.
func (s *Store) DropSecret(ctx context.Context, name string, events ...Event) error {
	return engine.NotFound(s.change(ctx, []statement{
		guard("EXISTS(SELECT 1 FROM secrets WHERE name = ?)", name),
		do("DELETE FROM secrets WHERE name = ?", name),
	}, events))
}

// Secrets returns the names of the secrets that begin with a prefix, in order and without it.
func (s *Store) Secrets(ctx context.Context, prefix string) ([]string, error) {
	return s.Records().Secrets(ctx, prefix)
}

// Secrets is Store.Secrets for the packages of records.
func (r Records) Secrets(ctx context.Context, prefix string) ([]string, error) {
	return engine.All(ctx, r, func(r *row) string { return strings.TrimPrefix(r.Text(), prefix) },
		do("SELECT name FROM secrets WHERE substr(name, 1, length(?)) = ? ORDER BY name", prefix, prefix))
}

func secretPlace(name string) string { return "secrets/value/" + name }

// checkCanary fails if the database was sealed under another master key. Open calls it first, so that nothing is ever sealed under
// a wrong key. A new database gets its canary here.
func (s *Store) checkCanary(ctx context.Context) error {
	_, err := s.SecretOnce(ctx, canary, []byte(canary))
	if errors.Is(err, engine.ErrSealed) {
		return ErrWrongMasterKey
	}
	return err
}
