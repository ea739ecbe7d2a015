package store

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

// SetMetaGroup writes one meta key for each context, all in one commit, and returns what each caller would have been told. A key
// "" makes a batch that writes "partial" and then fails on a guard; "malformed" one whose statement does not compile.
func SetMetaGroup(s *Store, keys []string, contexts []context.Context) []error {
	jobs, channels := make([]job, len(keys)), make([]chan answer, len(keys))
	for i, key := range keys {
		channels[i] = make(chan answer, 1)
		statements := []statement{do(setMeta, key, "v")}
		switch key {
		case "":
			statements = []statement{do(setMeta, "partial", "v"), guard("0")}
		case "malformed":
			statements = []statement{do(setMeta, "partial", "v"), do("INSERT INTO nowhere VALUES (1)")}
		}
		jobs[i] = job{ctx: contexts[i], statements: statements, answer: channels[i]}
	}
	s.write.commit(jobs)
	errs := make([]error, len(keys))
	for i, channel := range channels {
		errs[i] = (<-channel).err
	}
	return errs
}

// FillDisk makes the writer's connection believe that the file cannot grow.
func FillDisk(s *Store) error {
	for _, pragma := range []string{"PRAGMA max_page_count = 1"} { // rounded up to the pages there are
		if _, err := s.write.conn.ExecContext(context.Background(), pragma); err != nil {
			return err
		}
	}
	return nil
}

// Migrate applies the migrations of a directory to the database file and returns the number of the newest that it had before and
// has now.
func Migrate(ctx context.Context, path string, dir fs.FS) (before, now int, err error) {
	steps, err := migrations(dir)
	if err != nil {
		return 0, 0, err
	}
	w, err := openWriter(ctx, dataSource(path, false))
	if err != nil {
		return 0, 0, err
	}
	before, _ = w.migrated(ctx) // no table yet: 0
	err = w.apply(ctx, steps, time.Unix(0, 0))
	if err == nil {
		now, err = w.migrated(ctx)
	}
	return before, now, errors.Join(err, w.close())
}

// MigrationFiles are the real migrations.
func MigrationFiles() (fs.FS, error) { return fs.Sub(migrationFiles, "migrations") }

// NewSealer gives tests seal and open.
func NewSealer(key []byte) (seal func(place string, value []byte) string, open func(place, sealed string) ([]byte, error), err error) {
	s, err := newSealer(key)
	return s.seal, s.open, err
}

// ReadAll reads one column of each kind from the values of a row and returns the row's error.
func ReadAll(values ...any) error {
	r := row{values: values}
	var document map[string]string
	_, _, _, _, _ = r.text(), r.number(), r.flag(), r.time(), r.maybe()
	_ = r.bytes()
	r.document(&document)
	return r.err
}

// The queries of the sweeps, for their plans.
const (
	DueRenewals       = dueRenewals
	ExpiredNodesQuery = expiredNodes
	LongEnded         = longEnded
)
