package sqlite

import (
	"context"

	"muster/store/engine"
)

// BatchGroup runs batches, each with its own context, all in one commit, and returns what each caller would have been told.
func BatchGroup(db *DB, batches [][]engine.Statement, contexts []context.Context) []error {
	jobs := make([]job, len(batches))
	channels := make([]chan answer, len(batches))
	for i, batch := range batches {
		channels[i] = make(chan answer, 1)
		jobs[i] = job{ctx: contexts[i], statements: batch, answer: channels[i]}
	}
	db.write.commit(jobs)
	errs := make([]error, len(batches))
	for i, channel := range channels {
		errs[i] = (<-channel).err
	}
	return errs
}

// Pragma reads a setting of the connection that writes.
func Pragma(db *DB, name string) (value string, err error) {
	err = db.write.conn.QueryRowContext(context.Background(), "PRAGMA "+name).Scan(&value)
	return value, err
}

// FillDisk makes the writer's connection believe that the file cannot grow.
func FillDisk(db *DB) error {
	_, err := db.write.conn.ExecContext(context.Background(), "PRAGMA max_page_count = 1") // rounded up to the pages there are
	return err
}
