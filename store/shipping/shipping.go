// Package shipping keeps the rules by which logs are shipped to sinks.
//
// A rule holds how a sink lets the gateway in, so the store seals it, among its other secrets.
package shipping

import (
	"context"
	"strings"

	"muster/store"
	"muster/store/engine"
)

// Records is the database, for rules.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

// secretPrefix begins the names of the sealed secrets that rules are.
const secretPrefix = "log-shipping/"

// SecretName is the name of the sealed secret in which a rule is kept.
func SecretName(rule string) string { return secretPrefix + rule }

// Rules are the names of all rules.
func (r Records) Rules(ctx context.Context) ([]string, error) {
	return engine.All(ctx, r.db, func(r *engine.Row) string { return strings.TrimPrefix(r.Text(), secretPrefix) },
		engine.Do("SELECT name FROM secrets WHERE substr(name, 1, length(?)) = ? ORDER BY name", secretPrefix, secretPrefix))
}
