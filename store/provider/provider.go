// Package provider keeps the records of machines that are rented from companies: the accounts, what they show, what is wrong with that,
// until when somebody pays, what is being rented, and what it has cost.
//
// Money is in millionths of a dollar; prices and limits are an hour's. What may be spent is bound by conditions in the batch that stores
// the intent to rent, so any number of callers at once cannot pass a limit.
//
// The conditions of every write stand in its SQL. A write whose condition is not true is store.ErrConflict and changes nothing.
package provider

import (
	"context"
	"errors"

	"muster/store"
	"muster/store/engine"
)

// Records is the database, for rented machines. Its methods may be called from any number of goroutines.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

// noAccount turns the conflict of a write into ErrNotFound, if the account is not there.
func (r Records) noAccount(ctx context.Context, account string, err error) error {
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	if _, gone := r.account(store.Fresh(ctx), account); gone != nil {
		return gone
	}
	return err
}

// known is a condition of the writes about an account.
func known(account string) engine.Statement {
	return engine.Guard("EXISTS(SELECT 1 FROM providers WHERE name = ?)", account)
}
