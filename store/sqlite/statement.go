package sqlite

import "context"

// Statement is one SQL statement with its parameters: int64, string or nil, nothing else, so that it can travel as JSON.
//
// rqlite stores a string parameter that looks like x'48' as a BLOB, which a STRICT TEXT column refuses. A backend for it has to
// send such text in another form. Here text is text.
type Statement struct {
	SQL     string
	Args    []any
	Returns bool // it has a RETURNING clause whose rows are wanted
}

// Result is what one statement of a batch did.
type Result struct {
	Affected int64
	Rows     [][]any // of a statement that returns
}

// Query runs one SELECT on a snapshot of what is committed. The rows' values are int64, string or nil.
func (db *DB) Query(ctx context.Context, st Statement) ([][]any, error) {
	return db.read.query(ctx, st)
}

// Batch runs statements atomically: all of them, in order, or none. When it returns nil they are on disk. Conditions are in the
// SQL. They fail as constraint errors, which come out as ErrConflict.
func (db *DB) Batch(ctx context.Context, statements []Statement) ([]Result, error) {
	return db.write.batch(ctx, statements)
}
