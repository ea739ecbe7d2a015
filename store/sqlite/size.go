package sqlite

import (
	"context"
	"strconv"

	"muster/store/engine"
)

// Size is how much of the disk a database takes, in bytes. The -wal file beside it comes on top.
type Size struct {
	File int64
	Free int64 // of File: what was deleted, and is used again before the file grows
}

// Size measures the database.
func (db *DB) Size(ctx context.Context) (Size, error) {
	const measure = `SELECT n.page_count * s.page_size, f.freelist_count * s.page_size
		FROM pragma_page_count() n, pragma_freelist_count() f, pragma_page_size() s`
	return engine.First(ctx, db, func(r *engine.Row) Size { return Size{File: r.Number(), Free: r.Number()} }, engine.Do(measure))
}

// Shrink gives at most pages free pages back to the file system. Only a file that was made with Options.Lax can do that; any other file
// stays as it is.
func (db *DB) Shrink(ctx context.Context, pages int) error {
	_, err := db.Batch(ctx, []engine.Statement{engine.Do("PRAGMA incremental_vacuum(" + strconv.Itoa(pages) + ")")})
	return err
}
