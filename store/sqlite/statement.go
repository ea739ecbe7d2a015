package sqlite

import "context"

// Statement is one SQL statement with its parameters. They are int64, string or nil, so that it can be sent as JSON. In a file that will
// never stand behind rqlite, []byte may stand for a BLOB too.
//
// rqlite stores a string parameter that looks like x'48' as a BLOB, which a STRICT TEXT column refuses. A backend for rqlite must
// send such text in another form.
type Statement struct {
	SQL     string
	Args    []any
	Returns bool // it has a RETURNING clause, and the caller wants its rows
}

// Result is what one statement of a batch did.
type Result struct {
	Affected int64
	Rows     [][]any // of a statement with Returns
}

// Query runs one SELECT on a snapshot of the committed data. The values in the rows are int64, string, []byte
// or nil. Errors: ErrDamaged.
func (db *DB) Query(ctx context.Context, st Statement) ([][]any, error) {
	return db.read.query(ctx, st)
}

// Batch runs statements atomically: all of them, in order, or none. When it returns nil, they are on disk. Conditions are in the SQL
// and fail as constraint errors, which Batch returns as ErrConflict.
func (db *DB) Batch(ctx context.Context, statements []Statement) ([]Result, error) {
	return db.write.batch(ctx, statements)
}
