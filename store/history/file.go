package history

import (
	"context"
	"embed"
	"io/fs"
	"time"

	"muster/store/engine"
	"muster/store/sqlite"
)

//go:embed migrations/*.sql
var scripts embed.FS

// File is an open file of samples. Its methods may be called from any number of goroutines.
type File struct{ db *sqlite.DB }

// Open opens the file or makes it. Errors: engine.ErrDamaged, engine.ErrNewerDatabase.
func Open(ctx context.Context, path string, now func() time.Time) (*File, error) {
	steps, err := fs.Sub(scripts, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: path, Migrations: steps, Now: now, Lax: true})
	if err != nil {
		return nil, err
	}
	return &File{db}, nil
}

// Close finishes the writes that have begun.
func (f *File) Close() error { return f.db.Close() }

// Outages sets the function that is told about outages, see sqlite.DB.
func (f *File) Outages(tell func(error)) { f.db.Outages(tell) }

// Size returns what the file takes.
func (f *File) Size(ctx context.Context) (sqlite.Size, error) { return f.db.Size(ctx) }

// Shrink gives free pages back to the file system.
func (f *File) Shrink(ctx context.Context, pages int) error { return f.db.Shrink(ctx, pages) }

// Names are the numbers by which the rows and the blobs name a node and its GPUs. A node without a number has Node 0.
type Names struct {
	Node int64
	GPUs map[string]int // by UUID
}

// Name returns the numbers of a node and of these GPUs, and makes missing ones. A node gets at most 256 of them: further GPUs have none.
func (f *File) Name(ctx context.Context, node string, uuids []string, now time.Time) (Names, error) {
	const see = `INSERT INTO nodes(id, seen) VALUES (?, ?) ON CONFLICT(id) DO UPDATE SET seen = max(seen, excluded.seen)`
	batch := []engine.Statement{engine.Do(see,
		node, Hours.Number(now))}
	for _, uuid := range uuids {
		batch = append(batch, engine.Do(`INSERT INTO gpus(node, number, uuid)
			SELECT n.number, (SELECT COALESCE(max(g.number), 0) + 1 FROM gpus g WHERE g.node = n.number), ? FROM nodes n
			WHERE n.id = ? AND (SELECT count(*) FROM gpus g WHERE g.node = n.number) < ? ON CONFLICT DO NOTHING`, uuid, node, int64(mostGPUs)))
	}
	if _, err := f.db.Batch(ctx, batch); err != nil {
		return Names{}, err
	}
	return f.Named(ctx, node)
}

// Named returns the numbers that a node and its GPUs have.
func (f *File) Named(ctx context.Context, node string) (Names, error) {
	names := Names{GPUs: map[string]int{}}
	_, err := engine.All(ctx, f.db, func(r *engine.Row) int {
		names.Node = r.Number()
		if number, uuid := r.Integer(), r.Text(); number != nil {
			names.GPUs[uuid] = int(*number)
		}
		return 0
	}, engine.Do("SELECT n.number, g.number, g.uuid FROM nodes n LEFT JOIN gpus g ON g.node = n.number WHERE n.id = ?", node))
	return names, err
}

// Forget drops the names of nodes that had no sample since a day. No row of theirs may be left.
func (f *File) Forget(ctx context.Context, before time.Time) error {
	day := Hours.Number(before)
	_, err := f.db.Batch(ctx, []engine.Statement{
		engine.Do("DELETE FROM gpus WHERE node IN (SELECT number FROM nodes WHERE seen < ?)", day),
		engine.Do("DELETE FROM nodes WHERE seen < ?", day),
	})
	return err
}
