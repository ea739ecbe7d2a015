package store

import "context"

// statement is one SQL statement with its parameters: int64, string or nil, nothing else, so that it can travel as JSON.
//
// rqlite stores a string parameter that looks like x'48' as a BLOB, which a STRICT TEXT column refuses; a backend for it has to
// send such text in another form. Here text is text.
type statement struct {
	sql  string
	args []any
	// returns says that the statement has a RETURNING clause whose rows are wanted.
	returns bool
}

// result is what one statement of a batch did.
type result struct {
	affected int64
	rows     [][]any // of a statement that returns
}

// query runs one SELECT on a snapshot of what is committed. The rows' values are int64, string or nil.
func (s *Store) query(ctx context.Context, st statement) ([][]any, error) {
	return s.read.query(ctx, st)
}

// batch runs statements atomically: all of them, in order, or none. When it returns nil they are on disk. Conditions are in the
// SQL, failing as constraint errors, which come out as ErrConflict: nothing here can look at one statement to decide on the next.
func (s *Store) batch(ctx context.Context, statements []statement) ([]result, error) {
	return s.write.batch(ctx, statements)
}

// do makes a statement.
func do(sql string, args ...any) statement { return statement{sql: sql, args: args} }

// guard makes a statement that aborts its batch unless the condition, an SQL expression, is true. VALUES, because SQLite would
// collect the rows of a SELECT in a table of their own first, for the trigger's sake.
func guard(condition string, args ...any) statement {
	return do("INSERT INTO guards(held) VALUES ("+condition+")", args...)
}
