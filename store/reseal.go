package store

import (
	"context"

	"muster/store/engine"
)

// sealedColumns are all columns with sealed values. A new one must be added here: otherwise Reseal would leave it under the old
// key. The place of a value is table/column/row id.
var sealedColumns = [...]struct {
	list, set string
	place     func(id string) string
}{
	{"SELECT name, value FROM secrets", "UPDATE secrets SET value = ? WHERE name = ? AND value = ?", secretPlace},
	{"SELECT id, key FROM tokens", "UPDATE tokens SET key = ? WHERE id = ? AND key = ?", tokenPlace},
	{"SELECT id, key FROM psks", "UPDATE psks SET key = ? WHERE id = ? AND key = ?", pskPlace},
	{"SELECT id, mark FROM psks WHERE mark IS NOT NULL", "UPDATE psks SET mark = ? WHERE id = ? AND mark = ?", markPlace},
	{"SELECT id, value FROM lent_secrets", "UPDATE lent_secrets SET value = ? WHERE id = ? AND value = ?", lentPlace},
}

// Reseal seals everything under another master key of 32 bytes. Nobody else may have the database open. This store still seals under the
// old key, so the caller closes it afterwards.
//
// A file gets one batch, so at every moment exactly one of the two keys opens it: nobody else uses the file, so nobody waits. A cluster
// gets pieces. The value that tells which key opens the database is sealed again with the last piece. So after a stop between two pieces
// the old key still opens it, and a second call, which knows what is done, finishes the work. Until then neither key opens all that is in
// it.
func (s *Store) Reseal(ctx context.Context, masterKey []byte, events ...Event) error {
	next, err := engine.NewSealer(masterKey)
	if err != nil {
		return err
	}
	var statements, last []statement
	for _, column := range sealedColumns {
		rows, err := s.query(ctx, do(column.list))
		if err != nil {
			return err
		}
		for _, values := range rows {
			r := row{Values: values}
			id := r.Text()
			sealed := r.Text()
			if r.Err != nil {
				return r.Err
			}
			place := column.place(id)
			value, err := s.seal.Open(place, sealed)
			if err != nil {
				if _, isDone := next.Open(place, sealed); isDone == nil {
					continue
				}
				return err
			}
			st := do(column.set, next.Seal(place, value), id, sealed)
			if place == secretPlace(canary) {
				last = append(last, st)
			} else {
				statements = append(statements, st)
			}
		}
	}
	for s.file == nil && len(statements) > engine.Piece {
		if err := s.change(ctx, statements[:engine.Piece:engine.Piece], nil); err != nil {
			return err
		}
		statements = statements[engine.Piece:]
	}
	return s.change(ctx, append(statements, last...), events)
}
