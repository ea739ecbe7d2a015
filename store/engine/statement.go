// Package engine is what the store's engines share: statements and their results, rows, errors, the steps of a schema, and the sealing of
// secrets. It knows no table, and no database.
package engine

// Statement is one SQL statement with its parameters. They are int64, string or nil, so that it can be sent as JSON. In a file that will
// never be used with rqlite, []byte may stand for a BLOB too.
//
// rqlite stores a string parameter that looks like x'48' as a BLOB, which a STRICT TEXT column refuses. A backend for rqlite must
// send such text in another form.
type Statement struct {
	SQL  string
	Args []any
}

// Result is what one statement of a batch did.
type Result struct{ Affected int64 }

// Piece is the greatest number of rows in one batch whose rows grow with the fleet: other writers wait for the batch, and a cluster sends
// it to all its machines as one message.
const Piece = 500
